"""What a table's one clock says: when something runs out next, and for whom it waits (RULES.md section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from doudizhu.hand import Phase as HandPhase
from services.table.table import Phase, Stage, Table

# A clock that is looked at so much later than it ran out has run out while no node was there to see it: everybody
# then gets extra time, because nobody could act.
LATE_MS: Final = 5_000
EXTRA_MS: Final = 10_000
# What was pending outside is taken up by another node when this one has not brought the answer by then.
RESUME_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Clock:
    """For which seat the table waits (-1: nobody in particular) and until when; 0 = without limit."""

    phase: Phase
    seat: int
    deadline_ms: int


def clock(table: Table) -> Clock:
    """What people are shown."""
    phase = table.phase
    seat = waited_for(table, phase)
    deadline = _phase_deadline(table, phase)
    return Clock(phase, seat, 0 if deadline is None else max(deadline, table.grace_until_ms))


def extra_ms(table: Table) -> int:
    """What is given when nobody could act: a seat gets `EXTRA_MS`, and what waits for no seat its own time again."""
    clocks = table.terms.clocks
    match table.phase:
        case Phase.COUNTDOWN:
            return min(EXTRA_MS, clocks.countdown_ms)
        case Phase.SHOW_WINDOW:
            return min(EXTRA_MS, clocks.show_window_ms)
        case Phase.SEED:
            return min(EXTRA_MS, clocks.seed_ms)
        case _:
            return EXTRA_MS


def waited_for(table: Table, phase: Phase) -> int:
    """The seat whose act the table waits for; -1 when it waits for none or for several."""
    if table.stage is Stage.HAND and table.hand is not None and table.hand.turn is not None:
        return table.hand.turn
    if phase is Phase.BASE and table.base_setter is not None:
        return table.base_setter
    return -1


def wake_at_ms(table: Table, shown: Clock | None = None) -> int | None:
    """When a node must look at the table again, whatever people do; None = never. `shown`: its `clock`, if known."""
    if table.stage is Stage.CLOSED:
        return None
    wake = (clock(table) if shown is None else shown).deadline_ms or None
    if table.stage is Stage.WAITING or table.observers or table.terms.clocks.away_ms:
        for deadline in _other_deadlines(table):
            if wake is None or deadline < wake:
                wake = max(deadline, table.grace_until_ms)
    return wake


def resume_at_ms(table: Table, wake: int | None, now_ms: int) -> int | None:
    """When another node must look at it, should the one that serves it have died. `wake`: its `wake_at_ms`.

    What waits for the ledger is looked at again after as long as it has waited: the ledger may be away for long.
    """
    if table.stage not in (Stage.OPENING, Stage.SETTLING) and not awaits_commitment(table):
        return wake
    resume = max(table.since_ms + RESUME_MS, 2 * now_ms - table.since_ms)
    return resume if wake is None else min(wake, resume)


def awaits_commitment(table: Table) -> bool:
    """Whether the next deal of the hand has no commitment yet."""
    return (
        table.stage is Stage.HAND
        and table.hand is not None
        and table.hand.phase is HandPhase.AWAIT_DEAL
        and len(table.proofs) == table.hand.deals
    )


def away_deadline(table: Table, number: int) -> int | None:
    """When a lost connection counts as a flee, in rooms with such a limit (D-05)."""
    seat = table.seats[number]
    limit_ms = table.terms.clocks.away_ms
    if not limit_ms or table.stage is not Stage.HAND or not table.live or seat.person is None or seat.connection:
        return None
    return seat.absent_at_ms + limit_ms


def agree_deadline(table: Table, number: int) -> int | None:
    """When a seat that has not agreed to the base loses its place; each is asked when it sits down."""
    seat = table.seats[number]
    if table.phase is not Phase.AGREE or seat.person is None or seat.agreed:
        return None
    return seat.asked_at_ms + table.terms.clocks.agree_ms


def idle_deadline(table: Table, number: int) -> int | None:
    """When a seat without a connection is freed, outside of hands."""
    seat = table.seats[number]
    if table.stage is not Stage.WAITING or seat.person is None or seat.connection:
        return None
    return seat.absent_at_ms + table.idle_ms


def _other_deadlines(table: Table) -> Iterator[int]:
    """What runs out besides the clock that everybody sees."""
    if table.stage is Stage.WAITING and not table.seated:
        yield table.empty_at_ms + table.idle_ms
    if table.stage is Stage.WAITING or table.terms.clocks.away_ms:
        for number in table.seated:
            for deadline in (away_deadline(table, number), idle_deadline(table, number)):
                if deadline is not None:
                    yield deadline
    for observer in table.observers:
        if not observer.connection:
            yield observer.absent_at_ms + table.idle_ms


def _phase_deadline(table: Table, phase: Phase) -> int | None:
    """The end of the wait that everybody sees; None where it has none."""
    clocks = table.terms.clocks
    match phase:
        case Phase.PLAY:
            return _turn_deadline(table, clocks.first_lead_ms if _first_lead(table) else clocks.play_ms)
        case Phase.BID | Phase.CALL | Phase.ROB:
            return _turn_deadline(table, clocks.auction_ms)
        case Phase.SHOW:
            return _turn_deadline(table, clocks.show_ms)
        case Phase.SHOW_WINDOW:
            return table.since_ms + clocks.show_window_ms
        case Phase.SEED:
            return None if awaits_commitment(table) else table.since_ms + clocks.seed_ms
        case Phase.COUNTDOWN:
            return table.since_ms + clocks.countdown_ms
        case Phase.BASE:
            return table.base_asked_at_ms + clocks.base_ms
        case Phase.AGREE:
            asked = [agree_deadline(table, number) for number in table.seated]
            return min((deadline for deadline in asked if deadline is not None), default=None)
        case _:
            return None


def _first_lead(table: Table) -> bool:
    return table.hand is not None and not any(table.hand.combos_by_seat)


def _turn_deadline(table: Table, wait_ms: int) -> int:
    """The clock of the seat on turn; a trustee does not use it up (D-06)."""
    assert table.hand is not None
    assert table.hand.turn is not None
    seat = table.seats[table.hand.turn]
    full = table.since_ms + wait_ms
    if seat.trustee is None:
        return full
    return min(full, max(table.since_ms, seat.trustee_at_ms) + table.terms.clocks.trustee_ms)
