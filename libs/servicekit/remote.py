"""Calls from service to service: their refusals go on to our caller, their silence becomes UNAVAILABLE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc

from doudizhu.refusal import Refusal
from servicekit import errors, traces

T = TypeVar("T")

# Statuses after which nobody knows whether the other service did it.
_SILENT: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


async def ask(call: Awaitable[T], who: str) -> T:
    """The answer of a call to the service `who`.

    Raises the Refusal that the service attached, or UNAVAILABLE without `data` when it gave no answer; any other
    status is a fault of ours and goes on as it is.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        refusal = errors.from_rpc_error(error)
        if refusal is not None:
            raise refusal from None
        if error.code() not in _SILENT:
            raise
        raise Silence(who) from None


class Silence(Refusal):
    """The other service gave no answer: the call may have been done or not, so only an idempotent one is repeated."""

    def __init__(self, who: str) -> None:
        super().__init__(errors.Trouble.UNAVAILABLE, f"The {who} service does not answer; try again in a moment.")


class Caller(grpc.aio.UnaryUnaryClientInterceptor):
    """Hands the trace on with every call from service to service, and makes a span of it."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        name: str | bytes = details.method
        method = (name.decode() if isinstance(name, bytes) else name).removeprefix("/")
        with traces.calling(method) as span:
            metadata = grpc.aio.Metadata(*(details.metadata or ()))
            if named := traces.traceparent():
                metadata.add(traces.HEADER, named)
            told = grpc.aio.ClientCallDetails(
                details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
            )
            call = await continuation(told, request)
            if span.is_recording():
                try:
                    traces.finish(span, await call.code())
                except asyncio.CancelledError:
                    call.cancel()
                    raise
            return call
