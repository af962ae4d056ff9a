"""Clients that play whole hands: what they may do follows from what they have been told, and from nothing else."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import doudizhu
from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from doudizhu import book_of
from doudizhu import hand as rules
from doudizhu.cards import RANKS
from tests.services.table.stack import Client, TableNode, act, look, until


def seen_hand(snapshot: events_pb2.Snapshot) -> rules.Hand:
    """The hand as the snapshot of a seat shows it: enough for the legal actions of that seat."""
    book = book_of(snapshot.terms.book, snapshot.terms.book_fields_json)
    phase = events_pb2.Phase.Name(snapshot.clock.phase).removeprefix("PHASE_")
    one, two, three = (tuple(seat.cards.cards) or None for seat in snapshot.seats)
    on_table = None
    if snapshot.HasField("on_table"):
        combo = snapshot.on_table
        on_table = doudizhu.Combo(combo.type, RANKS.index(combo.rank), combo.body, tuple(combo.cards))
    return rules.Hand(
        book=book,
        phase=rules.Phase[phase],
        hands=(one, two, three),
        turn=snapshot.clock.seat,
        landlord=snapshot.landlord if snapshot.HasField("landlord") else None,
        level=snapshot.level,
        on_table=on_table,
    )


def action_of(chosen: rules.Action) -> dict[str, Any]:
    """The command's field for an action."""
    match chosen:
        case rules.Bid():
            return {"bid": hand_pb2.Bid(level=chosen.level)}
        case rules.Call():
            return {"call": hand_pb2.Call(call=chosen.call)}
        case rules.Rob():
            return {"rob": hand_pb2.Rob(rob=chosen.rob)}
        case rules.Show():
            return {"show": hand_pb2.Show(show=chosen.show)}
        case rules.Play():
            return {"play": hand_pb2.PlayCards(cards=chosen.cards)}
    return {"pass": hand_pb2.Pass()}


def choose(snapshot: events_pb2.Snapshot, rng: random.Random) -> dict[str, Any]:
    """A legal action for the seat on turn: the highest choice in the auction, else the longest play."""
    hand = seen_hand(snapshot)
    legal = doudizhu.legal_actions(hand, snapshot.you)
    if hand.phase is rules.Phase.PLAY:  # whether the landlord has led is not in the snapshot
        legal = tuple(one for one in legal if not isinstance(one, rules.Show))
    plays = [one for one in legal if isinstance(one, rules.Play)]
    if plays:
        return action_of(max(plays, key=lambda one: (len(one.cards), rng.random())))
    return action_of(legal[-1] if rng.random() < 0.7 else rng.choice(legal))


_TURNS = {
    events_pb2.PHASE_BID,
    events_pb2.PHASE_CALL,
    events_pb2.PHASE_ROB,
    events_pb2.PHASE_SHOW,
    events_pb2.PHASE_PLAY,
}


async def play_hands(nodes: list[TableNode], table_id: str, player_ids: list[str], hands: int, seed: int = 1) -> None:
    """Plays by Act on nodes in turn until so many hands are settled."""
    rng = random.Random(seed)
    async with asyncio.timeout(60):
        while True:
            snapshot = await look(nodes[0], table_id, player_ids[0])
            number = int(snapshot.hand_id.rpartition("-")[2] or 0)
            done = number - 1 + (snapshot.last_result.hand_id == snapshot.hand_id)
            if done >= hands:
                return
            if snapshot.clock.phase not in _TURNS:
                await asyncio.sleep(0.002)
                continue
            node = rng.choice(nodes)
            player_id = snapshot.seats[snapshot.clock.seat].player.player_id
            mine = await look(node, table_id, player_id)
            if mine.clock.seat == mine.you and mine.clock.phase in _TURNS:
                await act(node, table_id, player_id, **choose(mine, rng))


async def begin(clients: list[Client], book: str) -> None:
    """Does what the book asks for before a hand; then there is one."""
    if book == "classic":
        await clients[0].act(set_base=table_pb2.SetBase(base_chips=10))
        for client in clients[1:]:
            await client.act(answer_base=table_pb2.AnswerBase(agree=True))
    if book == "happy":
        for client in clients:
            await client.act(ready=table_pb2.Ready(ready=True))
    await until(lambda: "dealt" in clients[0].names() or (clients[0].snapshot and clients[0].snapshot.hand_id))
