"""One stream of one person: frames wait here until the network takes them, a bounded number of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from ddz.table.v1 import events_pb2, table_pb2
from services.table.budget import Budget

# The field of PlayResponse and WatchResponse, and its message.
Frame = tuple[str, Any]

EVENTS: Final = "events"
SNAPSHOT: Final = "snapshot"
ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"
HEARTBEAT: Final = "heartbeat"
GOODBYE: Final = "goodbye"


class Stream:
    """`push` never waits; a consumer that is `limit` frames behind gets a goodbye instead of the rest."""

    def __init__(self, player_id: str, connection: str, limit: int, budget: Budget | None = None) -> None:
        self.player_id = player_id
        self.connection = connection
        self.budget = budget or Budget()
        self.said_goodbye = ""
        self.pushed_at = time.monotonic()
        self._limit = limit
        self._frames: deque[Frame] = deque()
        self._ready = asyncio.Event()

    def push(self, name: str, message: Any) -> None:
        """Adds a frame; events that follow each other, and answers to commands behind them, leave in one."""
        if self.said_goodbye:
            return
        if len(self._frames) >= self._limit:
            self._frames.clear()
            self.goodbye("slow", reconnect=True)
            return
        self.pushed_at = time.monotonic()
        self._frames.append((name, message))
        self._ready.set()

    def push_event(self, event: events_pb2.Event) -> None:
        """Adds an event."""
        self.push(EVENTS, event)

    def goodbye(self, why: str, *, reconnect: bool) -> None:
        """The last frame of the stream."""
        if not self.said_goodbye:
            self.said_goodbye = why
            self._frames.append((GOODBYE, table_pb2.Goodbye(reconnect=reconnect, why=why)))
            self._ready.set()

    def goodbye_soon(self, why: str, *, reconnect: bool) -> None:
        """The same, behind the answer to the command that has led to it: that is pushed in the loop's next turn."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, lambda: self.goodbye(why, reconnect=reconnect))

    async def frames(self) -> AsyncIterator[Frame]:
        """Frames as they come; ends after the goodbye."""
        while True:
            while self._frames:
                name, message = self._next()
                yield name, message
                if name == GOODBYE:
                    return
            self._ready.clear()
            await self._ready.wait()

    def _next(self) -> Frame:
        name, message = self._frames.popleft()
        if name != EVENTS:
            return name, message
        together: list[Any] = [message]
        answers: list[Any] = []
        while self._frames and self._frames[0][0] in (EVENTS, ACCEPTED):
            name, message = self._frames.popleft()
            (together if name == EVENTS else answers).append(message)
        return EVENTS, table_pb2.Events(events=together, accepted=answers)
