"""The boards of leaders over a database that is slow or away: one reading at a time, and a rest after each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

from doudizhu.refusal import Refusal
from services.ledger.leaders import Board, Leaders

AWAY = Refusal("UNAVAILABLE", "The ledger cannot reach its database; try again.")
BOARD = [("p1", 5, 7)]


class Slow:
    """The time, and a database that takes five seconds of it for a query, once `go` is set; or fails after them."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.queries = 0
        self.fault: Refusal | None = None
        self.go = asyncio.Event()
        self.go.set()
        self.leaders = Leaders(cast("Any", self), lambda: self.now_s)

    async def fetch(self, _query: str, *_arguments: Any) -> list[dict[str, Any]]:
        self.queries += 1
        await self.go.wait()
        self.now_s += 5
        if self.fault:
            raise self.fault
        return [dict(zip(("player_id", "chips", "rating"), row, strict=True)) for row in BOARD]

    async def ask(self, times: int = 10) -> list[Board | BaseException]:
        asked = (self.leaders.get("chips", 10) for _ in range(times))
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_a_board_that_cannot_be_read_rests_too() -> None:
    slow = Slow()
    slow.fault = AWAY
    for wait_s, queries in ((0, 1), (99, 1), (1, 2)):  # twenty times as long as it took, and then it is tried again
        slow.now_s += wait_s
        refused = await slow.ask()
        assert all(isinstance(each, Refusal) and each.reason == "UNAVAILABLE" for each in refused)
        assert slow.queries == queries
    slow.fault = None
    slow.now_s += 100
    assert await slow.ask() == [BOARD] * 10


async def test_the_old_board_is_shown_while_there_is_no_newer_one() -> None:
    slow = Slow()
    assert await slow.ask() == [BOARD] * 10
    slow.fault = AWAY
    slow.now_s += 100
    assert await slow.ask() == [BOARD] * 10
    assert slow.queries == 2


async def test_a_reading_goes_on_when_who_asked_first_gives_up() -> None:
    """The lobby waits as long as a query may take, so that it is the lobby that gives up."""
    slow = Slow()
    slow.go.clear()
    first = asyncio.create_task(slow.leaders.get("chips", 10))
    others = asyncio.create_task(slow.ask())
    await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    slow.go.set()
    assert await others == [BOARD] * 10
    assert slow.queries == 1
