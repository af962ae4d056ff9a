"""Computes a recorded hand again: its deals, its play, its result and its settlement, from the record alone.

The record proves the deals (docs/fairness.md); every action in it is put to the rules again; what comes out is compared
with what the record and the settlement say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from ddzclient.books import book_of
from doudizhu import (
    Factors,
    Hand,
    Outcome,
    Phase,
    Refusal,
    RuleBook,
    Settlement,
    Side,
    Stakes,
    commitment,
    deal_cards,
    decide,
    evolve,
    outcome,
    settle,
    start,
)
from doudizhu.cards import parse_ranks
from doudizhu.hand import Action, Bid, Call, CloseShowWindow, DealCards, Flee, Pass, Play, Rob, Show

RECORD_VERSION: Final = 1
_SIDES: Final = {Side.LANDLORD: hand_pb2.SIDE_LANDLORD, Side.FARMERS: hand_pb2.SIDE_FARMERS}


class Untrue(Exception):
    """The record cannot have come about; the sentence says why."""


def verify(record: hand_pb2.HandRecord, settlement: ledger_pb2.Settlement | None = None) -> list[str]:
    """Everything that a record or its settlement says and the rules do not, one sentence each; empty when all holds.

    Without a settlement only deals, play and outcome are computed. Never raises for what a record holds.
    """
    try:
        hand = replay(record)
    except Untrue as untrue:
        return [str(untrue)]
    if hand.voided:
        return ["All three passed: the hand was void, and has no outcome."]
    computed = outcome(hand)
    found = list(_outcome_differences(record.outcome, computed, hand.factors))
    if settlement is not None:
        found += _settlement_differences(record, settlement, hand, computed)
    return found


def replay(record: hand_pb2.HandRecord) -> Hand:
    """The hand at its end; raises Untrue at the first deal that is not proved or action that the rules refuse."""
    states = [hand for _, hand in steps(record)]
    phase = states[-1].phase if states else Phase.AWAIT_DEAL
    if phase is not Phase.OVER:
        raise Untrue(f"After the last of {len(record.actions)} actions the hand is not over but in {phase}.")
    hand = states[-1]
    if not hand.voided and record.ended_at_ms != record.actions[-1].at_ms:
        raise Untrue(f"The hand ended at {record.actions[-1].at_ms} ms, not at {record.ended_at_ms}.")
    return hand


def steps(record: hand_pb2.HandRecord) -> Iterator[tuple[hand_pb2.HandAction, Hand]]:
    """Each recorded action with the hand after it, all open; raises Untrue at the first that cannot have been."""
    try:
        book = book_of(record.terms)
    except Refusal as wrong:
        raise Untrue(f"The terms have no rule book that is known here: {wrong}.") from None
    _check_head(record, book)
    hand = start(book, record.terms.initial_multiplier, record.redeals)
    first_deal_at_ms = deals = 0
    latest_ms = record.started_at_ms
    for number, recorded in enumerate(record.actions, 1):
        try:
            if recorded.at_ms < latest_ms:
                raise Untrue(f"it was {latest_ms - recorded.at_ms} ms earlier than what was before it")
            if recorded.WhichOneof("action") != "show":  # no clock starts with a show, so none holds the next act back
                latest_ms = recorded.at_ms
            if recorded.WhichOneof("action") == "deal":
                _check_proof(record.hand_id, recorded.deal, deals)
                first_deal_at_ms = first_deal_at_ms or recorded.at_ms
                deals += 1
            elif recorded.WhichOneof("action") == "flee":
                _check_elapsed(recorded, first_deal_at_ms)
            for event in decide(hand, _action(hand, recorded)):
                hand = evolve(hand, event)
        except (Refusal, Untrue) as wrong:
            raise Untrue(f"Action {number}: {wrong}") from None
        yield recorded, hand


def _check_head(record: hand_pb2.HandRecord, book: RuleBook) -> None:
    """What the record says before its actions, by itself and by the book."""
    terms = record.terms
    redeals = book.max_redeals if book.all_pass == "void_redeal" else 0
    if record.record_version != RECORD_VERSION:
        raise Untrue(f"The record's version is {record.record_version}; {RECORD_VERSION} is known here.")
    if len({player.player_id for player in record.players}) != 3 or len(record.players) != 3:
        raise Untrue("The record does not name three players.")
    if terms.initial_multiplier < 1:
        raise Untrue(f"The initial multiplier is {terms.initial_multiplier}, but is at least 1.")
    if record.base_chips < 1:
        raise Untrue(f"The base is {record.base_chips}, but is at least 1.")
    if terms.rake_chips < 0:
        raise Untrue(f"The rake is {terms.rake_chips}, but is at least 0.")
    if not 0 <= record.redeals <= redeals:
        raise Untrue(f"Redeals carried in are {record.redeals}, but in {book.id} from 0 to {redeals}.")


def _check_proof(hand_id: str, proof: hand_pb2.DealProof, deals: int) -> None:
    if commitment(proof.server_seed) != proof.commitment:
        raise Untrue("the server seed is not the one that was committed to")
    # The id goes into the deal: a free choice of it would be a free choice of the cards.
    expected = f"{hand_id}.{deals}" if deals else hand_id
    if proof.deal_id != expected:
        raise Untrue(f"the deal's id is {proof.deal_id!r}, but must be {expected!r}")


def _check_elapsed(recorded: hand_pb2.HandAction, first_deal_at_ms: int) -> None:
    elapsed_s = max(recorded.at_ms - first_deal_at_ms, 0) // 1000 if first_deal_at_ms else 0
    if recorded.flee.elapsed_s != elapsed_s:
        raise Untrue(f"{elapsed_s} s had passed since the deal, not {recorded.flee.elapsed_s}")


def _action(hand: Hand, recorded: hand_pb2.HandAction) -> Action:
    """The action of the rules core; raises Refusal for seeds, ranks or an action that are none."""
    seat = recorded.seat
    match recorded.WhichOneof("action"):
        case "deal":
            proof = recorded.deal
            return DealCards(deal_cards(hand.book, proof.deal_id, proof.server_seed, proof.client_seeds))
        case "bid":
            return Bid(seat, recorded.bid.level)
        case "call":
            return Call(seat, recorded.call.call)
        case "rob":
            return Rob(seat, recorded.rob.rob)
        case "show":
            return Show(seat, recorded.show.show)
        case "close_show":
            return CloseShowWindow()
        case "play":
            play = recorded.play
            rank = parse_ranks(play.rank)[0] if play.rank else None
            return Play(seat, tuple(play.cards), play.type or None, rank)
        case "pass":
            return Pass(seat)
        case "flee":
            return Flee(seat, recorded.flee.elapsed_s)
    raise Untrue("it is of no kind that is known here")


def _outcome_differences(recorded: hand_pb2.Outcome, computed: Outcome, factors: Factors) -> Iterator[str]:
    seat = {name: getattr(recorded, name) if recorded.HasField(name) else None for name in ("landlord", "fled")}
    winner = hand_pb2.SIDE_UNSPECIFIED if computed.winner is None else _SIDES[computed.winner]
    yield from _difference("The winner", hand_pb2.Side.Name(recorded.winner), hand_pb2.Side.Name(winner))
    yield from _difference("The landlord", seat["landlord"], computed.landlord)
    yield from _difference("The seat that fled", seat["fled"], computed.fled)
    yield from _difference("The level", recorded.level, computed.level)
    yield from _difference("The multiplier", recorded.multiplier, computed.multiplier)
    yield from _difference("The flee multiplier", recorded.flee_multiplier, computed.flee_multiplier)
    yield from _difference("The time until the flee", recorded.elapsed_s, computed.elapsed_s)
    by_factor = {hand_pb2.Factor.Name(entry.factor): entry.product for entry in recorded.factors}
    yield from _difference(
        "The multiplier by factor", by_factor, {f"FACTOR_{factor.name}": product for factor, product in factors}
    )


def _settlement_differences(
    record: hand_pb2.HandRecord, settlement: ledger_pb2.Settlement, hand: Hand, computed: Outcome
) -> Iterator[str]:
    yield from _difference("The settlement's hand", settlement.hand_id, record.hand_id)
    players = [player.player_id for player in record.players]
    yield from _difference("The settlement's players", [seat.player_id for seat in settlement.seats], players)
    if len(settlement.seats) != 3:
        return
    one, two, three = settlement.seats
    stakes = Stakes(
        base=record.base_chips,
        rake=record.terms.rake_chips,
        balances=(one.balance_before_chips, two.balance_before_chips, three.balance_before_chips),
        carried=(one.carried_chips, two.carried_chips, three.carried_chips),
        ratings=(one.rating_before, two.rating_before, three.rating_before),
    )
    if min(*stakes.balances, *stakes.carried, *(stakes.ratings or ())) < 0:
        yield "A balance or rating before the settlement is below 0."
        return
    right = settle(hand.book, computed, stakes)
    for seat, result in enumerate(settlement.seats):
        yield from _seat_differences(seat, result, right)
    yield from _difference("The system's chips", settlement.system_chips, right.system)


def _seat_differences(seat: int, result: ledger_pb2.SeatResult, right: Settlement) -> Iterator[str]:
    rating = right.rating[seat] if right.rating is not None else 0
    for name, recorded, computed in (
        ("chips", result.chips, right.chips[seat]),
        ("rake", result.rake_chips, right.rake[seat]),
        ("balance after", result.balance_after_chips, result.balance_before_chips + right.chips[seat]),
        ("rating", result.rating, rating),
        ("rating after", result.rating_after, result.rating_before + rating),
    ):
        yield from _difference(f"Seat {seat}'s {name}", recorded, computed)


def _difference(what: str, recorded: object, computed: object) -> Iterator[str]:
    if recorded != computed:
        yield f"{what} is recorded as {recorded}, but computes to {computed}."
