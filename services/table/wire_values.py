"""The values inside of events <-> protobuf: people, terms, combos, factors, proofs, outcomes (part of wire.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import events_pb2
from doudizhu import Combo, Factor, Factors, Outcome, Side
from doudizhu.cards import RANKS
from services.table.table import Proof, Result, Three
from services.table.terms import Clocks, Person, Terms

FACTORS: Final = {factor: hand_pb2.Factor.Value(f"FACTOR_{factor.name}") for factor in Factor}
_FACTORS_BACK: Final = {value: factor for factor, value in FACTORS.items()}
_SIDES: Final = {side: hand_pb2.Side.Value(f"SIDE_{side.name}") for side in Side}
_SIDES_BACK: Final = {value: side for side, value in _SIDES.items()}
_RANK_INDEX: Final = {rank: index for index, rank in enumerate(RANKS)}
# 0 in these means the default of RULES.md section 4; in the others that there is no such wait.
_DEFAULTED: Final = ("base_ms", "agree_ms", "auction_ms", "show_ms", "first_lead_ms", "play_ms", "trustee_ms")
_CLOCK_NAMES: Final = (*_DEFAULTED, "show_window_ms", "countdown_ms", "seed_ms", "away_ms")


def three(values: Iterable[int]) -> Three:
    """Three integers by seat."""
    one, two, last = values
    return one, two, last


def person_to(person: Person) -> common_pb2.Player:
    return common_pb2.Player(
        player_id=person.player_id, display_name=person.display_name, avatar_id=person.avatar_id, bot=person.bot
    )


def person_from(player: common_pb2.Player) -> Person:
    return Person(player.player_id, player.display_name, player.avatar_id, player.bot)


def terms_to(terms: Terms) -> common_pb2.Terms:
    return common_pb2.Terms(
        room_id=terms.room_id,
        book=terms.book_id,
        base_min_chips=terms.base_min_chips,
        base_max_chips=terms.base_max_chips,
        initial_multiplier=terms.initial_multiplier,
        rake_chips=terms.rake_chips,
        minimum_chips=terms.minimum_chips,
        maximum_chips=terms.maximum_chips,
        clocks=common_pb2.Clocks(**{name: getattr(terms.clocks, name) for name in _CLOCK_NAMES}),
        book_fields_json=terms.book_fields_json,
        matched=terms.matched,
    )


def terms_from(terms: common_pb2.Terms) -> Terms:
    clocks = {name: getattr(terms.clocks, name) for name in _CLOCK_NAMES}
    given = {name: value for name, value in clocks.items() if value or name not in _DEFAULTED}
    return Terms(
        room_id=terms.room_id,
        book_id=terms.book,
        base_min_chips=terms.base_min_chips,
        base_max_chips=terms.base_max_chips,
        clocks=Clocks(**given),
        initial_multiplier=terms.initial_multiplier,
        rake_chips=terms.rake_chips,
        minimum_chips=terms.minimum_chips,
        maximum_chips=terms.maximum_chips,
        book_fields_json=terms.book_fields_json,
        matched=terms.matched,
    )


def fill_combo(message: hand_pb2.Combo, combo: Combo) -> None:
    """Field by field: most events are plays, and a message made of keywords and copied costs three times as much."""
    message.cards.extend(combo.cards)
    message.type, message.rank, message.body = combo.type, RANKS[combo.rank], combo.body


def combo_from(combo: hand_pb2.Combo) -> Combo:
    return Combo(combo.type, _RANK_INDEX[combo.rank], combo.body, tuple(combo.cards))


def factors_to(factors: Factors) -> list[hand_pb2.FactorProduct]:
    return [hand_pb2.FactorProduct(factor=FACTORS[factor], product=product) for factor, product in factors]


def factors_from(factors: Iterable[hand_pb2.FactorProduct]) -> Factors:
    return tuple((_FACTORS_BACK[entry.factor], entry.product) for entry in factors)


def factor_from(value: hand_pb2.Factor.ValueType) -> Factor | None:
    """None for UNSPECIFIED."""
    return _FACTORS_BACK.get(value)


def proof_to(proof: Proof, *, reveal: bool) -> hand_pb2.DealProof:
    """The server seed goes out only when the hand is over (`reveal`)."""
    return hand_pb2.DealProof(
        deal_id=proof.deal_id,
        commitment=proof.commitment,
        server_seed=proof.server_seed if reveal else b"",
        client_seeds=proof.client_seeds,
    )


def proof_from(proof: hand_pb2.DealProof) -> Proof:
    one, two, last = proof.client_seeds
    return Proof(proof.deal_id, proof.commitment, proof.server_seed, (one, two, last))


def outcome_to(outcome: Outcome, factors: Factors) -> hand_pb2.Outcome:
    return hand_pb2.Outcome(
        winner=hand_pb2.SIDE_UNSPECIFIED if outcome.winner is None else _SIDES[outcome.winner],
        landlord=outcome.landlord,
        level=outcome.level,
        multiplier=outcome.multiplier,
        flee_multiplier=outcome.flee_multiplier,
        fled=outcome.fled,
        elapsed_s=outcome.elapsed_s,
        factors=factors_to(factors),
    )


def outcome_from(outcome: hand_pb2.Outcome) -> Outcome:
    return Outcome(
        winner=_SIDES_BACK.get(outcome.winner),
        landlord=outcome.landlord if outcome.HasField("landlord") else None,
        level=outcome.level,
        multiplier=outcome.multiplier,
        fled=outcome.fled if outcome.HasField("fled") else None,
        flee_multiplier=outcome.flee_multiplier,
        elapsed_s=outcome.elapsed_s,
    )


def result_to(result: Result) -> events_pb2.HandSettled:
    return events_pb2.HandSettled(
        hand_id=result.hand_id,
        chips=result.chips,
        rake_chips=result.rake,
        balances_chips=result.balances,
        rating=result.rating,
        ratings_after=result.ratings_after,
        system_chips=result.system,
        proofs=[proof_to(proof, reveal=True) for proof in result.proofs],
    )


def result_from(settled: events_pb2.HandSettled) -> Result:
    return Result(
        hand_id=settled.hand_id,
        chips=three(settled.chips),
        rake=three(settled.rake_chips),
        balances=three(settled.balances_chips),
        rating=three(settled.rating),
        ratings_after=three(settled.ratings_after),
        system=settled.system_chips,
        proofs=tuple(proof_from(proof) for proof in settled.proofs),
    )


def cards_to(cards: tuple[int, ...] | None, count: int) -> events_pb2.SeatCards:
    """None = hidden."""
    return events_pb2.SeatCards(cards=cards or (), count=count)
