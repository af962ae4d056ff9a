"""A table as a decider around the hands of the rules core (RULES.md section 4).

    opened(...)                    -> the first events of a table
    decide(table, command, …)      -> its events and the table after them; refuses with a typed reason
    evolve(table, event, at_ms)    -> table (evolve.py)
    pending(table)                 -> what is to be done outside now, or None
    clock(table), wake_at_ms(table)   (clocks.py)

Time and randomness are arguments. Whoever executes `pending` brings the answer back as a command; the key of the work
follows from the state, so that any node can take it up again.
"""

from __future__ import annotations

from dataclasses import dataclass

from doudizhu import Malformed, Refusal
from doudizhu.hand import Bid, Call, Pass, Play, Rob, Show
from doudizhu.refusal import Reason as RuleReason
from services.table import commands, events, hands, seating
from services.table import terms as table_terms
from services.table.clocks import (
    LATE_MS,
    agree_deadline,
    awaits_commitment,
    away_deadline,
    clock,
    extra_ms,
    idle_deadline,
    wake_at_ms,
)
from services.table.draft import Draft
from services.table.evolve import opened as first_table
from services.table.table import SEATS, Phase, Stage, Table
from services.table.terms import Person, Reason, Terms

Decision = tuple[list[events.Stamped], Table]


# ---- what is pending outside --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenHand:
    """The ledger is to seat the three for this hand."""

    hand_id: str
    player_ids: tuple[str, ...]
    minimum_chips: int


@dataclass(frozen=True, slots=True)
class DrawSeed:
    """A server seed is to be drawn for this deal."""

    deal_id: str


@dataclass(frozen=True, slots=True)
class SettleHand:
    """The ledger is to settle the hand whose record begins at this event."""

    hand_id: str
    first_seq: int


@dataclass(frozen=True, slots=True)
class VoidHand:
    """The ledger is to close the hand without a transfer."""

    hand_id: str


Effect = OpenHand | DrawSeed | SettleHand | VoidHand


def pending(table: Table) -> Effect | None:
    """What the table waits for outside of itself."""
    if awaits_commitment(table):
        return DrawSeed(hands.deal_id(table))
    if table.stage is Stage.OPENING:
        return OpenHand(table.hand_id, tuple(person.player_id for person in table.players), table.minimum_chips)
    if table.stage is not Stage.SETTLING:
        return None
    assert table.hand is not None
    return VoidHand(table.hand_id) if table.hand.voided else SettleHand(table.hand_id, table.hand_seq)


# ---- the decider --------------------------------------------------------------------------------------------------


def open_table(
    table_id: str, terms: Terms, persons: tuple[Person, ...], *, idle_ms: int, now_ms: int, draw: int
) -> Decision:
    """A new table; persons are seated at once. Raises what `terms.check` raises, Malformed for a match not of three."""
    table_terms.check(terms)
    if len({person.player_id for person in persons}) < len(persons):
        raise Malformed(RuleReason.INVALID, "the same player comes twice", field="players")
    if terms.matched and len(persons) != len(SEATS):
        raise Malformed(RuleReason.INVALID, "a match has three players", field="players")
    first = events.Opened(terms, idle_ms)
    draft = Draft(first_table(table_id, first, now_ms), now_ms, draw, events=[events.Stamped(1, now_ms, first)])
    for number, person in enumerate(persons):
        draft.emit(events.SeatTaken(number, person))
        seating.proceed(draft)
    return draft.events, draft.table


def decide(table: Table, command: commands.Command, now_ms: int, draw: int, *, closed: bool = False) -> Decision:
    """The events of a command and the table after them; no events when it changes nothing.

    `draw` is a random number of 32 bits; in a system that is `closed` no hand begins. Raises a Refusal with a typed
    reason; the table is a value and never changes.
    """
    draft = Draft(table, now_ms, draw, closed)
    match command:
        case commands.Act():
            _act(draft, command)
        case commands.Tick():
            _tick(draft)
        case commands.Resume():
            _resume(draft, command)
        case commands.Sit():
            seating.sit(draft, command)
        case commands.Observe():
            seating.observe(draft, command)
        case commands.Leave():
            _leave(draft, command)
        case commands.Connect():
            seating.connect(draft, command)
        case commands.Disconnect():
            seating.disconnect(draft, command)
        case commands.LedgerOpened():
            hands.ledger_opened(draft, command)
        case commands.LedgerRefused():
            hands.ledger_refused(draft, command)
        case commands.Commit():
            hands.commit(draft, command)
        case commands.LedgerSettled():
            hands.ledger_settled(draft, command)
        case commands.LedgerVoided():
            hands.ledger_voided(draft, command)
        case commands.Proceed():
            seating.go_on(draft)
        case commands.VoidTable():
            _void_table(draft)
    return draft.events, draft.table


def _act(draft: Draft, command: commands.Act) -> None:
    seating.require_open(draft.table)
    number, action = command.seat, command.action
    match action:
        case Play() | Pass() | Bid() | Call() | Rob() | Show():
            hands.act(draft, number, action)
        case commands.SetBase():
            seating.set_base(draft, number, action)
        case commands.AnswerBase():
            seating.answer_base(draft, number, action)
        case commands.Ready():
            seating.ready(draft, number, action)
        case commands.SetTrustee():
            seating.set_trustee(draft, number, action)
        case commands.AllowObservers():
            seating.allow_observers(draft, number, action)
        case commands.GiveSeed():
            hands.give_seed(draft, number, action)


def _leave(draft: Draft, command: commands.Leave) -> None:
    """Fleeing a live hand, voiding one that is not dealt yet, or plainly leaving."""
    table = draft.table
    seating.require_open(table)
    number = table.seat_of(command.player_id)
    if number is not None and table.stage is Stage.HAND:
        if table.live:
            hands.flee(draft, number)
        else:
            draft.emit(events.LeaveAsked(number))
            hands.void(draft, "left")
        return
    seating.leave(draft, command)


def _tick(draft: Draft) -> None:
    """Does the one thing that is due; the next one is due at once and comes with the next tick."""
    table, now = draft.table, draft.now_ms
    wake = wake_at_ms(table)
    if wake is None or now < wake:
        return
    if now > wake + LATE_MS:
        draft.emit(events.ClockExtended(now + extra_ms(table)))
        return
    for number in table.seated:
        if _due(away_deadline(table, number), now):
            hands.flee(draft, number)
            return
        if _due(agree_deadline(table, number), now) or _due(idle_deadline(table, number), now):
            seating.free_seat(draft, number, Reason.TIMED_OUT)
            seating.proceed(draft)
            return
    for observer in table.observers:
        if not observer.connection and now >= observer.absent_at_ms + table.idle_ms:
            draft.emit(events.ObserverLeft(observer.person.player_id))
            return
    if not table.seated and table.stage is Stage.WAITING and now >= table.empty_at_ms + table.idle_ms:
        draft.emit(events.Closed("empty"))
    elif _due(clock(table).deadline_ms or None, now):
        _clock_ran_out(draft)


def _void_table(draft: Draft) -> None:
    """Ends the table, its hand before. One that is over already is left to the ledger: it may have been settled."""
    if draft.table.stage is Stage.CLOSED:
        return
    if draft.table.stage in (Stage.OPENING, Stage.HAND):
        hands.void(draft, "operator")
    draft.emit(events.Closed("operator"))


def _resume(draft: Draft, command: commands.Resume) -> None:
    """Extra time for whoever is waited for, once, however long nobody could act; dead streams are lost ones."""
    for player_id, connection in command.dead:
        seating.disconnect(draft, commands.Disconnect(player_id, connection))
    table = draft.table
    until_ms = draft.now_ms + extra_ms(table)
    if table.grace_until_ms <= draft.now_ms and 0 < clock(table).deadline_ms < until_ms:
        draft.emit(events.ClockExtended(until_ms))


def _due(deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and now_ms >= deadline_ms


def _clock_ran_out(draft: Draft) -> None:
    table = draft.table
    if table.stage is Stage.HAND:
        hands.expire(draft)
    elif table.phase is Phase.COUNTDOWN:
        hands.countdown_over(draft)
    else:
        assert table.phase is Phase.BASE, f"no clock runs in {table.phase}"
        assert table.base_setter is not None
        seating.free_seat(draft, table.base_setter, Reason.TIMED_OUT)
        seating.proceed(draft)


def seat_or_refuse(table: Table, player_id: str) -> int:
    """The seat of a player; raises NOT_A_PLAYER for observers and strangers."""
    number = table.seat_of(player_id)
    if number is None:
        raise Refusal(Reason.NOT_A_PLAYER, "only a seated player may do this")
    return number


def may_watch(table: Table, player_id: str) -> bool:
    """Whether a person is at the table, or played its last hand."""
    return (
        table.seat_of(player_id) is not None
        or table.observer_of(player_id) is not None
        or any(person.player_id == player_id for person in table.players)
    )


__all__ = ["SEATS", "Decision", "Effect", "clock", "decide", "may_watch", "open_table", "pending", "seat_or_refuse"]
