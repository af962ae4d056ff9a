"""The way of spans to a collector, in a thread of its own: nobody waits for it, and nobody minds when it is away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import Tracer

from servicekit import logs

log = logs.get("traces")

_PERIOD_MS: Final = 1_000  # how long finished spans wait for each other
_PATIENCE_S: Final = 2  # for the collector's answer; a process that ends waits no longer than twice this


@contextlib.contextmanager
def telling(service: str, node_id: str, endpoint: str, ratio: float) -> Iterator[Tracer]:
    """What makes spans for the collector at `endpoint` (host:port); `ratio` as traces.told has it.

    At most 2,048 spans wait; when more come, the oldest are lost.
    """
    logs.silence("opentelemetry")  # it would complain of every batch
    exporter = _Exporter(OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=_PATIENCE_S))
    names = {"service.namespace": "ddz", "service.name": service, "service.instance.id": node_id or service}
    provider = TracerProvider(ParentBasedTraceIdRatio(ratio), Resource.create(names), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_PERIOD_MS))
    try:
        yield provider.get_tracer("ddz")
    finally:
        exporter.ending = True
        provider.shutdown()


class _Exporter(SpanExporter):
    """Says once that the collector is away, and once that it is back; at the end one that is away is let be."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._away = False
        self.ending = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.ending and self._away:
            return SpanExportResult.FAILURE
        away = self._inner.export(spans) is not SpanExportResult.SUCCESS
        if away and not self._away:
            log.warning("the collector of traces does not answer")
        elif self._away and not away:
            log.info("the collector of traces answers again")
        self._away = away
        return SpanExportResult.FAILURE if away else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._inner.shutdown()
