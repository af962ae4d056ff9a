"""Metrics of every process (prometheus-client), served on a port of their own. Labels are bounded."""

from __future__ import annotations

import asyncio
from typing import Final

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics, start_http_server

disable_created_metrics()  # type: ignore[no-untyped-call]  # a third more series, which nobody asks for

RPC_SECONDS: Final = Histogram(
    "ddz_rpc_seconds",
    "Time from a call's arrival to its end",
    ["method", "code"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
STREAMS: Final = Gauge("ddz_streams", "Open server streams", ["method"])
STREAMS_ENDED: Final = Counter("ddz_streams_ended", "Server streams that have ended", ["method", "code"])
REFUSALS: Final = Counter("ddz_refusals", "Calls and commands refused, by reason", ["reason"])
FAULTS: Final = Counter("ddz_faults", "Faults of our own: assertions and unexpected exceptions", ["where"])
LOOP_LAG_SECONDS: Final = Histogram(
    "ddz_event_loop_lag_seconds",
    "How late the event loop wakes up, measured four times a second",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)

# A series that begins with its first event shows no rise: what alerts look at exists from the start.
for _reason in ("OVERLOADED", "UNAVAILABLE", "RATE_LIMITED"):
    REFUSALS.labels(_reason)
FAULTS.labels("rpc")

_LAG_PERIOD_S: Final = 0.25


def serve(port: int, host: str) -> int:
    """Serves /metrics on host:port (0 = a free one); returns the port."""
    try:
        server, _ = start_http_server(port, addr=host)
    except OSError as error:
        raise OSError(f"{host}:{port} cannot be listened on for metrics: {error.strerror}.") from None
    return int(server.server_port)


async def watch_loop_lag() -> None:
    """Measures the event loop's lateness for ever."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(_LAG_PERIOD_S)
        LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - before - _LAG_PERIOD_S))
