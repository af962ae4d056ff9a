"""One stream of one person: frames wait here until the network takes them, a bounded number of them.

Frames are bytes already: what everybody sees is encoded once for all streams, and messages that follow each other are
joined, since fields of protobuf may be (docs/decisions/0011). PlayResponse and WatchResponse spell theirs alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from ddz.table.v1 import events_pb2, table_pb2
from services.table.budget import Budget

_LENGTH_DELIMITED: Final = 2
_EVENTS: Final = table_pb2.PlayResponse.EVENTS_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
_ACCEPTED: Final = table_pb2.PlayResponse.ACCEPTED_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
_ANSWER: Final = table_pb2.Events.ACCEPTED_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
EXPIRED: Final = "expired"  # the goodbye of a stream whose token has run out
_WHOLE: Final = 0  # not a field, but a frame that is complete


def payload(messages: Iterable[events_pb2.Event]) -> bytes:
    """What `push_events` takes."""
    return table_pb2.Events(events=messages).SerializeToString()


def field(tag: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf. `tag`: number and wire type in one, below 128."""
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = bytearray((tag,))
    while size >= 128:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length) + content


class Stream:
    """`push_*` never waits; a consumer that is `limit` frames behind gets a goodbye instead of the rest.

    `response` is the message that its frames are: PlayResponse or WatchResponse.
    """

    def __init__(
        self,
        player_id: str,
        connection: str,
        limit: int,
        budget: Budget | None = None,
        response: type[table_pb2.PlayResponse | table_pb2.WatchResponse] = table_pb2.PlayResponse,
    ) -> None:
        self.player_id = player_id
        self.connection = connection
        self.budget = budget or Budget()
        self.said_goodbye = ""
        self.pushed_at = time.monotonic()
        self._limit = limit
        self._response = response
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._reader: asyncio.Future[None] | None = None

    @property
    def behind(self) -> int:
        """How many frames wait for the network."""
        return len(self._waiting)

    def push_events(self, events: bytes) -> None:
        """Adds events, as `payload` gives them; those that follow each other leave in one frame."""
        self._push(_EVENTS, events)

    def push_accepted(self, accepted: table_pb2.Accepted) -> None:
        """Adds the answer to a command; it leaves in the frame of the events before it, if there are any."""
        self._push(_ACCEPTED, accepted.SerializeToString())

    def push(self, name: str, message: Any) -> None:
        """Adds a frame of another kind: the field `name` of the response."""
        self._push(_WHOLE, self._response(**{name: message}).SerializeToString())

    def _push(self, kind: int, content: bytes) -> None:
        if self.said_goodbye:
            return
        if len(self._waiting) >= self._limit:
            self._waiting.clear()
            self.goodbye("slow", reconnect=True)
            return
        self.pushed_at = time.monotonic()
        self._waiting.append((kind, content))
        self._wake()

    def goodbye(self, why: str, *, reconnect: bool) -> None:
        """The last frame of the stream."""
        if not self.said_goodbye:
            self.push("goodbye", table_pb2.Goodbye(reconnect=reconnect, why=why))
            self.said_goodbye = why

    def goodbye_expired(self) -> None:
        """The token that the stream was opened with has run out: the client comes back with a new one."""
        self.goodbye(EXPIRED, reconnect=True)

    def goodbye_soon(self, why: str, *, reconnect: bool) -> None:
        """The same, behind the answer to the command that has led to it: that is pushed in the loop's next turn."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, lambda: self.goodbye(why, reconnect=reconnect))

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def frames(self) -> AsyncIterator[bytes]:
        """Frames as they come; ends after the goodbye."""
        while True:
            while self._waiting:
                yield self._next()
            if self.said_goodbye:
                return
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _next(self) -> bytes:
        kind, content = self._waiting.popleft()
        if kind == _WHOLE:
            return content
        if kind == _ACCEPTED:
            return field(_ACCEPTED, content)
        together = [content]
        while self._waiting and self._waiting[0][0] != _WHOLE:
            kind, content = self._waiting.popleft()
            together.append(content if kind == _EVENTS else field(_ANSWER, content))
        return field(_EVENTS, b"".join(together))
