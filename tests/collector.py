"""A collector of traces as any other: OTLP by gRPC. It keeps all spans that it is told of."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

_PATIENCE_S = 30


@dataclass(frozen=True, slots=True)
class Told:
    """A span and what it names; ids are hex."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[str, ...]  # the spans that it is linked with
    attributes: dict[str, Any]
    whole: trace_pb2.Span


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """`spans` are those that have come; `one` waits for another."""

    def __init__(self) -> None:
        self.spans: list[Told] = []
        self._more = threading.Condition()

    def Export(self, request: trace_service_pb2.ExportTraceServiceRequest, _context: Any) -> Any:
        with self._more:
            for resource in request.resource_spans:
                names = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self.spans += [_told(names["service.name"], span) for span in scope.spans]
            self._more.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def one(self, wanted: Callable[[Told], bool]) -> Told:
        """The only span that is wanted, once it has come; raises AssertionError with what has come instead."""
        with self._more:
            self._more.wait_for(lambda: any(map(wanted, self.spans)), _PATIENCE_S)
            found = [span for span in self.spans if wanted(span)]
            assert len(found) == 1, sorted({(span.service, span.name) for span in self.spans})
            return found[0]

    def parent(self, span: Told) -> Told:
        """The span above another."""
        return self.one(lambda one: one.span_id == span.parent_id)


def _told(service: str, span: trace_pb2.Span) -> Told:
    return Told(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple(link.span_id.hex() for link in span.links),
        {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes},
        span,
    )


@contextlib.contextmanager
def collecting(port: int) -> Iterator[Collector]:
    """A collector that listens on loopback."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()
