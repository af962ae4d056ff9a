"""Streams of tickets. News wake them at once; a round keeps their tickets alive, and finds what news lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Final

from doudizhu.refusal import Refusal
from servicekit import logs
from servicekit.lasting import end, lasting
from servicekit.pipe import StoreLost
from services.matchmaking import counts
from services.matchmaking.news import News
from services.matchmaking.opening import now_ms
from services.matchmaking.queue import LIVE, Reason, Ticket
from services.matchmaking.store import Store

# A round also tells the streams their place in the queue: seldom enough that it costs little however many there are,
# often enough for the leases of tickets and for the gateway, which ends a stream that is silent for long.
_TICKETS_A_SECOND: Final = 1_000
_POLL_S: Final = (2.0, 12.0)
_TICKETS_A_SECOND_WITHOUT_NEWS: Final = 4_000
_POLL_WITHOUT_NEWS_S: Final = (0.5, 12.0)
_BATCH: Final = 100

log = logs.get("watching")


class _Watcher:
    """One stream. `ticket` is the newest state, None when the ticket is there no more."""

    def __init__(self) -> None:
        self.ticket: Ticket | None = None
        self.changed = asyncio.Event()

    def show(self, ticket: Ticket | None) -> None:
        """Takes in what was read, and wakes the stream."""
        self.ticket = ticket
        self.changed.set()


class Watching:
    """All streams of one instance, called `owner`."""

    def __init__(self, store: Store, news: News, owner: str) -> None:
        self._owner = owner
        self._store = store
        self._news = news
        self._rooms: dict[str, dict[str, list[_Watcher]]] = defaultdict(dict)  # by room and ticket, oldest first
        self._urgent: dict[str, set[str]] = defaultdict(set)
        self._wake = asyncio.Event()
        self._leaving: set[asyncio.Task[None]] = set()
        self._draining = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the streams fresh."""
        async with self._news.heard(self._on_changed):
            tasks = [asyncio.create_task(lasting("watching", work)) for work in (self._follow_news, self._go_round)]
            try:
                yield
            finally:
                await end(*tasks)
                await asyncio.gather(*self._leaving, return_exceptions=True)

    def close(self) -> None:
        """Ends every stream; the tickets stay as they are, for their owners are on their way to another instance."""
        self._draining = True
        for watched in self._rooms.values():
            for watchers in watched.values():
                for watcher in watchers:
                    watcher.changed.set()

    async def watch(self, room_id: str, ticket_id: str) -> AsyncGenerator[Ticket, None]:
        """The ticket now and at every change, until it has ended; raises NOT_FOUND when it is there no more.

        When the stream is dropped before, the ticket is matched with nobody until it is watched again, and ends soon.
        """
        watcher = _Watcher()
        watchers = self._rooms[room_id].setdefault(ticket_id, [])
        watchers.append(watcher)
        left = True
        try:
            (watcher.ticket,) = await self._store.watch(room_id, [ticket_id], self._owner, now_ms(), attach=True)
            async for ticket in self._states(watcher):
                left = ticket.state in LIVE
                yield ticket
            left = False
        finally:
            watchers.remove(watcher)
            if not watchers and self._rooms[room_id].get(ticket_id) is watchers:
                del self._rooms[room_id][ticket_id]
            if left and not watchers:
                self._leave(room_id, ticket_id)

    async def _states(self, watcher: _Watcher) -> AsyncIterator[Ticket]:
        while not self._draining:
            ticket = watcher.ticket
            if ticket is None:
                raise Refusal(Reason.NOT_FOUND, "There is no such ticket.", field="ticket_id")
            yield ticket
            if ticket.state not in LIVE:
                return
            await watcher.changed.wait()
            watcher.changed.clear()

    def _leave(self, room_id: str, ticket_id: str) -> None:
        """In a task of its own: the stream's is being cancelled. Whoever has come back since has nothing left."""

        async def work() -> None:
            try:
                if ticket_id not in self._rooms[room_id]:
                    await self._store.leave(room_id, ticket_id, self._owner, now_ms())
            except StoreLost as error:
                log.warning("ticket not left", extra={"ticket": ticket_id, "why": str(error)})

        task = asyncio.create_task(work())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    # ---- what is read ---------------------------------------------------------------------------------------------

    def _on_changed(self, room_id: str, ticket_ids: Iterable[str]) -> None:
        here = self._rooms.get(room_id)
        if here and (mine := [ticket for ticket in ticket_ids if ticket in here]):
            self._urgent[room_id].update(mine)
            self._wake.set()

    async def _follow_news(self) -> None:
        """Reads at once what news tell of."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            urgent, self._urgent = self._urgent, defaultdict(set)
            for room_id, tickets in urgent.items():
                for start in range(0, len(tickets), _BATCH):
                    await self._read(room_id, sorted(tickets)[start : start + _BATCH])

    async def _go_round(self) -> None:
        """Reads everything that is watched again and again, a batch at a time, evenly over the round."""
        while True:
            began = time.monotonic()
            here = [(room_id, list(watched)) for room_id, watched in self._rooms.items()]
            count = sum(len(tickets) for _, tickets in here)
            counts.WATCHED.set(count)
            pause_s = _pause_s(count, heard=self._news.connected)
            done = 0
            for room_id, tickets in here:
                for start in range(0, len(tickets), _BATCH):
                    batch = tickets[start : start + _BATCH]
                    await self._read(room_id, batch)
                    done += len(batch)
                    await asyncio.sleep(began + pause_s * done / count - time.monotonic())
            await asyncio.sleep(began + pause_s - time.monotonic())

    async def _read(self, room_id: str, ticket_ids: list[str]) -> None:
        """Reads tickets, keeps them alive, and shows them to their watchers."""
        watched = self._rooms[room_id]
        here = [ticket for ticket in ticket_ids if ticket in watched]
        if not here:
            return
        try:
            tickets = await self._store.watch(room_id, here, self._owner, now_ms())
        except StoreLost as error:
            log.warning("redis", extra={"why": str(error)})
            return
        for ticket_id, ticket in zip(here, tickets, strict=True):
            for watcher in watched.get(ticket_id, ()):
                watcher.show(ticket)


def _pause_s(tickets: int, *, heard: bool) -> float:
    """How long a round of so many tickets takes; without news it is all there is to find what has changed."""
    rate, (least, most) = (
        (_TICKETS_A_SECOND, _POLL_S) if heard else (_TICKETS_A_SECOND_WITHOUT_NEWS, _POLL_WITHOUT_NEWS_S)
    )
    return min(max(tickets / rate, least), most)
