"""The whole life of a table: opened, watched by three streams, one hand played by bots, left, and closed by itself."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

import doudizhu
from ddz.common.v1 import common_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu import hand as rules
from tests.bench.table_script import TERMS, Step, hand_script

_NOT_YET_S: Final = 0.003


def terms() -> common_pb2.Terms:
    """As the bench's, with time to leave after a hand."""
    longer = common_pb2.Terms()
    longer.CopyFrom(TERMS)
    longer.clocks.countdown_ms = 600_000
    return longer


def longest(hand: rules.Hand, seat: int) -> rules.Action:
    """The first call, then whatever puts down most cards: a bot of few words, so that hands are short."""
    if hand.phase is not rules.Phase.PLAY:
        return rules.Call(seat, True) if hand.phase is rules.Phase.CALL else doudizhu.default_action(hand)
    plays = [one for one in doudizhu.legal_actions(hand, seat) if isinstance(one, rules.Play)]
    return max(plays, key=lambda one: len(one.cards)) if plays else rules.Pass(seat)


async def live(
    stub: table_pb2_grpc.TableServiceAsyncStub,
    internal: table_pb2_grpc.TableInternalServiceAsyncStub,
    table_id: str,
    player_ids: list[str],
) -> int:
    """Lives it to the end; the number of actions. The node deals from `table_script.DEAL_SEED`."""
    players = [common_pb2.Player(player_id=player_id, bot=True) for player_id in player_ids]
    await internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=terms(), players=players))
    streams = [await _stream(stub, table_id, player_id) for player_id in player_ids]
    script = hand_script(table_id, 1, longest)
    for step in script:
        await _insist(streams[step.seat], step)
    await _insist(streams[0], Step(0, table_pb2.Command(command_id="bye", leave=table_pb2.Leave())))
    for stream in streams:
        await _to_the_end(stream)
    return len(script)


async def _stream(stub: table_pb2_grpc.TableServiceAsyncStub, table_id: str, player_id: str) -> Any:
    stream = stub.Play(metadata=(("x-player-id", player_id),))
    await stream.write(table_pb2.PlayRequest(table_id=table_id))
    return stream


async def _insist(stream: Any, step: Step) -> None:
    """Asks until it is done: the ledger may still be opening the hand."""
    command_id = step.command.command_id
    for number in itertools.count():
        step.command.command_id = f"{command_id}-{number}"
        await stream.write(table_pb2.PlayRequest(command=step.command))
        if await _answer(stream, step.command.command_id):
            return
        await asyncio.sleep(_NOT_YET_S)


async def _answer(stream: Any, command_id: str) -> bool:
    while isinstance(frame := await stream.read(), table_pb2.PlayResponse):
        if any(one.command_id == command_id for one in (*frame.events.accepted, frame.accepted)):
            return True
        if frame.refused.command_id == command_id:
            return False
    raise AssertionError("the stream ended before its time")


async def _to_the_end(stream: Any) -> None:
    while isinstance(await stream.read(), table_pb2.PlayResponse):
        pass
