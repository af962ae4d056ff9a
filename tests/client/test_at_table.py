"""A person at a table in the terminal: what he types, and what the servers answer to it."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

from rich.console import Console

from ddz.common.v1 import common_pb2
from ddz.ledger.v1.ledger_pb2 import Balance
from ddz.lobby.v1.lobby_pb2 import ListRoomsResponse
from ddz.table.v1 import events_pb2
from ddz.table.v1.table_pb2 import PlayResponse
from ddzclient.cli import words
from ddzclient.cli.menu import choose
from ddzclient.cli.seat import AtTable
from ddzclient.cli.terminal import Terminal
from ddzclient.client import Gateway
from ddzclient.session import Session
from tests.client.scripted import Requests, Script, refused, scripted_lobby, scripted_table, serve, snapshot


class Typing(Terminal):
    """A terminal at which lines are typed, whose screen is text."""

    def __init__(self, *lines: str) -> None:
        self.screen = io.StringIO()
        super().__init__(Console(file=self.screen, width=160), plain=True)
        for line in lines:
            self._lines.put_nowait(line)


@contextlib.asynccontextmanager
async def sitting(terminal: Terminal, script: Script) -> AsyncIterator[AtTable]:
    """A seat at a table that does what the script says."""
    async with serve(table=scripted_table(script), lobby=scripted_lobby()) as address, Gateway(address) as gateway:
        session = await Session.guest(gateway, "a-device-key-0001")
        async with asyncio.timeout(10), session.table("t1") as table:
            yield AtTable(session, table, terminal)


async def test_who_could_not_leave_stays_at_the_table() -> None:
    reasons = [common_pb2.REASON_FORBIDDEN, common_pb2.REASON_NOT_A_PLAYER]

    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        free = snapshot(1)
        free.snapshot.clock.phase = events_pb2.PHASE_SEATING
        yield free
        async for request in requests:
            yield refused(request, reasons.pop(0))

    terminal = Typing("leave", "leave")
    async with sitting(terminal, script) as seat:
        assert await seat.run() == words.ENDS["left"]
    assert reasons == []
    assert "不允许 no" in terminal.screen.getvalue()


async def test_the_menu_shows_how_the_table_before_ended_until_something_is_typed() -> None:
    session: Any = AsyncMock(player=common_pb2.Player(), lobby=AsyncMock(return_value=ListRoomsResponse()))
    session.balance.return_value = Balance()
    terminal = Typing("what", "quit")
    assert await choose(session, terminal, ["how it ended"]) is None
    first, again = terminal.screen.getvalue().split("房间号")[:2]
    assert "how it ended" in first
    assert "how it ended" not in again
