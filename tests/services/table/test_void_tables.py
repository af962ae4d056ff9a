"""An operator ends tables that are stuck, whatever they are stuck by, and looks at their logs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from redis.asyncio import Redis

from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import events_pb2, table_pb2
from services.table import effects
from services.table.item import Make
from services.table.store import Store
from tests.services.table.bots import begin
from tests.services.table.stack import Stack, look, terms, until
from tests.services.table.test_streams import LONG, close, happy_hand


@contextlib.asynccontextmanager
async def log_of(stack: Stack, table_id: str) -> AsyncIterator[tuple[Redis, str]]:
    redis = Redis.from_url(stack.redis_url)
    store: Store = stack.nodes[0].service.node.store
    try:
        yield redis, f"{{{store._shard(table_id)}}}:t:{table_id}:log"
    finally:
        await redis.aclose()


Wrong = Callable[[int], bytes]


def entry(**event: Any) -> bytes:
    return events_pb2.LogEntry(events=[events_pb2.Event(**event)]).SerializeToString()


# Entries that a fault of ours could leave behind the last event, whose number they are given, and the kinds of error
# that they lead to: nobody can fold the log any more.
WRONG: dict[str, Wrong] = {
    "assertion": lambda last: entry(seq=last + 5, ready_set=events_pb2.ReadySet(seat=1)),
    "index": lambda last: entry(seq=last + 1, ready_set=events_pb2.ReadySet(seat=9)),
    "no event": lambda last: entry(seq=last + 1),
    "no message": lambda _: b"\xff\xff",
}


async def break_log(stack: Stack, table_id: str, wrong: Wrong) -> int:
    """Adds a wrong entry; its number."""
    async with log_of(stack, table_id) as (redis, key):
        [(last, _)] = await redis.xrevrange(key, count=1) or []
        assert isinstance(last, bytes)
        seq = int(last.partition(b"-")[0])
        data = wrong(seq)
        seq += 5 if wrong is WRONG["assertion"] else 1
        await redis.xadd(key, {"e": data}, id=f"{seq}-0")
        return seq


async def void(stack: Stack, table_id: str, node: int = 0) -> str:
    request = table_pb2.VoidTableRequest(table_id=table_id, reason="stuck")
    return (await stack.nodes[node].internal.VoidTable(request)).hand_id


async def read(stack: Stack, table_id: str) -> table_pb2.ReadLogResponse:
    return await stack.nodes[0].internal.ReadLog(table_pb2.ReadLogRequest(table_id=table_id))


async def open_hands(stack: Stack) -> set[str]:
    found = await stack.ledger.ListOpenHands(ledger_pb2.ListOpenHandsRequest(limit=1000))
    return {hand.table_id for hand in found.hands}


async def test_a_live_hand_is_void_here_and_in_the_ledger_on_whatever_node(stack: Stack) -> None:
    table_id, _, clients = await happy_hand(stack)
    hand_id = await void(stack, table_id, node=1)
    assert hand_id.startswith(table_id)
    for client in clients:
        await client.until_told("closed")
        [told] = [event.hand_voided for event in client.events if event.HasField("hand_voided")]
        assert told.reason == "operator"
    assert table_id not in await open_hands(stack)
    assert await void(stack, table_id) == hand_id
    await close(clients)


async def test_a_hand_that_begins_meanwhile_is_void_in_the_ledger_too(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the operator's call and the decision at the table the last of three gets ready."""
    players = await stack.players()
    table_id = await stack.open(terms("happy", clocks=LONG), players)
    clients = [await stack.client(player.player_id, table_id, node=1).open() for player in players]
    actor = stack.nodes[0].service.node.actor(table_id)
    ask = actor.ask

    async def ask_late(make: Make) -> int:
        await begin(clients, "happy")
        return await ask(make)

    monkeypatch.setattr(actor, "ask", ask_late)
    assert (await void(stack, table_id)).startswith(table_id)
    assert table_id not in await open_hands(stack)
    await close(clients)


@pytest.mark.parametrize("comes", [True, False])
async def test_a_hand_that_may_be_on_its_way_to_the_ledger_is_waited_for(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    asked = asyncio.Event()

    async def without_an_answer(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    ledger = stack.nodes[0].service.node._ledger
    monkeypatch.setattr(ledger, "open", without_an_answer)
    monkeypatch.setattr(effects, "_LATE_S", 60.0 if comes else 0.2)
    players = await stack.players()
    table_id = await stack.open(terms("happy", clocks=LONG), players)
    clients = [await stack.client(player.player_id, table_id).open() for player in players]
    for client in clients:
        await client.act(ready=table_pb2.Ready(ready=True))
    await asked.wait()
    voided, void_hand = asyncio.Event(), ledger._stub.VoidHand

    async def void_aloud(request: ledger_pb2.VoidHandRequest, timeout: float) -> ledger_pb2.VoidHandResponse:
        try:
            return await void_hand(request, timeout=timeout)
        finally:
            voided.set()

    monkeypatch.setattr(ledger._stub, "VoidHand", void_aloud)
    voiding = asyncio.create_task(void(stack, table_id))
    await voided.wait()  # the ledger has said that there is no such hand
    hand_id = f"{table_id}-1"
    if comes:
        ids = [player.player_id for player in players]
        await stack.ledger.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=ids, table_id=table_id))
    assert await voiding == (hand_id if comes else "")
    assert table_id not in await open_hands(stack)
    await close(clients)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_a_table_that_its_own_actor_cannot_read_is_put_aside(stack: Stack, wrong: Wrong) -> None:
    table_id, ids, clients = await happy_hand(stack)
    seq = await break_log(stack, table_id, wrong)
    found = await read(stack, table_id)
    assert found.events[-1].seq == seq
    assert found.live_hand_id.startswith(table_id)
    [dealt] = [event.dealt for event in found.events if event.HasField("dealt")]
    assert [len(hand.cards) for hand in dealt.hands] == [0, 0, 0]
    assert table_id in await open_hands(stack)
    assert await void(stack, table_id) == found.live_hand_id
    assert table_id not in await open_hands(stack)
    async with log_of(stack, table_id) as (redis, key):
        assert await redis.pttl(f"{key.removesuffix('log')}aside") > 0
    assert await stack.nodes[0].service.node.store.next_deadline(table_id) is None
    for client in clients:  # on whatever node
        goodbye = await until(client.goodbye)
        assert (goodbye.why, goodbye.reconnect) == ("closed", False)
    for call in (look(stack.nodes[0], table_id, ids[0]), void(stack, table_id)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert await read(stack, table_id) == found
    await close(clients)


async def test_what_is_no_table_is_not_found(stack: Stack) -> None:
    for call in (void(stack, "t-none"), read(stack, "t-none")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
