"""A recorded hand computed again: true records agree, and every kind of tampering is found (BR-104)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.ledger.v1.ledger_pb2 import GetHandResponse, SeatResult, Settlement
from ddzclient.cli import main
from ddzclient.verify import verify
from doudizhu import (
    BOOKS,
    Hand,
    Phase,
    RuleBook,
    Side,
    Stakes,
    commitment,
    deal_cards,
    decide,
    evolve,
    legal_actions,
    outcome,
    settle,
    start,
)
from doudizhu.cards import RANKS
from doudizhu.hand import Action, CloseShowWindow, DealCards, Flee, Pass, Play
from tests.rules.build import seed

HAND_ID = "table-7-1"
_SIDES = {None: hand_pb2.SIDE_UNSPECIFIED, Side.LANDLORD: hand_pb2.SIDE_LANDLORD, Side.FARMERS: hand_pb2.SIDE_FARMERS}


def recorded(book: RuleBook, number: int, flees: bool = False) -> GetHandResponse:
    """The record and settlement of a random hand that is won or fled."""
    rng = random.Random(number)
    record = hand_pb2.HandRecord(
        hand_id=HAND_ID,
        record_version=1,
        started_at_ms=999_000,
        terms=common_pb2.Terms(room_id="room", book=book.id, initial_multiplier=2, rake_chips=3),
        base_chips=10,
        redeals=1 if book.id == "classic" else 0,
        players=[common_pb2.Player(player_id=f"p{seat}") for seat in range(3)],
    )
    hand = start(book, 2, record.redeals)
    now_ms = 1_000_000
    while hand.phase is not Phase.OVER:
        now_ms += rng.randrange(3000)
        action = _next(hand, rng, record, now_ms, flees)
        for event in decide(hand, action):
            hand = evolve(hand, event)
    if hand.voided:
        return recorded(book, number + 1000, flees)
    end = outcome(hand)
    record.ended_at_ms = now_ms
    record.outcome.CopyFrom(
        hand_pb2.Outcome(
            winner=_SIDES[end.winner],
            landlord=end.landlord,
            level=end.level,
            multiplier=end.multiplier,
            flee_multiplier=end.flee_multiplier,
            fled=end.fled,
            elapsed_s=end.elapsed_s,
            factors=[
                hand_pb2.FactorProduct(factor=hand_pb2.Factor.Value(f"FACTOR_{factor.name}"), product=product)
                for factor, product in hand.factors
            ],
        )
    )
    return GetHandResponse(record=record, settlement=_settled(book, hand, rng))


def _next(hand: Hand, rng: random.Random, record: hand_pb2.HandRecord, now_ms: int, flees: bool) -> Action:
    entry = record.actions.add(seat=-1, at_ms=now_ms)
    if hand.phase is Phase.AWAIT_DEAL:
        deal_id = f"{HAND_ID}.{hand.deals}" if hand.deals else HAND_ID
        server, clients = seed(rng.randrange(10**9)), [rng.randbytes(8), b"", b""]
        proof = hand_pb2.DealProof(
            deal_id=deal_id, commitment=commitment(server), server_seed=server, client_seeds=clients
        )
        entry.deal.CopyFrom(proof)
        return DealCards(deal_cards(hand.book, deal_id, server, clients))
    if hand.turn is None:
        entry.close_show.SetInParent()
        return CloseShowWindow()
    entry.seat = hand.turn
    if flees and rng.random() < 0.1:
        dealt_at_ms = next(action.at_ms for action in record.actions if action.HasField("deal"))
        entry.flee.elapsed_s = (now_ms - dealt_at_ms) // 1000
        return Flee(hand.turn, entry.flee.elapsed_s)
    return _written(entry, rng.choice(legal_actions(hand, hand.turn)))


def _written(entry: hand_pb2.HandAction, action: Action) -> Action:
    if isinstance(action, Play):
        rank = "" if action.rank is None else RANKS[action.rank]
        entry.play.CopyFrom(hand_pb2.PlayCards(cards=action.cards, type=action.type or "", rank=rank))
    elif isinstance(action, Pass):
        getattr(entry, "pass").SetInParent()
    else:
        name = type(action).__name__.lower()
        message = getattr(entry, name)
        message.SetInParent()
        field = "level" if name == "bid" else name
        setattr(message, field, getattr(action, field))
    return action


def _settled(book: RuleBook, hand: Hand, rng: random.Random) -> Settlement:
    one, two, three = (rng.randrange(2000) for _ in range(3))
    balances, ratings = (one, two, three), (three, one, two)
    result = settle(book, outcome(hand), Stakes(10, 3, balances, balances, ratings))
    rating = result.rating or (0, 0, 0)
    seats = [
        SeatResult(
            player_id=f"p{seat}",
            carried_chips=balances[seat],
            balance_before_chips=balances[seat],
            chips=result.chips[seat],
            rake_chips=result.rake[seat],
            balance_after_chips=balances[seat] + result.chips[seat],
            rating=rating[seat],
            rating_before=ratings[seat],
            rating_after=ratings[seat] + rating[seat],
        )
        for seat in range(3)
    ]
    return Settlement(hand_id=HAND_ID, seats=seats, system_chips=result.system)


@settings(max_examples=50)
@given(st.sampled_from(list(BOOKS.values())), st.integers(0, 10**6), st.booleans())
def test_a_true_record_agrees(book: RuleBook, number: int, flees: bool) -> None:
    hand = recorded(book, number, flees)
    assert verify(hand.record, hand.settlement) == []
    assert verify(hand.record) == []


def first(hand: GetHandResponse, kind: str) -> hand_pb2.HandAction:
    return next(action for action in hand.record.actions if action.WhichOneof("action") == kind)


def _change(path: str, value: object) -> Callable[[GetHandResponse], None]:
    *steps, last = path.split(".")

    def change(hand: GetHandResponse) -> None:
        target: object = hand
        for name in steps:
            target = target[int(name)] if name.isdigit() else getattr(target, name)  # type: ignore[index]
        setattr(target, last, value)

    return change


TAMPERINGS: dict[str, tuple[Callable[[GetHandResponse], object], str]] = {
    "winner": (_change("record.outcome.winner", 0), "The winner"),
    "landlord": (_change("record.outcome.landlord", 7), "The landlord"),
    "fled": (_change("record.outcome.fled", 0), "The seat that fled"),
    "level": (_change("record.outcome.level", 9), "The level"),
    "multiplier": (_change("record.outcome.multiplier", 10**9), "The multiplier"),
    "flee multiplier": (_change("record.outcome.flee_multiplier", 2), "The flee multiplier"),
    "factors": (lambda hand: hand.record.outcome.ClearField("factors"), "The multiplier by factor"),
    "base": (_change("record.base_chips", 9), "Seat 0's chips"),
    "chips": (_change("settlement.seats.1.chips", 12345), "Seat 1's chips"),
    "rake": (_change("settlement.seats.2.rake_chips", 4), "Seat 2's rake"),
    "balance": (_change("settlement.seats.0.balance_after_chips", 1), "Seat 0's balance after"),
    "rating": (_change("settlement.seats.0.rating", 99_999), "Seat 0's rating"),
    "rating after": (_change("settlement.seats.0.rating_after", 99_999), "Seat 0's rating after"),
    "system": (_change("settlement.system_chips", 1), "The system's chips"),
    "another player": (_change("settlement.seats.0.player_id", "p9"), "The settlement's players"),
    "another hand": (_change("settlement.hand_id", "table-7-2"), "The settlement's hand"),
    "a balance below 0": (_change("settlement.seats.0.carried_chips", -1), "A balance or rating"),
    "one seat short": (lambda hand: hand.settlement.seats.pop(), "The settlement's players"),
    "initial multiplier": (_change("record.terms.initial_multiplier", 3), "The multiplier"),
    "no initial multiplier": (_change("record.terms.initial_multiplier", 0), "The initial multiplier is 0"),
    "initial multiplier below 0": (_change("record.terms.initial_multiplier", -2), "The initial multiplier is -2"),
    "version": (_change("record.record_version", 2), "The record's version is 2"),
    "no version": (_change("record.record_version", 0), "The record's version is 0"),
    "redeals": (_change("record.redeals", 1), "Redeals carried in are 1, but in rob from 0 to 0"),
    "redeals below 0": (_change("record.redeals", -1), "Redeals carried in are -1"),
    "base 0": (_change("record.base_chips", 0), "The base is 0"),
    "rake below 0": (_change("record.terms.rake_chips", -1), "The rake is -1"),
    "one player twice": (_change("record.players.0.player_id", "p1"), "does not name three players"),
    "a player less": (lambda hand: hand.record.players.pop(), "does not name three players"),
    "end": (_change("record.ended_at_ms", 7), "not at 7"),
    "start": (_change("record.started_at_ms", 2**50), "Action 1: it was"),
    "time going backwards": (lambda hand: setattr(hand.record.actions[-1], "at_ms", 5), "earlier than what was before"),
    "time until no flee": (_change("record.outcome.elapsed_s", 5), "The time until the flee"),
    "deep book": (_change("record.terms.book_fields_json", "[" * 100_000), "The terms have no rule book"),
    "no such book": (_change("record.terms.book", "mahjong"), "The terms have no rule book"),
    "broken book": (_change("record.terms.book_fields_json", "[1]"), "The terms have no rule book"),
    "server seed": (lambda hand: setattr(first(hand, "deal").deal, "server_seed", bytes(32)), "not the one that was"),
    "short seed": (lambda hand: setattr(first(hand, "deal").deal, "server_seed", b"1"), "a server seed has 32 bytes"),
    "deal id": (lambda hand: setattr(first(hand, "deal").deal, "deal_id", "chosen"), "the deal's id is 'chosen'"),
    "a foreign card": (lambda hand: setattr(first(hand, "play"), "seat", 3), "a seat is 0, 1 or 2"),
    "no rank": (lambda hand: setattr(first(hand, "play").play, "rank", "1"), "is not a rank"),
    "no action": (lambda hand: first(hand, "play").ClearField("play"), "of no kind"),
    "an action less": (lambda hand: hand.record.actions.pop(), "the hand is not over"),
    "an action more": (lambda hand: hand.record.actions.append(hand.record.actions[-1]), "HAND_OVER"),
}


@pytest.mark.parametrize(("tamper", "found"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_br_104_tampering_is_found(tamper: Callable[[GetHandResponse], object], found: str) -> None:
    hand = recorded(BOOKS["rob"], 5)
    tamper(hand)
    differences = verify(hand.record, hand.settlement)
    assert any(found in sentence for sentence in differences), differences


def test_a_client_seed_that_was_changed_deals_other_cards() -> None:
    hand = recorded(BOOKS["happy"], 8)
    first(hand, "deal").deal.client_seeds[0] = b"another"
    assert verify(hand.record)[0].startswith("Action ")


def test_redeals_are_as_many_as_the_book_carries() -> None:
    hand = recorded(BOOKS["classic"], 3)
    hand.record.redeals = 7
    assert verify(hand.record) == ["Redeals carried in are 7, but in classic from 0 to 6."]


def test_a_rake_in_a_book_without_is_found() -> None:
    hand = recorded(BOOKS["happy"], 8)
    hand.settlement.seats[1].rake_chips = 3
    assert verify(hand.record, hand.settlement) == ["Seat 1's rake is recorded as 3, but computes to 0."]


def test_a_flee_at_another_time_is_found() -> None:
    hand = next(
        hand
        for number in range(100)
        if (hand := recorded(BOOKS["happy"], number, flees=True)).record.outcome.HasField("fled")
    )
    hand.record.actions[-1].flee.elapsed_s += 60
    hand.record.outcome.elapsed_s += 60
    assert "had passed since the deal" in verify(hand.record)[0]


def test_a_void_hand_has_no_outcome() -> None:
    hand = recorded(BOOKS["happy"], 8)
    proof = first(hand, "deal").deal
    deal = deal_cards(BOOKS["happy"], proof.deal_id, proof.server_seed, proof.client_seeds)
    del hand.record.actions[1:]
    for turn in range(3):
        hand.record.actions.add(seat=(deal.first_seat + turn) % 3, at_ms=2_000_000).bid.level = 0
    assert "void" in verify(hand.record)[0]


def test_ddz_verify_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand = recorded(BOOKS["classic"], 3)
    whole, alone, wrong, broken = (
        tmp_path / name for name in ("whole.json", "alone.json", "wrong.json", "broken.json")
    )
    whole.write_text(json_format.MessageToJson(hand), encoding="utf-8")
    alone.write_text(json_format.MessageToJson(hand.record), encoding="utf-8")
    hand.settlement.system_chips += 1
    wrong.write_text(json_format.MessageToJson(hand), encoding="utf-8")
    broken.write_text("{", encoding="utf-8")
    assert main(["verify", str(whole), str(alone)]) == 0
    assert "deal, play, result and settlement are right" in capsys.readouterr().out
    assert main(["verify", str(wrong)]) == 1
    assert "The system's chips" in capsys.readouterr().out
    assert main(["verify", str(broken)]) == 2
    assert "cannot be read" in capsys.readouterr().err
