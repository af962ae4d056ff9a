"""Traces (OpenTelemetry): spans that go to an OTLP collector, if there is one, and no spans if there is none.

The current span goes along from task to task in a context, and from process to process in `traceparent` (W3C Trace
Context), which is handed on without a collector too: the log names the trace. A task that does things for others says
`within` whose context it does them.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from servicekit import ids
from servicekit.identity import PLAYER_HEADER

__all__ = ["Context", "Span", "SpanContext", "SpanKind"]

HEADER: Final = "traceparent"

_NO_SPAN: Final[contextlib.AbstractContextManager[Span]] = contextlib.nullcontext(INVALID_SPAN)
_W3C: Final = TraceContextTextMapPropagator()
# What a call may end with by our doing; whatever else is the caller's (OpenTelemetry, RPC semantic conventions).
_FAULTS: Final = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


@dataclass(slots=True)
class _Telling:
    """Whom this process tells of its spans; a `tracer` of None stands for nobody."""

    tracer: Tracer | None = None


_telling: Final = _Telling()


@contextlib.contextmanager
def told(service: str, node_id: str, endpoint: str, ratio: float) -> Iterator[None]:
    """Sends spans to the OTLP collector at `endpoint` (host:port, gRPC) until left; to nobody when that is empty.

    `ratio` (0 to 1) is the share of traces that begin here; one that began elsewhere is told if it was told there.
    A collector that is away costs its spans, and is waited for at the end for a few seconds at most.
    """
    if not endpoint:
        yield
        return
    from servicekit import otlp  # what nobody uses by default costs neither time nor memory

    with otlp.telling(service, node_id, endpoint, ratio) as tracer:
        _telling.tracer = tracer
        try:
            yield
        finally:
            _telling.tracer = None


# ---- spans -----------------------------------------------------------------------------------------------------------


def here() -> Context:
    """The context of this task, to go on in elsewhere."""
    return contexts.get_current()


def nobodys() -> contextvars.Context:
    """The context of this task without its span and ids: what time brings about is not the doing of who set a timer."""
    context = contextvars.copy_context()
    context.run(contexts.attach, Context())
    return context


@contextlib.contextmanager
def within(context: Context) -> Iterator[None]:
    """Goes on in a context; an empty one is nobody's."""
    token = contexts.attach(context)
    try:
        yield
    finally:
        contexts.detach(token)


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    *,
    links: Iterable[SpanContext] = (),
    attributes: Mapping[str, str | int] | None = None,
    **found: str,
) -> contextlib.AbstractContextManager[Span]:
    """A span below the current one with these ids, current within; one that records nothing when nobody is told.

    What is raised is left to the caller: the words of an error may name cards.
    """
    before = contexts.get_current()
    context = ids.add(before, found) if found else before
    made = begin(name, kind, context, links, attributes)
    if made is not INVALID_SPAN:
        return _current(made, set_span_in_context(made, context))
    return _current(made, context) if found else _NO_SPAN


@contextlib.contextmanager
def _current(span: Span, context: Context) -> Iterator[Span]:
    try:
        with within(context):
            yield span
    finally:
        span.end()


def begin(
    name: str,
    kind: SpanKind,
    parent: Context,
    links: Iterable[SpanContext] = (),
    attributes: Mapping[str, str | int] | None = None,
) -> Span:
    """A span below that of `parent`, with its ids, that somebody will end; INVALID_SPAN when nobody is told."""
    if _telling.tracer is None:
        return INVALID_SPAN
    made = _telling.tracer.start_span(name, parent, kind, attributes, [Link(one) for one in links])
    ids.describe(made, ids.of(parent))
    return made


def below(span: Span) -> Context:
    """The context of this task, but below another span."""
    return set_span_in_context(span)


# ---- over the wire ---------------------------------------------------------------------------------------------------


def parent(traceparent: str | None) -> Context:
    """The context that a `traceparent` names; an empty one for none, or what is none."""
    return _W3C.extract({HEADER: traceparent}, Context()) if traceparent else Context()


def traceparent(span: SpanContext | None = None) -> str:
    """What names a span, by default the current one, to another process; empty when there is none."""
    named = get_current_span().get_span_context() if span is None else span
    return f"00-{named.trace_id:032x}-{named.span_id:016x}-{named.trace_flags:02x}" if named.is_valid else ""


def news_headers() -> dict[str, str] | None:
    """What news of NATS carry that are told in a trace of which the collector is told; None otherwise."""
    current = get_current_span().get_span_context()
    return {HEADER: traceparent(current)} if _telling.tracer is not None and current.trace_flags.sampled else None


def telling(subject: str, named: str | None, until: contextlib.ExitStack) -> dict[str, str]:
    """Headers for stored news of the trace that a `traceparent` names, if any; their span ends with `until`."""
    if not named:
        return {}
    made = begin(f"publish {subject}", SpanKind.PRODUCER, parent(named), attributes=about_news(subject))
    until.callback(made.end)
    return {HEADER: traceparent(made.get_span_context()) or named}


def hearing(subject: str, headers: Mapping[str, str] | None, until: contextlib.ExitStack) -> None:
    """Begins the span of news that are heard together with others; it ends with `until`."""
    if headers is not None and HEADER in headers:
        above = parent(headers[HEADER])
        until.callback(begin(f"process {subject}", SpanKind.CONSUMER, above, attributes=about_news(subject)).end)


@contextlib.contextmanager
def heard(subject: str, headers: Mapping[str, str] | None) -> Iterator[None]:
    """Goes on where news were told; news that name no trace belong to none."""
    with within(parent((headers or {}).get(HEADER))):
        if headers is None or HEADER not in headers:
            yield
            return
        with span(f"process {subject}", SpanKind.CONSUMER, attributes=about_news(subject)):
            yield


def about_news(subject: str) -> dict[str, str | int]:
    """Attributes of a span that tells or hears news (OpenTelemetry, messaging semantic conventions)."""
    return {"messaging.system": "nats", "messaging.destination.name": subject}


def serving(method: str, context: Any) -> Span:
    """The span of a call that is served, below its caller's. The call's task goes on in it; who serves ends it."""
    metadata = dict(context.invocation_metadata() or ())
    caller = ids.add(parent(metadata.get(HEADER)), {"player": metadata.get(PLAYER_HEADER, "")})
    made = begin(method, SpanKind.SERVER, caller, attributes=None if _telling.tracer is None else about_call(method))
    # The task is the call's own: nothing has to be put back.
    contexts.attach(caller if made is INVALID_SPAN else set_span_in_context(made, caller))
    return made


def calling(method: str) -> contextlib.AbstractContextManager[Span]:
    """The span of a call that is made of another service."""
    return span(method, SpanKind.CLIENT, attributes=about_call(method))


def about_call(method: str) -> dict[str, str | int]:
    """Attributes of a span for `package.Service/Method` (OpenTelemetry, RPC semantic conventions)."""
    service, _, name = method.rpartition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}


def finish(span: Span, code: grpc.StatusCode) -> None:
    """Ends the span of a call with its status."""
    if span.is_recording():
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in _FAULTS:
            span.set_status(Status(StatusCode.ERROR))
        span.end()
