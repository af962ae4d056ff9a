"""Callers of one unary gRPC method that cost next to nothing: a client of grpcio takes as much of a core as the server.

A call is two frames, HEADERS and DATA (RFC 9113, and gRPC's PROTOCOL-HTTP2); its answer is read as far as a benchmark
needs: the message, and whether there is one. Everything else that HTTP/2 asks of a client is here: settings, pings and
the windows of flow control.
"""

from __future__ import annotations

import asyncio
import functools
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 0x1
_END_HEADERS: Final = 0x4
_WINDOW: Final = 65_535  # of a connection that nobody has said anything of
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class CallFailed(Exception):
    """A call ended without a message, or the connection did."""


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value: str) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value.encode()


class Connection(asyncio.Protocol):
    """One connection with up to `in_flight` calls of `method` ("/package.Service/Method"), for the requests given it.

    `answers` and `latencies_s` are by request; `done` is set once all were answered.
    """

    def __init__(self, method: str, authority: str, requests: Sequence[bytes], in_flight: int) -> None:
        self.answers: list[bytes] = [b""] * len(requests)
        self.latencies_s: list[float] = [0.0] * len(requests)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # HPACK (RFC 7541) without a table: method and scheme by their static numbers, the rest as literals.
        self._head = (
            b"\x83\x86\x04" + _text(method) + b"\x01" + _text(authority) + b"\x0f\x10" + _text("application/grpc")
            + b"\x00" + _text("te") + _text("trailers")
        )  # fmt: skip
        self._requests = requests
        self._waiting = deque(range(len(requests)))
        self._left = len(requests)
        self._in_flight = in_flight
        self._window = _WINDOW
        self._calls: dict[int, int] = {}
        self._stream = 1
        self._unread = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        wide = struct.pack(">I", 2**31 - 1 - _WINDOW)
        transport.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_WINDOW_UPDATE, 0, 0, wide))
        self._call()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or CallFailed("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        data, at = self._unread + data, 0
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if len(data) - at < 9 + size:
                break
            kind, flags, stream = struct.unpack_from(">BBI", data, at + 3)
            self._take(kind, flags, stream, data[at + 9 : at + 9 + size])
            at += 9 + size
        self._unread = data[at:]
        self._call()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self.answers[self._calls[stream]] += payload
        elif kind == _HEADERS and flags & _END_STREAM:
            self._end(self._calls.pop(stream))
        elif kind == _WINDOW_UPDATE and stream == 0:
            self._window += struct.unpack(">I", payload)[0]
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._transport.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_RST_STREAM, _GOAWAY):
            raise CallFailed(f"the server ended stream {stream}: {payload!r}")

    def _end(self, number: int) -> None:
        self.latencies_s[number] = time.perf_counter() - self.latencies_s[number]
        self.answers[number] = self.answers[number][5:]  # without the length
        if not self.answers[number]:
            raise CallFailed(f"call {number} was refused")
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def _call(self) -> None:
        """Makes as many calls as may be made now, by one write."""
        frames = []
        while self._waiting and len(self._calls) < self._in_flight:
            request = self._requests[self._waiting[0]]
            if len(request) + 5 > self._window:
                break
            number = self._waiting.popleft()
            self._window -= len(request) + 5
            self._calls[self._stream] = number
            self.latencies_s[number] = time.perf_counter()
            frames.append(_frame(_HEADERS, _END_HEADERS, self._stream, self._head))
            frames.append(_frame(_DATA, _END_STREAM, self._stream, struct.pack(">BI", 0, len(request)) + request))
            self._stream += 2
        if frames:
            self._transport.write(b"".join(frames))


async def call_all(
    ports: Sequence[int], method: str, requests: Sequence[bytes], *, callers: int, connections: int
) -> tuple[list[bytes], list[float]]:
    """The answers to all requests and their latencies in seconds; `callers` wait for one at any time.

    The connections go to the servers on `ports` in turn, and share requests and callers evenly. Raises CallFailed when
    a call has no answer.
    """
    loop, made = asyncio.get_running_loop(), []
    for number in range(connections):
        own, port = requests[number::connections], ports[number % len(ports)]
        protocol = functools.partial(Connection, method, f"127.0.0.1:{port}", own, callers // connections)
        _, connection = await loop.create_connection(protocol, "127.0.0.1", port)
        made.append(connection)
    await asyncio.gather(*(connection.done for connection in made))
    for connection in made:
        connection._transport.close()
    answers = [answer for connection in made for answer in connection.answers]
    return answers, [latency_s for connection in made for latency_s in connection.latencies_s]
