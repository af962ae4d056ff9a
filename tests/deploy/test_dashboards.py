"""The dashboards and the alerts ask for what a running system tells, and what it tells has bounded labels."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import Board, graph, rate
from deploy.local import prometheus
from deploy.local.leash import Leash
from deploy.local.stack import Stack
from tests.deploy.watched import Watch, load, names, watching

pytestmark = pytest.mark.timeout(300)  # the first of them may start the whole system

_DEADLINE_S = 60
_SERIES_A_PROCESS = 3_000  # with every room, method and status of a process that has seen everything
_LABELS = {
    "act", "by", "client", "code", "error", "flow", "kind", "le", "method", "outcome", "reason", "result", "room",
    "stage", "where", "why", "book",
}  # fmt: skip
_OF_PROMETHEUS = {"__name__", "instance", "job"}
_AN_ID = re.compile(r"^p\d+$|^[mtx][0-9a-f]{20}|^\d+\.\d+\.\d+\.\d+|[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture(scope="module")
async def watch(leash: Leash, scratch: Path, stack: Stack) -> AsyncIterator[Watch]:
    """A Prometheus that has seen the whole system at work."""
    program = prometheus.binary()
    if program is None:
        pytest.skip("the dashboards are tried on a real Prometheus: apt-get install prometheus")
    async with watching(leash, program, scratch / "prometheus", stack) as found:
        await load(stack)
        yield found


async def test_every_panel_shows_something(watch: Watch, stack: Stack) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        while empty := await watch.empty_panels(BOARDS):
            print(empty)  # what a deadline that has passed was waiting for
            await load(stack)


async def test_a_panel_with_a_wrong_name_is_found(watch: Watch) -> None:
    wrong = Board("wrong", "Wrong", {"Row": (graph("Misspelled", "ops", rate("ddz_table_handz_total", "book")),)})
    assert await watch.empty_panels([wrong]) == [
        "Wrong: Misspelled: sum by (book) (rate(ddz_table_handz_total[$__rate_interval]))"
    ]


async def test_every_alert_can_be_evaluated_and_asks_for_what_there_is(watch: Watch) -> None:
    there = {name for series in await watch.series() for name in names(series["__name__"])}
    groups = (await watch.ask("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert rules
    assert {rule["name"]: names(rule["query"]) - there for rule in rules if names(rule["query"]) - there} == {}


async def test_names_follow_conventions_and_labels_are_bounded(watch: Watch) -> None:
    found = await watch.series()
    kinds = {family(name): told[0]["type"] for name, told in (await watch.ask("metadata")).items()}
    for series in found:
        name = series["__name__"]
        assert re.fullmatch("ddz(_[a-z]+)+", name), name
        assert name.endswith("_total") == (kinds[family(name)] == "counter"), name
        assert not re.search("_(ms|millis|minutes|s|kb)$", family(name)), f"{name}: seconds and bytes are the units"
        labels = {key: value for key, value in series.items() if key not in _OF_PROMETHEUS}
        assert labels.keys() <= _LABELS, series
        assert not [value for value in labels.values() if _AN_ID.search(value)], series
    assert max(Counter(series["instance"] for series in found).values()) < _SERIES_A_PROCESS


def family(name: str) -> str:
    """What a metric is called without what its kind adds."""
    return re.sub("_(bucket|sum|count|total)$", "", name)
