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


def came(at_ms: int, node: str, seat: int = 0, before: Step | None = None, *, connected: bool = True) -> Step:
    """A player's stream has come to a node, or is gone from there."""
    clock = events_pb2.Clock(phase=PHASE_PLAY if before is None else before.phase)
    presence = events_pb2.PresenceSet(seat=seat, connected=connected, connection=f"{node}-0a1b:7")
    return step_of(events_pb2.Event(at_ms=at_ms, clock=clock, presence_set=presence), before)


def table(phase: Phase.ValueType, *later: tuple[str, int], deadline_ms: int = 0) -> list[Step]:
    """A table that waits in a phase at its node's death; later come these events (which, when), in the same phase."""
    steps = [came(DEATH - 9_000, "a")]
    for name, at_ms in (("played", DEATH - 50), *later):
        message = events_pb2.Event(at_ms=at_ms, clock=events_pb2.Clock(phase=phase, deadline_ms=deadline_ms))
        getattr(message, name).SetInParent()
        steps.append(step_of(message, steps[-1]))
    return steps


def found(*tables: list[Step], away: tuple[tuple[int, int], ...] = (), until_ms: int = END) -> dict[str, Any]:
    logs = {str(number): steps for number, steps in enumerate(tables)}
    return standstills(logs, Ended([(DEATH, "a")], away, until_ms), allowed_ms=3_000, think_ms=1_500)


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


def dying(steps: list[Step], *deaths: tuple[int, str]) -> dict[str, Any]:
    return standstills({"one": steps}, Ended(deaths, (), END), allowed_ms=3_000, think_ms=1_500)


def test_a_death_is_of_the_tables_whose_players_are_at_the_node() -> None:
    at_a = [came(1_000, "a")]
    assert dying(at_a, (DEATH, "a"))["looked_at"] == 1
    assert dying(at_a, (DEATH, "b"))["looked_at"] == 0
    assert dying(at_a, (500, "a"), (DEATH, "a"))["looked_at"] == 1
    assert dying(at_a, (2_000, "a"), (DEATH, "a"))["looked_at"] == 1, "nobody has come back to the node's next life"
    gone = [*at_a, came(5_000, "a", before=at_a[-1], connected=False)]
    assert dying(gone, (DEATH, "a"))["looked_at"] == 0
    moved = [*at_a, came(5_000, "b", before=at_a[-1])]
    assert dying(moved, (DEATH, "a"))["looked_at"] == 0
    assert dying(moved, (DEATH, "b"))["looked_at"] == 1
    one_stays = [*at_a, came(5_000, "b", seat=1, before=at_a[-1])]
    assert dying(one_stays, (DEATH, "a"), (DEATH + 1, "b"))["looked_at"] == 2


def test_who_loses_its_next_node_too_has_its_time_again() -> None:
    steps = [came(1_000, "a")]
    steps.append(came(DEATH + 1_000, "b", before=steps[-1]))
    told = dying(steps, (DEATH, "a"), (DEATH + 4_400, "b"))
    assert (told["looked_at"], told["died_again"], told["later_than_allowed"]) == (2, 1, 1)
    assert told["longest_ms"] == END - DEATH
    told = dying(steps, (DEATH, "a"), (DEATH + 4_600, "b"))
    assert (told["died_again"], told["later_than_allowed"]) == (0, 2), "its time was over before"
    told = dying([steps[0]], (DEATH, "a"), (DEATH + 1_400, "b"))
    assert (told["died_again"], told["later_than_allowed"]) == (0, 1), "nobody had come to the second one"
