"""Events <-> protobuf, the only codec: the log keeps these messages unmasked, people get them masked (views.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import events_pb2
from doudizhu import hand
from services.table import events
from services.table.clocks import Clock
from services.table.table import Phase, Trustee
from services.table.wire_values import (
    FACTORS,
    cards_to,
    combo_from,
    factor_from,
    factors_from,
    factors_to,
    fill_combo,
    outcome_from,
    outcome_to,
    person_from,
    person_to,
    proof_from,
    proof_to,
    result_from,
    result_to,
    terms_from,
    terms_to,
    three,
)

PHASES: Final = {phase: events_pb2.Phase.Value(f"PHASE_{phase.name}") for phase in Phase}
_REASON: Final = "REASON_"

# Events whose fields are spelled alike on both sides: type -> name in the oneof, message, fields.
_OWN: Final[dict[type, tuple[str, Any, tuple[str, ...]]]] = {
    events.LeaveAsked: ("leave_asked", events_pb2.LeaveAsked, ("seat",)),
    events.BaseAsked: ("base_asked", events_pb2.BaseAsked, ("seat",)),
    events.BaseSet: ("base_set", events_pb2.BaseSet, ("seat", "base_chips")),
    events.BaseAnswered: ("base_answered", events_pb2.BaseAnswered, ("seat", "agree")),
    events.BaseReset: ("base_reset", events_pb2.BaseReset, ()),
    events.ReadySet: ("ready_set", events_pb2.ReadySet, ("seat", "ready")),
    events.HandOpening: ("hand_opening", events_pb2.HandOpening, ("hand_id", "base_chips", "redeals")),
    events.Committed: ("committed", events_pb2.Committed, ("deal_id", "commitment", "server_seed")),
    events.SeedGiven: ("seed_given", events_pb2.SeedGiven, ("seat", "seed")),
    events.CountdownStarted: ("countdown_started", events_pb2.CountdownStarted, ()),
    events.CountdownEnded: ("countdown_ended", events_pb2.CountdownEnded, ()),
    events.ClockExtended: ("clock_extended", events_pb2.ClockExtended, ("until_ms",)),
    events.ObserverLeft: ("observer_left", events_pb2.ObserverLeft, ("player_id",)),
    events.ObserverPresenceSet: (
        "observer_presence_set",
        events_pb2.ObserverPresenceSet,
        ("player_id", "connected", "connection"),
    ),
    events.CardsAllowed: ("cards_allowed", events_pb2.CardsAllowed, ("seat", "allow")),
    events.PresenceSet: ("presence_set", events_pb2.PresenceSet, ("seat", "connected", "connection")),
    events.Closed: ("closed", events_pb2.Closed, ("reason",)),
}
_HAND: Final[dict[type, tuple[str, Any, tuple[str, ...]]]] = {
    hand.BidMade: ("bid_made", events_pb2.BidMade, ("seat", "level")),
    hand.CallMade: ("call_made", events_pb2.CallMade, ("seat", "call")),
    hand.RobMade: ("rob_made", events_pb2.RobMade, ("seat", "rob", "factor", "multiplier")),
    hand.Shown: ("shown", events_pb2.Shown, ("seat", "cards", "factor", "multiplier")),
    hand.ShowDeclined: ("show_declined", events_pb2.ShowDeclined, ("seat",)),
    hand.ShowWindowClosed: ("show_window_closed", events_pb2.ShowWindowClosed, ("first_seat",)),
    hand.LandlordSet: ("landlord_set", events_pb2.LandlordSet, ("seat", "level", "bottom")),
    hand.Passed: ("passed", events_pb2.Passed, ("seat",)),
    hand.Redealing: ("redealing", events_pb2.Redealing, ()),
}
_TELLS_TRUSTEE: Final = (hand.BidMade, hand.CallMade, hand.RobMade, hand.ShowDeclined, hand.Played, hand.Passed)
_TUPLES: Final = {"cards", "bottom"}
_BY_NAME: Final = {name: (kind, fields) for kind, (name, _, fields) in (_OWN | _HAND).items()}


def fill_clock(message: events_pb2.Clock, clock: Clock) -> None:
    message.phase, message.seat, message.deadline_ms = PHASES[clock.phase], clock.seat, clock.deadline_ms


def reason_to(reason: str) -> common_pb2.Reason.ValueType:
    return common_pb2.Reason.Value(f"{_REASON}{reason}") if reason else common_pb2.REASON_UNSPECIFIED


def event_to(stamped: events.Stamped, clock: Clock | None) -> events_pb2.Event:
    """The message of an event; `clock` as it stands after it."""
    event = stamped.event
    message = events_pb2.Event(seq=stamped.seq, at_ms=stamped.at_ms)
    if clock is not None:
        fill_clock(message.clock, clock)
    if isinstance(event, events.Move):
        _move_to(message, event)
    elif type(event) in _OWN:
        name, kind, fields = _OWN[type(event)]
        getattr(message, name).CopyFrom(kind(**{field: getattr(event, field) for field in fields}))
    else:
        _SPECIAL_TO[type(event)](message, event)
    return message


def event_from(message: events_pb2.Event) -> events.Stamped:
    """The event of a message out of the log."""
    name = message.WhichOneof("event")
    assert name is not None, "a message of the log without an event"
    body = getattr(message, name)
    if name in _FROM:
        event: events.Event = _FROM[name](body)
    else:
        kind, fields = _BY_NAME[name]
        values = {field: getattr(body, field) for field in fields}
        for field in _TUPLES & values.keys():
            values[field] = tuple(values[field])
        plain = kind(**values)
        event = events.Move(plain, getattr(body, "by_trustee", False)) if kind in _HAND else plain
    return events.Stamped(message.seq, message.at_ms, event)


# ---- the hand -----------------------------------------------------------------------------------------------------


def _move_to(message: events_pb2.Event, move: events.Move) -> None:
    event = move.event
    if isinstance(event, hand.Played):
        played = message.played
        played.seat, played.cards_left, played.factor, played.multiplier = (
            event.seat,
            event.cards_left,
            event.factor,
            event.multiplier,
        )
        played.by_trustee = move.by_trustee
        fill_combo(played.combo, event.combo)
    elif isinstance(event, hand.Dealt):
        _dealt_to(message, move, event)
    elif isinstance(event, hand.Won):
        _won_to(message, move, event)
    elif isinstance(event, hand.Fled):
        assert move.outcome is not None
        message.hand_fled.outcome.CopyFrom(outcome_to(move.outcome, move.factors))
    elif isinstance(event, hand.Voided):
        message.hand_voided.reason = "all_passed"
        message.hand_voided.redeals = event.redeals
        assert move.proof is not None
        message.hand_voided.proofs.append(proof_to(move.proof, reveal=True))
    else:
        name, kind, fields = _HAND[type(event)]
        values = {field: getattr(event, field) for field in fields}
        if isinstance(event, _TELLS_TRUSTEE):
            values["by_trustee"] = move.by_trustee
        getattr(message, name).CopyFrom(kind(**values))


def _dealt_to(message: events_pb2.Event, move: events.Move, event: hand.Dealt) -> None:
    assert move.proof is not None
    message.dealt.CopyFrom(
        events_pb2.Dealt(
            proof=proof_to(move.proof, reveal=False),
            hands=[cards_to(cards, 17) for cards in event.hands],
            bottom=event.bottom or (),
            marked_card=event.marked,
            first_seat=event.first_seat,
            factors=factors_to(event.factors),
            multiplier=event.multiplier,
        )
    )


def _dealt_from(body: events_pb2.Dealt) -> events.Move:
    one, two, last = (tuple(cards.cards) for cards in body.hands)
    dealt = hand.Dealt(
        hands=(one, two, last),
        bottom=tuple(body.bottom),
        marked=body.marked_card if body.HasField("marked_card") else None,
        first_seat=body.first_seat,
        factors=factors_from(body.factors),
        multiplier=body.multiplier,
    )
    return events.Move(dealt, proof=proof_from(body.proof))


def _played_from(body: events_pb2.Played) -> events.Move:
    played = hand.Played(body.seat, combo_from(body.combo), body.cards_left, body.factor, body.multiplier)
    return events.Move(played, body.by_trustee)


def _won_to(message: events_pb2.Event, move: events.Move, event: hand.Won) -> None:
    assert move.outcome is not None
    message.hand_won.CopyFrom(
        events_pb2.HandWon(
            outcome=outcome_to(move.outcome, move.factors),
            hands=[cards_to(cards, len(cards)) for cards in event.hands],
            seat=event.seat,
            spring=hand_pb2.FACTOR_UNSPECIFIED if event.spring is None else FACTORS[event.spring],
            factor=event.factor,
            multiplier=event.multiplier,
        )
    )


def _won_from(body: events_pb2.HandWon) -> events.Move:
    outcome = outcome_from(body.outcome)
    assert outcome.winner is not None
    one, two, last = (tuple(cards.cards) for cards in body.hands)
    won = hand.Won(
        seat=body.seat,
        side=outcome.winner,
        spring=factor_from(body.spring),
        factor=body.factor,
        multiplier=body.multiplier,
        hands=(one, two, last),
    )
    return events.Move(won, outcome=outcome, factors=factors_from(body.outcome.factors))


def _fled_from(body: events_pb2.HandFled) -> events.Move:
    outcome = outcome_from(body.outcome)
    assert outcome.fled is not None
    fled = hand.Fled(outcome.fled, outcome.elapsed_s, outcome.flee_multiplier)
    return events.Move(fled, outcome=outcome, factors=factors_from(body.outcome.factors))


def _voided_from(body: events_pb2.HandVoided) -> events.Event:
    proofs = tuple(proof_from(proof) for proof in body.proofs)
    if body.reason == "all_passed":
        return events.Move(hand.Voided(body.redeals), proof=proofs[-1] if proofs else None)
    return events.HandVoided(body.reason, body.redeals, proofs)


# ---- the table's own ----------------------------------------------------------------------------------------------


def _seat_left_to(message: events_pb2.Event, event: events.SeatLeft) -> None:
    message.seat_left.CopyFrom(
        events_pb2.SeatLeft(
            seat=event.seat,
            player_id=event.player_id,
            reason=reason_to(event.reason),
            minimum_chips=event.minimum_chips,
            balance_chips=event.balance_chips,
        )
    )


def _seat_left_from(body: events_pb2.SeatLeft) -> events.SeatLeft:
    reason = common_pb2.Reason.Name(body.reason).removeprefix(_REASON) if body.reason else ""
    return events.SeatLeft(body.seat, body.player_id, reason, body.minimum_chips, body.balance_chips)


def _trustee_set_to(message: events_pb2.Event, event: events.TrusteeSet) -> None:
    message.trustee_set.seat = event.seat
    message.trustee_set.on = event.why is not None
    message.trustee_set.why = event.why or ""


_SPECIAL_TO: Final[dict[type, Callable[[events_pb2.Event, Any], None]]] = {
    events.Opened: lambda message, event: message.opened.CopyFrom(
        events_pb2.Opened(terms=terms_to(event.terms), idle_ms=event.idle_ms)
    ),
    events.SeatTaken: lambda message, event: message.seat_taken.CopyFrom(
        events_pb2.SeatTaken(seat=event.seat, player=person_to(event.person))
    ),
    events.SeatLeft: _seat_left_to,
    events.TrusteeSet: _trustee_set_to,
    events.HandOpened: lambda message, event: message.hand_opened.carried_chips.extend(event.carried_chips),
    events.HandVoided: lambda message, event: message.hand_voided.CopyFrom(
        events_pb2.HandVoided(
            reason=event.reason,
            redeals=event.redeals,
            proofs=[proof_to(proof, reveal=True) for proof in event.proofs],
        )
    ),
    events.HandSettled: lambda message, event: message.hand_settled.CopyFrom(result_to(event.result)),
    events.ObserverJoined: lambda message, event: message.observer_joined.CopyFrom(
        events_pb2.ObserverJoined(observer=person_to(event.observer), seat=event.seat)
    ),
}

_FROM: Final[dict[str, Callable[[Any], events.Event]]] = {
    "opened": lambda body: events.Opened(terms_from(body.terms), body.idle_ms),
    "seat_taken": lambda body: events.SeatTaken(body.seat, person_from(body.player)),
    "seat_left": _seat_left_from,
    "trustee_set": lambda body: events.TrusteeSet(body.seat, Trustee(body.why) if body.on else None),
    "hand_opened": lambda body: events.HandOpened(three(body.carried_chips)),
    "hand_voided": _voided_from,
    "hand_settled": lambda body: events.HandSettled(result_from(body)),
    "observer_joined": lambda body: events.ObserverJoined(person_from(body.observer), body.seat),
    "dealt": _dealt_from,
    "played": _played_from,
    "hand_won": _won_from,
    "hand_fled": _fled_from,
}
