"""`evolve(table, event)`: the table after an event of its log. Never refuses; recovery is folding the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import doudizhu
from doudizhu import book_of
from doudizhu.hand import (
    BidMade,
    CallMade,
    Dealt,
    Fled,
    Hand,
    Passed,
    Played,
    Redealing,
    RobMade,
    ShowDeclined,
    Shown,
    Voided,
    Won,
)
from doudizhu.hand import Phase as HandPhase
from doudizhu.turn import with_seat
from services.table import events
from services.table.table import SEATS, Observer, Proof, Seat, Stage, Step, Table, base_at_start, replace

_BY_A_SEAT: Final = (Played, Passed, BidMade, CallMade, RobMade, Shown, ShowDeclined)


def opened(table_id: str, event: events.Opened, at_ms: int) -> Table:
    """The table after the first event of its log."""
    book = book_of(event.terms.book_id, event.terms.book_fields_json)
    return Table(
        table_id=table_id,
        terms=event.terms,
        book=book,
        idle_ms=event.idle_ms,
        seq=1,
        base=base_at_start(event.terms, book),
        empty_at_ms=at_ms,
        since_ms=at_ms,
    )


def evolve(table: Table, event: events.Event, at_ms: int) -> Table:
    """The table after one more event, appended at `at_ms`."""
    if isinstance(event, events.Move):
        return _after_move(table, event, at_ms)
    changed = _FOLDS[type(event)](table, event, at_ms)
    return replace(changed, seq=table.seq + 1)


def _seat(table: Table, number: int, **changes: Any) -> Table:
    return replace(table, seats=with_seat(table.seats, number, replace(table.seats[number], **changes)))


# ---- the hand -----------------------------------------------------------------------------------------------------


def _after_move(table: Table, move: events.Move, at_ms: int) -> Table:
    """All changes in one copy: this is what most events of a log are."""
    before, event = table.hand, move.event
    assert before is not None, "a move without a hand"
    hand = doudizhu.evolve(before, event)
    changes: dict[str, Any] = {"hand": hand, "seq": table.seq + 1, "grace_until_ms": 0}
    if not isinstance(event, Shown) or hand.phase is not before.phase:
        changes["since_ms"] = at_ms  # a show leaves the clock of the window or of the lead alone
    if isinstance(event, _BY_A_SEAT):
        misses = _misses(table.seats[event.seat], move.by_trustee)
        if misses != table.seats[event.seat].misses:
            changed = replace(table.seats[event.seat], misses=misses)
            changes["seats"] = with_seat(table.seats, event.seat, changed)
    if isinstance(event, Played | Passed):
        changes["trick"] = _trick(table, hand, Step(table.seq + 1, at_ms, event, move.by_trustee))
    elif isinstance(event, Dealt):
        changes["dealt_at_ms"] = table.dealt_at_ms or at_ms
    elif isinstance(event, Redealing | Voided | Won | Fled):
        changes |= _ending(table, move)
    if hand.phase is HandPhase.OVER:
        changes["stage"] = Stage.SETTLING
    return replace(table, **changes)


def _misses(seat: Seat, by_trustee: bool) -> int:
    """Time-outs in a row: a trustee's acts are none, and any act of the player's own resets them (BR-071)."""
    if not by_trustee:
        return 0
    return seat.misses + 1 if seat.trustee is None else seat.misses


def _trick(table: Table, hand: Hand, step: Step) -> tuple[Step, ...]:
    return () if hand.on_table is None else (*table.trick, step)


def _ending(table: Table, move: events.Move) -> dict[str, Any]:
    event = move.event
    if isinstance(event, Redealing):
        return {"trick": ()}
    if isinstance(event, Voided):
        return {"redeals": event.redeals, "trick": ()}
    changes: dict[str, Any] = {"last_outcome": move.outcome, "last_factors": move.factors}
    if isinstance(event, Fled):
        changes["seats"] = with_seat(table.seats, event.seat, replace(table.seats[event.seat], leaving=table.seq + 1))
    return changes


def _hand_opening(table: Table, event: events.HandOpening, at_ms: int) -> Table:
    persons = [table.seats[number].person for number in SEATS]
    return replace(
        table,
        stage=Stage.OPENING,
        hand_number=table.hand_number + 1,
        hand_id=event.hand_id,
        players=tuple(person for person in persons if person is not None),
        carried=None,
        hand=doudizhu.start(table.book, table.terms.initial_multiplier, event.redeals),
        hand_seq=table.seq + 1,
        proofs=(),
        dealt_at_ms=0,
        trick=(),
        since_ms=at_ms,
        grace_until_ms=0,
    )


def _hand_opened(table: Table, event: events.HandOpened, at_ms: int) -> Table:
    one, two, three = (
        replace(seat, balance=carried) for seat, carried in zip(table.seats, event.carried_chips, strict=True)
    )
    return replace(table, stage=Stage.HAND, carried=event.carried_chips, seats=(one, two, three), since_ms=at_ms)


def _committed(table: Table, event: events.Committed, at_ms: int) -> Table:
    proof = Proof(event.deal_id, event.commitment, event.server_seed)
    return replace(table, proofs=(*table.proofs, proof), since_ms=at_ms)


def _seed_given(table: Table, event: events.SeedGiven, _at_ms: int) -> Table:
    *earlier, last = table.proofs
    seeds = with_seat(last.client_seeds, event.seat, event.seed)
    return replace(table, proofs=(*earlier, replace(last, client_seeds=seeds)))


def _hand_voided(table: Table, event: events.HandVoided, at_ms: int) -> Table:
    stage = Stage.WAITING if table.carried is None else Stage.SETTLING
    hand = None if table.hand is None else replace(table.hand, phase=HandPhase.OVER, voided=True, turn=None)
    return replace(table, stage=stage, hand=hand, redeals=event.redeals, trick=(), since_ms=at_ms)


def _hand_settled(table: Table, event: events.HandSettled, at_ms: int) -> Table:
    one, two, three = (
        replace(seat, balance=balance) for seat, balance in zip(table.seats, event.result.balances, strict=True)
    )
    return replace(table, seats=(one, two, three), last_result=event.result, redeals=0, since_ms=at_ms)


# ---- seats --------------------------------------------------------------------------------------------------------


def _seat_taken(table: Table, event: events.SeatTaken, at_ms: int) -> Table:
    seat = Seat(person=event.person, asked_at_ms=at_ms, absent_at_ms=at_ms)
    return replace(table, seats=with_seat(table.seats, event.seat, seat))


def _seat_left(table: Table, event: events.SeatLeft, at_ms: int) -> Table:
    left = replace(
        table,
        seats=with_seat(table.seats, event.seat, Seat()),
        base_setter=None if table.base_setter == event.seat else table.base_setter,
    )
    return left if left.seated else replace(left, empty_at_ms=at_ms)


def _base_asked(table: Table, event: events.BaseAsked, at_ms: int) -> Table:
    return replace(table, base_setter=event.seat, base_asked_at_ms=at_ms, grace_until_ms=0)


def _base_set(table: Table, event: events.BaseSet, at_ms: int) -> Table:
    one, two, three = (
        replace(seat, agreed=number == event.seat, asked_at_ms=at_ms) for number, seat in enumerate(table.seats)
    )
    return replace(table, base=event.base_chips, base_setter=event.seat, seats=(one, two, three), grace_until_ms=0)


def _base_reset(table: Table, _event: events.BaseReset, _at_ms: int) -> Table:
    one, two, three = (replace(seat, agreed=False) for seat in table.seats)
    return replace(table, base=0, base_setter=None, seats=(one, two, three))


def _trustee_set(table: Table, event: events.TrusteeSet, at_ms: int) -> Table:
    """Whoever turns the trustee off has acted: it takes two time-outs in a row again until it is back."""
    changes = {"misses": 0} if event.why is None else {}
    return _seat(table, event.seat, trustee=event.why, trustee_at_ms=at_ms, **changes)


def _presence_set(table: Table, event: events.PresenceSet, at_ms: int) -> Table:
    if event.connected:
        return _seat(table, event.seat, connection=event.connection, misses=0)
    return _seat(table, event.seat, connection="", absent_at_ms=at_ms)


def _observer_joined(table: Table, event: events.ObserverJoined, at_ms: int) -> Table:
    known = table.observer_of(event.observer.player_id)
    others = tuple(observer for observer in table.observers if observer is not known)
    connection = known.connection if known else ""
    return replace(table, observers=(*others, Observer(event.observer, event.seat, connection, at_ms)))


def _observer_left(table: Table, event: events.ObserverLeft, _at_ms: int) -> Table:
    return replace(
        table, observers=tuple(other for other in table.observers if other.person.player_id != event.player_id)
    )


def _observer_presence_set(table: Table, event: events.ObserverPresenceSet, at_ms: int) -> Table:
    connection = event.connection if event.connected else ""
    return replace(
        table,
        observers=tuple(
            replace(observer, connection=connection, absent_at_ms=at_ms)
            if observer.person.player_id == event.player_id
            else observer
            for observer in table.observers
        ),
    )


_FOLDS: Final[dict[type, Callable[[Table, Any, int], Table]]] = {
    events.SeatTaken: _seat_taken,
    events.SeatLeft: _seat_left,
    events.LeaveAsked: lambda table, event, _: _seat(table, event.seat, leaving=table.seq + 1),
    events.BaseAsked: _base_asked,
    events.BaseSet: _base_set,
    events.BaseAnswered: lambda table, event, _: _seat(table, event.seat, agreed=event.agree),
    events.BaseReset: _base_reset,
    events.ReadySet: lambda table, event, _: _seat(table, event.seat, ready=event.ready),
    events.HandOpening: _hand_opening,
    events.HandOpened: _hand_opened,
    events.Committed: _committed,
    events.SeedGiven: _seed_given,
    events.HandVoided: _hand_voided,
    events.HandSettled: _hand_settled,
    events.CountdownStarted: lambda table, _, at_ms: replace(table, stage=Stage.COUNTDOWN, since_ms=at_ms),
    events.CountdownEnded: lambda table, _, at_ms: replace(table, stage=Stage.WAITING, since_ms=at_ms),
    events.ClockExtended: lambda table, event, _: replace(table, grace_until_ms=event.until_ms),
    events.TrusteeSet: _trustee_set,
    events.ObserverJoined: _observer_joined,
    events.ObserverLeft: _observer_left,
    events.ObserverPresenceSet: _observer_presence_set,
    events.CardsAllowed: lambda table, event, _: _seat(table, event.seat, observers_allowed=event.allow),
    events.PresenceSet: _presence_set,
    events.Closed: lambda table, _, at_ms: replace(table, stage=Stage.CLOSED, since_ms=at_ms),
}
