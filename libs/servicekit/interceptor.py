"""Around every RPC: its span and ids, the proto's rules, the error table, metrics. Servicers raise; this answers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError, Message
from prometheus_client import Histogram

from doudizhu.refusal import Refusal
from servicekit import errors, ids, logs, metrics, traces
from servicekit.clients import AWAY
from servicekit.crowd import Crowd
from servicekit.errors import Trouble

log = logs.get("rpc")

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Next: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


async def _fail(context: Any, error: BaseException, method: str) -> None:
    """Ends the call with the status that belongs to `error`."""
    if isinstance(error, Refusal):
        metrics.REFUSALS.labels(error.reason).inc()
        status = errors.to_status(error)
        trailers = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(errors.STATUS[error.reason], error.message, trailers)
    if isinstance(error, AWAY):
        log.warning("a server is away", extra={"method": method, "why": repr(error)})
        words = "Something that the server needs is away; try again in a moment."
        await _fail(context, Refusal(Trouble.UNAVAILABLE, words), method)
    metrics.FAULTS.labels("rpc").inc()
    log.error("unexpected exception", exc_info=error, extra={"method": method})
    await context.abort(grpc.StatusCode.INTERNAL, "The server made a mistake; it has been recorded.")


@functools.lru_cache
def _seconds(method: str, code: str) -> Histogram:
    """The series of a method and code: looking it up by its labels costs more than writing to it."""
    return metrics.RPC_SECONDS.labels(method, code)


def _code(context: Any) -> grpc.StatusCode:
    """A call's status; a call that nothing was said of has gone well."""
    code = context.code()
    return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.OK


class _Malformed:
    """Stands for a request that could not be decoded: grpc itself would call that a fault of ours (INTERNAL)."""


def _decoder(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode_or_say_so(data: bytes) -> Any:
        try:
            return decode(data)
        except DecodeError:
            return _Malformed()

    return decode_or_say_so


def _check(request: Any) -> None:
    """Raises Refusal INVALID for what is no message, or a message against its proto's rules; takes note of its ids."""
    if isinstance(request, _Malformed):
        raise Refusal(Trouble.INVALID, "The request is not the message that this call takes.")
    if isinstance(request, Message):  # a stream of requests is none
        errors.validate(request)
        ids.bind(table=getattr(request, "table_id", ""), hand=getattr(request, "hand_id", ""))


async def _call(unary: Any, request: Any, context: Any, method: str) -> Any:
    started = time.perf_counter()
    span = traces.serving(method, context)
    try:
        _check(request)
        return await unary(request, context)
    except (asyncio.CancelledError, grpc.aio.AbortError):
        raise
    except Exception as error:
        await _fail(context, error, method)
    finally:
        code = _code(context)
        _seconds(method, code.name).observe(time.perf_counter() - started)
        traces.finish(span, code)


async def _stream(stream: Any, crowd: Crowd, request: Any, context: Any, method: str) -> AsyncIterator[Any]:
    span = traces.serving(method, context)
    with metrics.STREAMS.labels(method).track_inprogress():
        try:
            _check(request)
            with crowd.one_more(context):
                async with contextlib.aclosing(
                    stream(request, context)
                ) as responses:  # lets go at once of what it holds
                    async for response in responses:
                        yield response
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception as error:
            await _fail(context, error, method)
        finally:
            code = _code(context)
            metrics.STREAMS_ENDED.labels(method, code.name).inc()
            traces.finish(span, code)


class Guard(grpc.aio.ServerInterceptor):
    """The one interceptor of every server. Handlers of streams are async generators; `crowd` bounds how many run."""

    def __init__(self, crowd: Crowd | None = None) -> None:
        self._crowd = crowd or Crowd()
        self._guarded: dict[str, Handler] = {}

    async def intercept_service(self, continuation: Next, details: grpc.HandlerCallDetails) -> Handler | None:
        guarded = self._guarded.get(details.method)
        if guarded is None:
            handler: Any = await continuation(details)
            if handler is None or details.method.startswith("/grpc."):
                return cast("Handler | None", handler)
            guarded = self._guarded[details.method] = _guard(handler, details.method.removeprefix("/"), self._crowd)
        return guarded


def _guard(handler: Any, method: str, crowd: Crowd) -> Handler:
    """The handler of a method with everything around it."""
    decode = handler.request_deserializer
    codec = (decode if handler.request_streaming else _decoder(decode), handler.response_serializer)
    if not handler.response_streaming:

        async def unary(request: Any, context: Any) -> Any:
            return await _call(handler.unary_unary, request, context, method)

        return grpc.unary_unary_rpc_method_handler(unary, *codec)

    inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
    stream = functools.partial(_stream, inner, crowd, method=method)  # grpc must see an async generator function
    make = grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
    return make(stream, *codec)
