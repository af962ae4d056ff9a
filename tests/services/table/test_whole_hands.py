"""Whole hands of the three books over two nodes, settled by the ledger, recomputable from their records."""

from __future__ import annotations

import pytest

import doudizhu
from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from doudizhu import book_of
from doudizhu import hand as rules
from doudizhu.cards import RANKS
from tests.services.table.bots import begin, play_hands
from tests.services.table.stack import Stack, terms


def replay(record: hand_pb2.HandRecord) -> rules.Hand:
    """The hand that a record describes, dealt and played again from its proofs and actions alone."""
    book = book_of(record.terms.book, record.terms.book_fields_json)
    hand = doudizhu.start(book, record.terms.initial_multiplier, record.redeals)
    for step in record.actions:
        for event in doudizhu.decide(hand, _action(book, step)):
            hand = doudizhu.evolve(hand, event)
    return hand


def _action(book: doudizhu.RuleBook, step: hand_pb2.HandAction) -> rules.Action:
    name = step.WhichOneof("action")
    body = getattr(step, name or "")
    match name:
        case "deal":
            assert doudizhu.commitment(body.server_seed) == body.commitment
            return rules.DealCards(doudizhu.deal_cards(book, body.deal_id, body.server_seed, body.client_seeds))
        case "close_show":
            return rules.CloseShowWindow()
        case "bid":
            return rules.Bid(step.seat, body.level)
        case "call":
            return rules.Call(step.seat, body.call)
        case "rob":
            return rules.Rob(step.seat, body.rob)
        case "show":
            return rules.Show(step.seat, body.show)
        case "play":
            return rules.Play(step.seat, tuple(body.cards), body.type or None, RANKS.index(body.rank))
        case "pass":
            return rules.Pass(step.seat)
        case "flee":
            return rules.Flee(step.seat, body.elapsed_s)
    raise AssertionError(name)


@pytest.mark.parametrize("book", ["classic", "happy", "rob"])
async def test_hands_are_played_settled_and_recomputable(stack: Stack, book: str) -> None:
    players = await stack.players()
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms(book), players)
    clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
    await begin(clients, book)
    await play_hands(stack.nodes, table_id, ids, hands=3)
    for number in (1, 2, 3):
        hand_id = f"{table_id}-{number}"
        stored = await stack.hands.GetHand(ledger_pb2.GetHandRequest(hand_id=hand_id))
        hand = replay(stored.record)
        assert hand.phase is rules.Phase.OVER
        assert stored.record.outcome.multiplier == hand.multiplier
        assert stored.record.outcome.landlord == hand.landlord
        assert sum(seat.chips for seat in stored.settlement.seats) + stored.settlement.system_chips == 0
    for client in clients:
        await client.close()
