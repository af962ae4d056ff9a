"""The frames of the table service with nothing behind them: what gRPC alone costs for the same pushes on this machine.

Run as a process: `python -m tests.bench.table_bare` listens on DDZ_GRPC_ADDRESS. It knows no rules and keeps nothing;
every command is accepted and told to all streams of its table.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc

_PLAYED: Final = events_pb2.Event(
    seq=1_000,
    at_ms=1_700_000_000_000,
    clock=events_pb2.Clock(phase=events_pb2.PHASE_PLAY, seat=1, deadline_ms=1_700_000_020_000),
    played=events_pb2.Played(
        seat=0, combo=hand_pb2.Combo(cards=[17], type="single", rank="7", body=1), cards_left=12, multiplier=2
    ),
)
_FRAME: Final = table_pb2.PlayResponse(events=table_pb2.Events(events=[_PLAYED])).SerializeToString()


class _Stream:
    """Frames that wait, and who waits for them."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.reader: asyncio.Future[None] | None = None

    def push(self, frame: bytes) -> None:
        self.waiting.append(frame)
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)


class Bare(table_pb2_grpc.TableInternalServiceServicer):
    """Play, and enough of Open."""

    def __init__(self) -> None:
        self._streams: dict[str, list[_Stream]] = defaultdict(list)

    async def Open(self, request: table_pb2.OpenRequest, _context: Any) -> table_pb2.OpenResponse:
        return table_pb2.OpenResponse(seq=1)

    async def Play(self, requests: AsyncIterator[table_pb2.PlayRequest], _context: Any) -> AsyncIterator[bytes]:
        streams = self._streams[(await anext(requests)).table_id]
        own = _Stream()
        streams.append(own)
        own.push(_FRAME)
        reading = asyncio.create_task(self._read(requests, own, streams))
        try:
            while True:
                while own.waiting:
                    yield own.waiting.popleft()
                own.reader = asyncio.get_running_loop().create_future()
                await own.reader
        finally:
            reading.cancel()
            streams.remove(own)

    @staticmethod
    async def _read(requests: AsyncIterator[table_pb2.PlayRequest], own: _Stream, streams: list[_Stream]) -> None:
        async for request in requests:
            for other in streams:
                if other is not own:
                    other.push(_FRAME)
            accepted = table_pb2.Accepted(command_id=request.command.command_id, seq=1_000)
            answer = table_pb2.PlayResponse(events=table_pb2.Events(accepted=[accepted]))
            own.push(_FRAME + answer.SerializeToString())


async def main(address: str) -> None:
    server = grpc.aio.server()
    bare = cast("Any", Bare)()  # of the rest of the service nothing is asked
    table_pb2_grpc.add_TableInternalServiceServicer_to_server(bare, server)
    play = grpc.stream_stream_rpc_method_handler(bare.Play, table_pb2.PlayRequest.FromString, bytes)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("ddz.table.v1.TableService", {"Play": play}),)
    )
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main(os.environ["DDZ_GRPC_ADDRESS"]))
