"""How long a table stood still, on logs that are made by hand: a node dies at 10,000 ms, the chaos ends at 60,000."""

from __future__ import annotations

from typing import Any

import pytest

from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import (
    PHASE_AGREE,
    PHASE_BASE,
    PHASE_BID,
    PHASE_CALL,
    PHASE_CLOSED,
    PHASE_COUNTDOWN,
    PHASE_OPENING,
    PHASE_PLAY,
    PHASE_READY,
    PHASE_ROB,
    PHASE_SEATING,
    PHASE_SEED,
    PHASE_SETTLING,
    PHASE_SHOW,
    PHASE_SHOW_WINDOW,
    Phase,
)
from tests.chaos.standstill import Ended, Step, standstills, step_of

DEATH = 10_000
END = 60_000
LEDGER = (PHASE_OPENING, PHASE_SETTLING)
PEOPLE = (PHASE_BASE, PHASE_AGREE, PHASE_BID, PHASE_CALL, PHASE_ROB, PHASE_SHOW, PHASE_PLAY)
TIMED = (PHASE_SEED, PHASE_SHOW_WINDOW, PHASE_COUNTDOWN)


def table(phase: Phase.ValueType, *later: tuple[str, int], deadline_ms: int = 0) -> list[Step]:
    """A table that waits in a phase at the death; later come these events (which, when), in the same phase."""
    steps: list[Step] = []
    for name, at_ms in (("played", DEATH - 50), *later):
        message = events_pb2.Event(at_ms=at_ms, clock=events_pb2.Clock(phase=phase, deadline_ms=deadline_ms))
        getattr(message, name).SetInParent()
        steps.append(step_of(message, steps[-1] if steps else None))
    return steps


def found(*tables: list[Step], away: tuple[tuple[int, int], ...] = (), until_ms: int = END) -> dict[str, Any]:
    logs = {str(number): steps for number, steps in enumerate(tables)}
    return standstills(logs, Ended([DEATH], away, until_ms), allowed_ms=3_000, think_ms=1_500)


@pytest.mark.parametrize("phase", [*LEDGER, *PEOPLE])
def test_a_table_that_goes_on_in_time_is_fine_and_one_that_does_not_is_late(phase: Phase.ValueType) -> None:
    allowed_ms = 4_500 if phase in PEOPLE else 3_000
    told = found(table(phase, ("passed", DEATH + allowed_ms)))
    assert (told["looked_at"], told["longest_ms"], told["later_than_allowed"]) == (1, allowed_ms, 0)
    told = found(table(phase, ("passed", DEATH + allowed_ms + 1)))
    assert told["late_in"] == {Phase.Name(phase).removeprefix("PHASE_"): 1}


@pytest.mark.parametrize("phase", TIMED)
def test_a_clock_may_run_out_first_but_may_not_be_put_off(phase: Phase.ValueType) -> None:
    runs_out = DEATH + 20_000
    told = found(table(phase, ("committed", runs_out + 100), deadline_ms=runs_out))
    assert (told["longest_ms"], told["later_than_allowed"]) == (100, 0)
    put_off = table(phase, ("clock_extended", DEATH + 200), ("committed", DEATH + 10_200), deadline_ms=DEATH + 100)
    assert found(put_off)["later_than_allowed"] == 1
    assert found(table(phase, deadline_ms=END + 1))["later_than_allowed"] == 0


@pytest.mark.parametrize(
    "name", ["presence_set", "trustee_set", "clock_extended", "observer_joined", "cards_allowed", "leave_asked"]
)
def test_who_comes_and_goes_moves_no_table(name: str) -> None:
    told = found(table(PHASE_PLAY, (name, DEATH + 100), ("played", DEATH + 9_000)))
    assert (told["longest_ms"], told["later_than_allowed"]) == (9_000, 1)


def test_a_phase_that_changes_is_going_on_whatever_the_event() -> None:
    steps = table(PHASE_PLAY, ("presence_set", DEATH + 100))
    steps.append(step_of(events_pb2.Event(at_ms=DEATH + 200, clock=events_pb2.Clock(phase=PHASE_SETTLING)), steps[-1]))
    assert found(steps)["longest_ms"] == 200


@pytest.mark.parametrize("phase", [*LEDGER, *PEOPLE, *TIMED])
def test_a_table_that_never_goes_on_stood_still_to_the_end(phase: Phase.ValueType) -> None:
    assert found(table(phase))["later_than_allowed"] == 1
    after_the_end = table(phase, ("played", END + 5_000))
    assert found(after_the_end)["longest_ms"] == END - DEATH


@pytest.mark.parametrize("phase", [PHASE_SEATING, PHASE_READY, PHASE_CLOSED])
def test_tables_that_wait_for_nobody_or_without_a_clock_are_not_looked_at(phase: Phase.ValueType) -> None:
    assert found(table(phase))["looked_at"] == 0


def test_what_something_else_may_have_done_is_not_judged() -> None:
    stuck = table(PHASE_PLAY)
    assert found(stuck, away=((DEATH - 4_000, DEATH - 1_000),))["looked_at"] == 0
    assert found(stuck, away=((DEATH + 4_000, DEATH + 6_000),))["looked_at"] == 0
    assert found(stuck, away=((DEATH - 9_000, DEATH - 2_001),))["looked_at"] == 1
    assert found(stuck, until_ms=DEATH + 4_499)["looked_at"] == 0, "the chaos was over before"
