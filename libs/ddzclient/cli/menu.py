"""Before the table: the rooms to choose from, and the wait for two others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddz.common.v1.common_pb2 import Notice
from ddz.ledger.v1.ledger_pb2 import Balance
from ddz.lobby.v1.lobby_pb2 import Room
from ddz.matchmaking.v1.matchmaking_pb2 import Ticket, TicketState
from ddzclient.cli import words
from ddzclient.cli.terminal import Terminal
from ddzclient.cli.words import plain, sorry
from ddzclient.errors import TicketEnded
from ddzclient.session import Session
from doudizhu.refusal import Refusal
from doudizhu.titles import TITLES

_NOTHING: Final = Notice()
_TITLES: Final = {title.id: f"{title.zh} {title.en}" for title in TITLES}
_ASK: Final = (
    "房间号 a room's number · 0 快速开始 quick start · code 1234 好友桌 a private table · "
    "relief 领救济 chips for who is broke · quit 退出"
)


def rooms_view(
    name: str, balance: Balance, rooms: Sequence[Room], note: str = "", told: Notice = _NOTHING
) -> RenderableType:
    """Who one is, and the rooms by number; `told`: what operators tell to all."""
    title = _TITLES.get(balance.title, "")
    who = f"{plain(name)} · {balance.chips:,} 筹码 chips · {balance.rating:,} {title}"
    table = Table(title=Text(who), title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("#", "房间 room", "规则 book", "底分 base", "准入 entry", "回收 rake", "人 players"):
        table.add_column(heading)
    for number, room in enumerate(rooms, 1):
        terms = room.terms
        base = f"{terms.base_min_chips:,}"
        if terms.base_max_chips != terms.base_min_chips:
            base += f"–{terms.base_max_chips:,}"
        entry = (
            f"{terms.minimum_chips:,}–{terms.maximum_chips:,}" if terms.maximum_chips else f"≥ {terms.minimum_chips:,}"
        )
        open_to = terms.minimum_chips <= balance.chips and not 0 < terms.maximum_chips < balance.chips
        names = Text(f"{plain(room.name_zh)} {plain(room.name_en)}")
        facts = [words.BOOKS.get(terms.book, plain(terms.book)), base, entry, f"{terms.rake_chips:,}"]
        table.add_row(str(number), names, *facts, str(room.players), style="" if open_to else "dim")
    closed = [Text(words.notice(told), "bold yellow")] if told.maintenance else []
    return Group(*closed, table, Text(note, "yellow"), Text(_ASK))


def waiting_view(room: str, ticket: Ticket, waited_ms: int) -> RenderableType:
    """The place in line, how long it has taken, and how long it may take."""
    estimate = f"{-(-ticket.estimate_ms // 1000)} s" if ticket.estimate_ms else "不知道 not known"
    found = ticket.state == TicketState.TICKET_STATE_CLAIMED
    return Group(
        Text(
            "三人已齐，正在开桌 Three are found, the table is being opened" if found else "等人 Waiting for players",
            "bold",
        ),
        Text(plain(room)),
        Text(f"已等 waited {waited_ms // 1000} s · 预计 estimate {estimate} · 排位 place {ticket.position or '–'}"),
        Text("离开 leave"),
    )


async def choose(session: Session, terminal: Terminal, said: Sequence[RenderableType] = ()) -> str | None:
    """Asks until a table is found; its id, or None when the person quits.

    `said`: how the table before ended, to be read above the rooms until something is typed.
    """
    note = ""
    while True:
        lobby, balance = await session.lobby(), await session.balance()
        rooms, name = lobby.rooms, session.player.display_name
        terminal.view = lambda: Group(*said, rooms_view(name, balance, rooms, note, lobby.notice))  # noqa: B023
        terminal.say(terminal.view())
        terminal.draw()
        line, said = await terminal.line(), ()
        if line is None or line.strip().lower() in ("quit", "exit", "退出"):
            return None
        try:
            if table_id := await _chosen(session, terminal, rooms, line.split()):
                return table_id
            note = ""
        except _NoChoice as wrong:
            note = str(wrong)
        except (Refusal, TicketEnded) as error:
            note = sorry(error)
        terminal.say(note)


class _NoChoice(Exception):
    """What was typed chooses nothing, or there is something to tell."""


async def _chosen(session: Session, terminal: Terminal, rooms: Sequence[Room], typed: list[str]) -> str | None:
    match typed:
        case ["relief" | "领救济"]:
            answer = await session.claim_relief()
            raise _NoChoice(f"领到 You got {answer.chips:,} 筹码 chips; 今天还有 {answer.claims_left} more today")
        case ["code" | "好友桌", code]:
            table_id = await session.table_of_code(code)
            await session.sit(table_id, code=code)
            return table_id
        case [number] if number.isascii() and number.isdecimal() and int(number) <= len(rooms):
            room_id = rooms[int(number) - 1].room_id if int(number) else ""
            return await find(session, terminal, room_id)
    raise _NoChoice(f"请写 0 到 {len(rooms)} 的数 Type a number from 0 to {len(rooms)}")


async def find(
    session: Session, terminal: Terminal, room_id: str, book: str = "", *, patient: bool = False
) -> str | None:
    """Waits in the queue of a room, or of the best one ("") of a book; None when the person gives up waiting.

    The end of the input is giving up too, unless `patient`: a bot needs none. Raises Refusal, TicketEnded.
    """
    ticket = await (session.join(room_id) if room_id else session.quick_start(book))
    names = {room.room_id: f"{room.name_zh} {room.name_en}" for room in await session.rooms()}
    waiting = _Waiting(terminal, names.get(ticket.room_id, ticket.room_id), ticket)
    finding = asyncio.create_task(waiting.follow(session))
    try:
        while not finding.done() and not patient:
            typing = asyncio.create_task(terminal.line())
            await asyncio.wait([typing, finding], return_when=asyncio.FIRST_COMPLETED)
            if finding.done():
                typing.cancel()
            elif typing.result() in (None, "leave", "离开", "quit", "退出"):
                with contextlib.suppress(Refusal):  # TOO_LATE: there is a table already
                    await session.cancel(ticket.ticket_id)
                    return None
                break
        return await finding
    finally:
        finding.cancel()


class _Waiting:
    """One ticket on the screen."""

    def __init__(self, terminal: Terminal, room: str, ticket: Ticket) -> None:
        self._terminal = terminal
        self._room = room
        self._ticket = ticket
        self._heard_at_s = time.monotonic()
        terminal.view = self.view
        terminal.draw()

    def view(self) -> RenderableType:
        since_ms = int((time.monotonic() - self._heard_at_s) * 1000)
        return waiting_view(self._room, self._ticket, self._ticket.waited_ms + since_ms)

    async def follow(self, session: Session) -> str:
        """The table's id; raises TicketEnded."""
        async with contextlib.aclosing(session.tickets(self._ticket.ticket_id)) as tickets:
            async for ticket in tickets:
                self._ticket, self._heard_at_s = ticket, time.monotonic()
                self._terminal.say(self.view())
                self._terminal.draw()
                if ticket.state == TicketState.TICKET_STATE_MATCHED:
                    return ticket.table_id
        raise TicketEnded(TicketState.Name(self._ticket.state).removeprefix("TICKET_STATE_"))
