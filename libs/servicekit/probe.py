"""Whether a server behind this process answers: asked every two seconds, told as metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from servicekit.lasting import end, lasting

UP: Final = Gauge("ddz_client_up", "1 while a server behind this process answers", ["client"])
FAILURES: Final = Counter("ddz_client_failures", "Probes that a server behind this process did not answer", ["client"])
SECONDS: Final = Histogram(
    "ddz_client_probe_seconds",
    "Time from a probe to its answer, waiting for a connection included",
    ["client"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2),
)

_PERIOD_S: Final = 2.0
_TIMEOUT_S: Final = 2.0


@contextlib.asynccontextmanager
async def probed(
    client: str,
    ask: Callable[[], Awaitable[object]],
    *unanswered: type[Exception],
    up: bool = True,
    period_s: float = _PERIOD_S,
) -> AsyncIterator[None]:
    """Probes a server with `ask` until left; `client` is redis, nats or postgres, `up` whether it answers now.

    `unanswered` are the exceptions, besides a timeout, that say that it is away.
    """
    UP.labels(client).set(up)
    FAILURES.labels(client)
    expected: tuple[type[Exception], ...] = (TimeoutError, *unanswered)

    async def work() -> None:
        while True:
            await asyncio.sleep(period_s)
            started = time.perf_counter()
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await ask()
            except expected:
                UP.labels(client).set(0)
                FAILURES.labels(client).inc()
            else:
                UP.labels(client).set(1)
                SECONDS.labels(client).observe(time.perf_counter() - started)

    task = asyncio.create_task(lasting("probe", work))
    try:
        yield
    finally:
        await end(task)
