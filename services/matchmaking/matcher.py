"""One loop a room: looks for threes when somebody joins and every so often, and sweeps up after who is gone.

Any number of instances may run the same loops: a look is one script, and what it claims is claimed for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Final

from servicekit import logs, metrics
from servicekit.lasting import end, lasting
from servicekit.orders import Orders
from servicekit.pipe import StoreLost
from servicekit.rooms import Rooms
from services.matchmaking import counts
from services.matchmaking.news import News
from services.matchmaking.opening import Opener, now_ms
from services.matchmaking.store import Claim, Store

_BATCH: Final = 32
_TICK_S: Final = 0.2
_SWEEP_S: Final = 1.0
_OPENING_AT_ONCE: Final = 64
_STOP_S: Final = 5.0
_RELAY_S: Final = 0.5
_TROUBLE_S: Final = 0.5

log = logs.get("matcher")


class Matcher:
    """The loops of one instance, called `owner`."""

    def __init__(self, rooms: Rooms, store: Store, opener: Opener, news: News, orders: Orders, owner: str) -> None:
        self._rooms = rooms
        self._store = store
        self._opener = opener
        self._news = news
        self._orders = orders
        self._owner = owner
        self._wake: dict[str, asyncio.Event] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_OPENING_AT_ONCE)
        self._tasks: dict[asyncio.Task[None], Claim] = {}  # the claims in hand
        self._turned_away: set[str] = set()  # rooms that found no place for what they could claim
        self._stopping = False

    def wake(self, room_id: str) -> None:
        """Somebody has joined."""
        event = self._wake.get(room_id)
        if event is not None:
            event.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the loops of all rooms, as the rooms file has them; at the end tables being opened are waited for."""
        self.start_loops()
        follow = functools.partial(self._rooms.follow, self.start_loops)
        others = [asyncio.create_task(self._relay()), asyncio.create_task(lasting("rooms", follow))]
        try:
            yield
        finally:
            await self.stop()
            await end(*others, *self._loops.values())

    async def stop(self) -> None:
        """Claims nothing more; returns when its claims are tables or given back. Those in doubt others take over."""
        self._stopping = True
        if self._tasks:
            _, slow = await asyncio.wait(set(self._tasks), timeout=_STOP_S)
            await end(*slow)

    def start_loops(self) -> None:
        """Begins to look after rooms that are new."""
        for room in self._rooms.all():
            if not self._has_loop(room.room_id):
                counts.begin(room.room_id)
                self._loops[room.room_id] = asyncio.create_task(self._loop(room.room_id))

    def _has_loop(self, room_id: str) -> bool:
        return room_id in self._loops and not self._loops[room_id].done()

    async def _loop(self, room_id: str) -> None:
        """Until the room is gone from the file, and then until nobody waits there or is claimed any more."""
        wake = self._wake[room_id] = asyncio.Event()
        next_sweep = 0.0
        while True:
            wake.clear()
            try:
                while room_id in self._rooms and self._may_look and await self._look(room_id):
                    pass
                gone = room_id not in self._rooms
                if not self._stopping and (gone or time.monotonic() >= next_sweep):
                    next_sweep = time.monotonic() + _SWEEP_S
                    await self._sweep(room_id, everything=gone)
                # The file is asked once more: a room that has just come back keeps the loop it has.
                if gone and await self._store.empty(room_id) and room_id not in self._rooms:
                    return
            except StoreLost as error:
                log.warning("redis", extra={"room": room_id, "why": str(error)})
                await asyncio.sleep(_TROUBLE_S)
            except Exception:
                metrics.FAULTS.labels("matcher").inc()
                log.exception("unexpected exception", extra={"room": room_id})
                await asyncio.sleep(_TROUBLE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await wake.wait()

    @property
    def _may_look(self) -> bool:
        """Whether matches are made at all; who waits when the system is closed goes on waiting."""
        return not self._stopping and not self._orders.closed

    async def _look(self, room_id: str) -> bool:
        """One look; whether more tickets may be due. While the table service is silent nothing more is claimed."""
        if not self._opener.answering and self._tasks:
            return False
        places = await self._take_places()
        if not places:
            self._turned_away.add(room_id)
            return False
        claims: list[Claim] = []
        try:
            due, claims = await self._store.look(room_id, now_ms(), self._owner, places)
        finally:
            self._give_places(places - len(claims))
        for claim in claims:
            self._hold(claim, self._opener.open(room_id, claim)).add_done_callback(lambda _: self._give_places(1))
        return due == places

    async def _take_places(self) -> int:
        """Takes as many places as are free, at most a batch: there is no claim without one to open it.

        A claim that waits for its place longer than its lease would be taken over again and again.
        """
        taken = 0
        while taken < _BATCH and not self._room.locked():
            await self._room.acquire()  # at once
            taken += 1
        return taken

    def _give_places(self, count: int) -> None:
        """Places are free again: rooms that found none look once more."""
        for _ in range(count):
            self._room.release()
        if count:
            rooms, self._turned_away = self._turned_away, set()
            for room_id in rooms:
                self.wake(room_id)

    async def _sweep(self, room_id: str, *, everything: bool = False) -> None:
        """Ends what has to end, and takes over claims. With `everything` all that wait are ended."""
        ended, claims = await self._store.sweep(room_id, now_ms(), self._owner, _BATCH, everything=everything)
        for claim in claims:
            if claim.claim_id in (held.claim_id for held in self._tasks.values()):
                continue  # it is our own, slower than its lease, which has just been renewed
            log.warning("claim taken over", extra={"room": room_id})
            self._hold(claim, self._open_inherited(room_id, claim))
        for _, why in ended:
            counts.EXPIRIES.labels(room_id, why).inc()
        if ended:
            await self._news.changed(room_id, [ticket for ticket, _ in ended])
        counts.WAITING.labels(room_id).set(await self._store.waiting(room_id))

    async def _relay(self) -> None:
        """Goes through the rooms of all instances, those that are gone from the file too.

        Tells JetStream of their matches; while it is away they wait in Redis. Sweeps where no loop of this instance
        does, for there may be no other left: but ends nobody who is there, for others may have the room in their file.
        """
        while True:
            try:
                for room_id in await self._store.rooms([room.room_id for room in self._rooms.all()]):
                    if not self._has_loop(room_id) and not self._stopping:
                        await self._sweep(room_id)
                    while untold := await self._store.untold(room_id):
                        told = await self._news.made(untold)
                        if not told:
                            break
                        await self._store.told(room_id, told)
            except StoreLost as error:
                log.warning("redis", extra={"why": str(error)})
            except Exception:
                metrics.FAULTS.labels("relay").inc()
                log.exception("unexpected exception")
            await asyncio.sleep(_RELAY_S)

    async def _open_inherited(self, room_id: str, claim: Claim) -> None:
        """Opens it once there is a place: it was claimed already, and cannot do without."""
        await self._room.acquire()
        try:
            await self._opener.open(room_id, claim)
        finally:
            self._give_places(1)

    def _hold(self, claim: Claim, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Does what is to be done with a claim; until then it is in hand."""
        task = asyncio.create_task(work)
        self._tasks[task] = claim
        task.add_done_callback(self._tasks.pop)
        return task
