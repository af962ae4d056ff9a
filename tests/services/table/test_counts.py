"""What happens at tables is counted by who did it and by how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from doudizhu import Outcome
from doudizhu.hand import Fled, Passed, Redealing, Side, Voided, Won
from services.table import counts, events
from services.table.table import Stage, Table, Trustee, replace
from tests.services.table.sim import Sim, person, terms

OUTCOME = Outcome(winner=Side.FARMERS, landlord=0, level=1, multiplier=6)
WON = Won(seat=1, side=Side.FARMERS, spring=None, factor=1, multiplier=6, hands=((), (), ()))


def table(book: str = "rob", **seat: Any) -> Table:
    """Three seated people; the first one's seat is changed."""
    made = Sim.open(terms(book), person(1), person(2), person(3)).table
    return replace(made, seats=(replace(made.seats[0], **seat), *made.seats[1:]))


def counted(before: Table, *happened: events.Event) -> dict[str, float]:
    """The series that rise when this happens, by how much."""
    earlier = _now()
    counts.count(before, [events.Stamped(number, 0, event) for number, event in enumerate(happened, 1)])
    return {series: value - earlier[series] for series, value in _now().items() if value != earlier[series]}


def _now() -> dict[str, float]:
    return {
        f"{sample.name.removeprefix('ddz_table_').removesuffix('_total')} {' '.join(sample.labels.values())}": (
            sample.value
        )
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name.startswith("ddz_table_") and not sample.name.endswith("_bucket")
    }


@pytest.mark.parametrize(
    ("trustee", "by_trustee", "by"),
    [
        (None, False, "player"),
        (Trustee.AWAY, False, "player"),
        (None, True, "clock"),
        (Trustee.CHOICE, True, "trustee"),
    ],
)
def test_a_move_is_counted_by_who_made_it(trustee: Trustee | None, by_trustee: bool, by: str) -> None:
    assert counted(table(trustee=trustee), events.Move(Passed(0), by_trustee)) == {f"actions pass {by}": 1}


@pytest.mark.parametrize(
    ("move", "series"),
    [
        (
            events.Move(WON, outcome=OUTCOME),
            {"hands rob farmers": 1, "multiplier_count rob": 1, "multiplier_sum rob": 6},
        ),
        (
            events.Move(Fled(0, 5, 2), outcome=Outcome(None, 0, 1, 4, fled=0, flee_multiplier=2)),
            {"hands rob fled": 1, "multiplier_count rob": 1, "multiplier_sum rob": 4},
        ),
        (events.Move(Redealing()), {"redeals rob": 1}),
        (events.Move(Voided(1)), {"redeals rob": 1, "hands rob passed": 1}),
        (events.HandVoided("left", 0), {"hands rob voided": 1}),
    ],
)
def test_a_hand_is_counted_by_how_it_ended(move: events.Event, series: dict[str, float]) -> None:
    assert counted(table(), move) == series


def test_seats_and_clocks_are_counted() -> None:
    happened = (
        events.SeatTaken(0, person(4)),
        events.SeatLeft(0, "p1"),
        events.SeatLeft(0, "p1", "TIMED_OUT"),
        events.SeatLeft(0, "p1", "BELOW_MINIMUM"),
        events.TrusteeSet(0, Trustee.CHOICE),
        events.TrusteeSet(0, Trustee.MISSES),
        events.ClockExtended(1),
    )
    assert counted(table(), *happened) == {
        "actions sit player": 1,
        "actions leave player": 1,
        "actions leave clock": 1,
        "actions leave table": 1,
        "actions trustee player": 1,
        "actions trustee clock": 1,
        "clocks_extended ": 1,
    }


@dataclass
class Watched:
    """A table as its node holds it: so many streams, each two frames behind, and one request in its mailbox."""

    table: Table | None
    watching: int

    @property
    def mailbox(self) -> list[str]:
        return ["request"]

    @property
    def audience(self) -> Any:
        return SimpleNamespace(streams=[SimpleNamespace(behind=2)] * self.watching)


def test_a_stock_tells_of_this_nodes_streams_alone_and_of_every_stage() -> None:
    here, elsewhere = (replace(table(connection=f"{node}:1"), stage=Stage.WAITING) for node in ("here", "elsewhere"))
    stock = counts.Stock("here:")
    for held in (
        Watched(here, 3),
        Watched(replace(here, stage=Stage.HAND), 1),
        Watched(elsewhere, 0),
        Watched(None, 0),
    ):
        stock.take(held)  # type: ignore[arg-type]
    stock.tell()
    found = {stage: REGISTRY.get_sample_value("ddz_tables", {"stage": stage}) for stage in Stage}
    expected = dict.fromkeys(Stage, 0) | {Stage.WAITING: 1, Stage.HAND: 1}
    assert found == expected
    assert [gauge._value.get() for gauge in (counts.HELD, counts.SEATS, counts.BACKLOG, counts.MAILBOX)] == [4, 2, 8, 4]


def test_why_a_stream_ended_is_counted_and_lost_when_nobody_said_why() -> None:
    before = _now()
    counts.ended("slow")
    counts.ended("")
    now = _now()
    assert [now[f"goodbyes {why}"] - before[f"goodbyes {why}"] for why in ("slow", "lost", "left")] == [1, 1, 0]
