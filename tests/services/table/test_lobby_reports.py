"""What tables and those who list them agree on is written in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ddz.lobby.v1 import lobby_pb2
from servicekit import seats
from servicekit.config import describe
from services.table import commands
from services.table.__main__ import Config
from services.table.news import News, summary_of
from services.table.settings import Settings
from services.table.table import Phase
from tests.services.table.sim import Sim, terms


class Bus:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, data: bytes, headers: None) -> None:
        self.published.append((subject, data))


async def test_a_report_goes_where_the_lobby_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, tasks = Bus(), list[asyncio.Task[None]]()
    monkeypatch.setattr(seats, "SUBJECT", "ddz.elsewhere")

    def background(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.create_task(work))

    table = Sim.open(terms("happy")).table
    News(bus, "n1", background).report(table)  # type: ignore[arg-type]
    await asyncio.gather(*tasks)
    [(subject, data)] = bus.published
    assert subject == "ddz.elsewhere"
    assert lobby_pb2.TableSummary.FromString(data) == summary_of(table)


def test_a_closed_table_says_the_word_that_the_lobby_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1)
    assert summary_of(sim.table).phase == "seating"
    sim.decide(commands.Leave("p1"), 0)
    sim.wait(60_000)
    assert sim.table.phase is Phase.CLOSED
    assert summary_of(sim.table).phase == seats.CLOSED == "closed"
    monkeypatch.setattr(seats, "CLOSED", "gone")
    assert summary_of(sim.table).phase == "gone"


def test_two_reports_may_be_lost_and_no_setting_can_change_that() -> None:
    assert Settings(node_id="n1").report_s == seats.REPORT_S
    assert seats.LEASE_S == 3 * seats.REPORT_S
    assert not any("REPORT" in row[0] for row in describe(Config))
