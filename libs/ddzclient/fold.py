"""What an event does to a table as one person sees it: the snapshot that the servers would send after it.

The state is the Snapshot of proto/ddz/table/v1/events.proto itself. `fold` changes it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Event, Snapshot
from ddzclient.books import book_of
from doudizhu.hand import Factor
from doudizhu.multiplier import before_deal

FACTORS: Final = {factor: hand_pb2.Factor.Value(f"FACTOR_{factor.name}") for factor in Factor}
_BIDS: Final = ("pass", "1", "2", "3")


def fold(state: Snapshot, event: Event, player_id: str) -> None:
    """Brings the snapshot of `player_id` from event.seq - 1 to event.seq."""
    assert event.seq == state.seq + 1, f"event {event.seq} does not follow {state.seq}"
    kind = event.WhichOneof("event")
    if kind is not None and kind in _FOLDS:  # a newer server may tell of more
        _FOLDS[kind](state, getattr(event, kind))
    if kind == "seat_taken" and event.seat_taken.player.player_id == player_id:
        state.you, state.observing = event.seat_taken.seat, False
    elif kind == "seat_left" and event.seat_left.player_id == player_id:
        state.you, state.observing = -1, False
    elif kind == "observer_joined" and event.observer_joined.observer.player_id == player_id:
        state.you, state.observing = event.observer_joined.seat, True
    elif kind == "observer_left" and event.observer_left.player_id == player_id:
        state.you, state.observing = -1, False
    if kind in ("played", "passed"):
        _follow_trick(state, event)
    state.seq = event.seq
    state.at_ms = event.at_ms
    state.clock.CopyFrom(event.clock)


def _multiply(state: Snapshot, factor: hand_pb2.Factor.ValueType, by: int, multiplier: int) -> None:
    """Records that `factor` has multiplied once more."""
    state.multiplier = multiplier
    if by == 1:
        return
    for product in state.factors:
        if product.factor == factor:
            product.product *= by
            return
    state.factors.add(factor=factor, product=by)


def _set_factors(state: Snapshot, factors: Iterable[hand_pb2.FactorProduct], multiplier: int) -> None:
    del state.factors[:]
    state.factors.extend(factors)
    state.multiplier = multiplier


def _before_deal(state: Snapshot, redeals: int) -> None:
    """Forgets everything that belongs to one deal; the multiplier is what it begins with."""
    for name in ("landlord", "level", "bottom", "marked_card", "on_table", "on_table_seat", "trick"):
        state.ClearField(name)
    for seat in state.seats:
        seat.cards.CopyFrom(events_pb2.SeatCards())
        seat.shown = False
        seat.choice = seat.rob_choice = ""
        seat.combos = seat.bombs = 0
    del state.factors[:]
    state.multiplier = 1
    for factor, by in before_deal(book_of(state.terms), state.terms.initial_multiplier, redeals):
        _multiply(state, FACTORS[factor], by, state.multiplier * by)


def _follow_trick(state: Snapshot, event: Event) -> None:
    """The trick runs from a lead to two consecutive passes."""
    if event.WhichOneof("event") == "played" and not state.HasField("on_table"):
        del state.trick[:]
    if event.WhichOneof("event") == "played":
        state.on_table.CopyFrom(event.played.combo)
        state.on_table_seat = event.played.seat
    step = state.trick.add()
    step.CopyFrom(event)
    step.ClearField("clock")
    if [past.WhichOneof("event") for past in state.trick][-2:] == ["passed", "passed"]:
        state.ClearField("on_table")
        state.on_table_seat = 0
        del state.trick[:]


# ---- seats and base -----------------------------------------------------------------------------------------------


def _opened(state: Snapshot, event: events_pb2.Opened) -> None:
    state.terms.CopyFrom(event.terms)


def _new_person(state: Snapshot, number: int) -> events_pb2.SeatView:
    """Forgets who sat there; what belongs to the hand stays."""
    seat = state.seats[number]
    for name in ("player", "ready", "agreed", "connected", "trustee", "observers_allowed", "balance_chips"):
        seat.ClearField(name)
    return seat


def _seat_taken(state: Snapshot, event: events_pb2.SeatTaken) -> None:
    _new_person(state, event.seat).player.CopyFrom(event.player)


def _seat_left(state: Snapshot, event: events_pb2.SeatLeft) -> None:
    _new_person(state, event.seat)
    if state.HasField("base_setter") and state.base_setter == event.seat:
        state.ClearField("base_setter")


def _base_asked(state: Snapshot, event: events_pb2.BaseAsked) -> None:
    state.base_setter = event.seat


def _base_set(state: Snapshot, event: events_pb2.BaseSet) -> None:
    state.base_setter = event.seat
    state.base_chips = event.base_chips
    for seat in state.seats:
        seat.agreed = seat.seat == event.seat


def _base_answered(state: Snapshot, event: events_pb2.BaseAnswered) -> None:
    state.seats[event.seat].agreed = event.agree


def _base_reset(state: Snapshot, _: events_pb2.BaseReset) -> None:
    state.base_chips = 0
    state.ClearField("base_setter")
    for seat in state.seats:
        seat.agreed = False


def _ready_set(state: Snapshot, event: events_pb2.ReadySet) -> None:
    state.seats[event.seat].ready = event.ready


# ---- one hand -----------------------------------------------------------------------------------------------------


def _hand_opening(state: Snapshot, event: events_pb2.HandOpening) -> None:
    _before_deal(state, event.redeals)
    state.ClearField("proof")
    state.hand_id = event.hand_id
    state.base_chips = event.base_chips
    state.redeals = event.redeals
    del state.players[:]
    state.players.extend(seat.player for seat in state.seats)


def _hand_opened(state: Snapshot, event: events_pb2.HandOpened) -> None:
    _set_balances(state, event.carried_chips)


def _set_balances(state: Snapshot, balances: Iterable[int]) -> None:
    for seat, balance in zip(state.seats, balances, strict=True):
        seat.balance_chips = balance


def _committed(state: Snapshot, event: events_pb2.Committed) -> None:
    state.proof.CopyFrom(
        hand_pb2.DealProof(deal_id=event.deal_id, commitment=event.commitment, client_seeds=[b"", b"", b""])
    )


def _seed_given(state: Snapshot, event: events_pb2.SeedGiven) -> None:
    state.proof.client_seeds[event.seat] = event.seed


def _dealt(state: Snapshot, event: events_pb2.Dealt) -> None:
    state.proof.CopyFrom(event.proof)
    for seat, cards in zip(state.seats, event.hands, strict=True):
        seat.cards.CopyFrom(cards)
    state.bottom.extend(event.bottom)
    if event.HasField("marked_card"):
        state.marked_card = event.marked_card
    _set_factors(state, event.factors, event.multiplier)


def _bid_made(state: Snapshot, event: events_pb2.BidMade) -> None:
    state.seats[event.seat].choice = _BIDS[event.level]
    state.level = max(state.level, event.level)


def _call_made(state: Snapshot, event: events_pb2.CallMade) -> None:
    state.seats[event.seat].choice = "call" if event.call else "pass"
    state.level = int(event.call)


def _rob_made(state: Snapshot, event: events_pb2.RobMade) -> None:
    state.seats[event.seat].rob_choice = "rob" if event.rob else "no_rob"
    _multiply(state, hand_pb2.FACTOR_ROB, event.factor, event.multiplier)


def _shown(state: Snapshot, event: events_pb2.Shown) -> None:
    seat = state.seats[event.seat]
    seat.shown = True
    seat.cards.CopyFrom(events_pb2.SeatCards(cards=event.cards, count=len(event.cards)))
    _multiply(state, hand_pb2.FACTOR_SHOW, event.factor, event.multiplier)


def _landlord_set(state: Snapshot, event: events_pb2.LandlordSet) -> None:
    state.landlord = event.seat
    state.level = event.level
    del state.bottom[:]
    state.bottom.extend(event.bottom)
    cards = state.seats[event.seat].cards
    if cards.cards:
        known = sorted([*cards.cards, *event.bottom])
        del cards.cards[:]
        cards.cards.extend(known)
    cards.count += len(event.bottom)


def _played(state: Snapshot, event: events_pb2.Played) -> None:
    seat = state.seats[event.seat]
    seat.combos += 1
    seat.bombs += event.combo.type in ("bomb", "rocket")
    cards = seat.cards
    left = [card for card in cards.cards if card not in set(event.combo.cards)]
    del cards.cards[:]
    cards.cards.extend(left)
    cards.count = event.cards_left
    _multiply(state, hand_pb2.FACTOR_BOMB, event.factor, event.multiplier)


def _redealing(state: Snapshot, _: events_pb2.Redealing) -> None:
    _before_deal(state, state.redeals)


def _hand_voided(state: Snapshot, event: events_pb2.HandVoided) -> None:
    state.redeals = event.redeals
    del state.trick[:]
    if event.proofs:
        state.proof.CopyFrom(event.proofs[-1])


def _hand_won(state: Snapshot, event: events_pb2.HandWon) -> None:
    for seat, cards in zip(state.seats, event.hands, strict=True):
        seat.cards.CopyFrom(cards)
    _set_factors(state, event.outcome.factors, event.outcome.multiplier)
    state.last_outcome.CopyFrom(event.outcome)


def _hand_fled(state: Snapshot, event: events_pb2.HandFled) -> None:
    _set_factors(state, event.outcome.factors, event.outcome.multiplier)
    state.last_outcome.CopyFrom(event.outcome)


def _hand_settled(state: Snapshot, event: events_pb2.HandSettled) -> None:
    state.last_result.CopyFrom(event)
    state.redeals = 0
    state.proof.CopyFrom(event.proofs[-1])
    _set_balances(state, event.balances_chips)


# ---- persons ------------------------------------------------------------------------------------------------------


def _trustee_set(state: Snapshot, event: events_pb2.TrusteeSet) -> None:
    state.seats[event.seat].trustee = event.on


def _observer_joined(state: Snapshot, event: events_pb2.ObserverJoined) -> None:
    _forget_observer(state, event.observer.player_id)
    state.observers.add(observer=event.observer, seat=event.seat)


def _observer_left(state: Snapshot, event: events_pb2.ObserverLeft) -> None:
    _forget_observer(state, event.player_id)


def _forget_observer(state: Snapshot, player_id: str) -> None:
    left = [view for view in state.observers if view.observer.player_id != player_id]
    del state.observers[:]
    state.observers.extend(left)


def _cards_allowed(state: Snapshot, event: events_pb2.CardsAllowed) -> None:
    state.seats[event.seat].observers_allowed = event.allow


def _presence_set(state: Snapshot, event: events_pb2.PresenceSet) -> None:
    state.seats[event.seat].connected = event.connected


# The others change the clock alone.
_FOLDS: Final[dict[str, Callable[[Snapshot, Any], None]]] = {
    "opened": _opened,
    "seat_taken": _seat_taken,
    "seat_left": _seat_left,
    "base_asked": _base_asked,
    "base_set": _base_set,
    "base_answered": _base_answered,
    "base_reset": _base_reset,
    "ready_set": _ready_set,
    "hand_opening": _hand_opening,
    "hand_opened": _hand_opened,
    "committed": _committed,
    "seed_given": _seed_given,
    "dealt": _dealt,
    "bid_made": _bid_made,
    "call_made": _call_made,
    "rob_made": _rob_made,
    "shown": _shown,
    "landlord_set": _landlord_set,
    "played": _played,
    "redealing": _redealing,
    "hand_voided": _hand_voided,
    "hand_won": _hand_won,
    "hand_fled": _hand_fled,
    "hand_settled": _hand_settled,
    "trustee_set": _trustee_set,
    "observer_joined": _observer_joined,
    "observer_left": _observer_left,
    "cards_allowed": _cards_allowed,
    "presence_set": _presence_set,
}
