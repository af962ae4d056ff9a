"""The whole system at work: bots come in through the gateway and play settled hands of every rule book.

What it prints is read back from the ledger, and it ends well only if the books are right. Two runs on fresh data with
one seed give the same deals.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ddz.ledger.v1.ledger_pb2 import AuditResponse, GetHandResponse
from ddz.table.v1.events_pb2 import HandSettled
from ddzclient import report
from ddzclient.client import Gateway
from ddzclient.errors import ClientError
from ddzclient.player import Player
from ddzclient.session import Session
from doudizhu.refusal import Refusal

BOOKS: Final = ("classic", "happy", "rob")
HANDS_A_TABLE: Final = 2
Table = tuple[str, int]  # a book, and how many hands to play at it
Audit = Callable[[], Awaitable[AuditResponse]]


@dataclass(frozen=True, slots=True)
class Report:
    """How it went. `faults`: one sentence for everything that is wrong; `deals`: a digest of all cards dealt."""

    hands: tuple[GetHandResponse, ...]
    deals: str
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.faults


async def play(
    gateway: str,
    *,
    hands: int = 12,
    seed: int = 1,
    audit: Audit,
    console: Console | None = None,
    root_certificates: bytes | None = None,
    timeout_s: float | None = None,
) -> Report:
    """Plays `hands` settled hands over all books, prints them and the audit, and says whether all of it holds.

    `gateway` is host:port, with TLS when `root_certificates` (PEM) are given. `audit` asks the ledger for its
    invariants as an operator would, before and after. `timeout_s`: when to give up; None = 60 s and 15 s a hand.
    Raises ValueError when `hands` is below 1; whatever goes wrong in play is a fault in the report.
    """
    if hands < 1:
        raise ValueError("the demo plays at least one hand")
    console = console or Console()
    run = _Run(gateway, root_certificates, seed, console)
    before = await audit()
    faults = await run.play(_plan(hands), timeout_s or 60.0 + 15.0 * hands)
    after = await audit()
    faults += report.faults(run.records, hands, before, after) + report.untrue(run.records)
    digest = report.deals_digest(run.records)
    report.show(console, run.records, digest, before, after, faults)
    return Report(tuple(run.records), digest, tuple(faults))


def _plan(hands: int) -> list[Table]:
    """The tables to fill, in order."""
    tables: list[Table] = []
    for index, book in enumerate(BOOKS):
        share = hands // len(BOOKS) + (index < hands % len(BOOKS))
        tables += [(book, min(HANDS_A_TABLE, share - begun)) for begun in range(0, share, HANDS_A_TABLE)]
    return tables


class _Run:
    """One run, and what it has read back from the ledger, in the order of the plan."""

    def __init__(self, gateway: str, root_certificates: bytes | None, seed: int, console: Console) -> None:
        self._gateway = gateway
        self._root_certificates = root_certificates
        self._seed = seed
        self._console = console
        self.records: list[GetHandResponse] = []

    async def play(self, plan: Sequence[Table], timeout_s: float) -> list[str]:
        """Plays all tables of the plan and reads their hands back; returns what went wrong."""
        faults: list[str] = []
        try:
            async with asyncio.timeout(timeout_s), contextlib.AsyncExitStack() as doors:
                bots = await self._log_in(doors, 3 * len(plan))
                hand_ids = await _play_tables(bots, plan, self._seed, self._console)
                self.records = [await bots[0].hand(hand_id) for hand_id in hand_ids]
        except* (Refusal, ClientError) as group:
            faults += [f"A bot could not go on: {error}." for error in _leaves(group)]
        except* TimeoutError:
            faults.append(f"The hands were not played within {timeout_s:.0f} s.")
        return faults

    async def _log_in(self, doors: contextlib.AsyncExitStack, count: int) -> list[Session]:
        """Guests with a connection each, one after the other, so that with a seed everyone has the same id."""
        bots = []
        for number in range(count):
            door = await doors.enter_async_context(Gateway(self._gateway, root_certificates=self._root_certificates))
            bots.append(await Session.guest(door, f"bot:{self._seed}:{number}".ljust(16, ".")))
        return bots


async def _play_tables(bots: Sequence[Session], plan: Sequence[Table], seed: int, console: Console) -> list[str]:
    """Fills one table after the other, so that the same three always meet; tables that are full play at once."""
    rooms = {room.terms.book: room.room_id for room in reversed(await bots[0].rooms())}
    if missing := {book for book, _ in plan} - set(rooms):
        raise ClientError(f"the lobby has no room for {', '.join(sorted(missing))}")
    with _progress(console) as progress:
        bars = {
            book: progress.add_task(book, total=sum(hands for other, hands in plan if other == book))
            for book in dict(plan)
        }
        async with asyncio.TaskGroup() as tables:
            playing = []
            for index, (book, hands) in enumerate(plan):
                three = bots[3 * index : 3 * index + 3]
                table_id = await _meet(three, rooms[book])
                advance = partial(progress.advance, bars[book])
                playing.append(tables.create_task(_play_table(three, table_id, hands, seed, advance)))
    return [hand_id for table in playing for hand_id in table.result()]


async def _meet(three: Sequence[Session], room_id: str) -> str:
    """Three bots queue for a room and find themselves at one table; returns its id."""
    tickets = [await bot.join(room_id) for bot in three]
    found = {await bot.matched(ticket.ticket_id) for bot, ticket in zip(three, tickets, strict=True)}
    if len(found) > 1:
        raise ClientError(f"three bots were matched with others: somebody else plays in {room_id}")
    return found.pop()


async def _play_table(
    three: Sequence[Session], table_id: str, hands: int, seed: int, advance: Callable[[], None]
) -> list[str]:
    """All three play and leave; `advance` is told of each settled hand; returns their ids."""

    async def sit(bot: Session, settled: Callable[[HandSettled], None]) -> list[str]:
        async with bot.table(table_id) as table:
            return await Player(seed=seed).play(table, hands, settled)

    async with asyncio.TaskGroup() as group:
        first, *others = three
        done = group.create_task(sit(first, lambda _: advance()))
        for other in others:
            group.create_task(sit(other, lambda _: None))
    return done.result()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions themselves, out of groups within groups."""
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
