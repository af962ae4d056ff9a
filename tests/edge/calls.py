"""A call of any method with any bytes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor

# What a service may not say whatever it is sent: its own fault, or that it is not there (5xx in REST).
FAULTS: Final = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "ABORTED"}
_FRAMES: Final = 10
_TIMEOUT_S: Final = 20.0
# grpc's own INTERNAL when a stream ends while it writes to it; what the server said of the end is lost then.
_WRITE_FAILED: Final = "Internal error from Core"


async def end(
    channel: Any, method: MethodDescriptor, sent: list[bytes], headers: list[tuple[str, Any]]
) -> tuple[str, str]:
    """The name of the status that a call ends with, and its details; OK for a stream that goes on."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    try:
        if not method.server_streaming:
            await channel.unary_unary(path)(sent[0], metadata=headers, timeout=_TIMEOUT_S)
            return "OK", ""
        if not method.client_streaming:
            call = channel.unary_stream(path)(sent[0], metadata=headers, timeout=_TIMEOUT_S)
            await call.read()
        else:
            call = channel.stream_stream(path)(metadata=headers, timeout=_TIMEOUT_S)
            with contextlib.suppress(asyncio.InvalidStateError):  # it ended before all was written
                for one in sent:
                    await call.write(one)
                await call.done_writing()
            frames = 0
            while frames < _FRAMES and await call.read() is not grpc.aio.EOF:
                frames += 1
        call.cancel()
    except grpc.aio.AioRpcError as error:
        details = error.details() or ""
        return "ENDED" if details.startswith(_WRITE_FAILED) else error.code().name, details
    return "OK", ""
