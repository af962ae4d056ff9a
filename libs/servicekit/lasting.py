"""Work that must go on for as long as the process does."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from servicekit import logs, metrics

log = logs.get("lasting")

T = TypeVar("T")

_PAUSE_S: Final = 1.0
_STEP_S: Final = 0.01


async def lasting(where: str, work: Callable[[], Awaitable[None]], *, pause_s: float = _PAUSE_S) -> None:
    """Runs `work`, which never ends by itself, until cancelled.

    An unexpected end is logged, counted in `ddz_faults` under `where`, and `work` begins again after the pause.
    """
    while True:
        try:
            await work()
        except Exception as error:
            log.error("unexpected exception", exc_info=error, extra={"where": where})
        else:
            log.error("unexpected end", extra={"where": where})
        metrics.FAULTS.labels(where).inc()
        await asyncio.sleep(pause_s)


async def spread(items: Sequence[T], seconds: float) -> AsyncIterator[T]:
    """The items, over so many seconds: what is done for each holds nobody up, however many there are."""
    group = max(1, math.ceil(len(items) * _STEP_S / seconds))
    for at in range(0, len(items), group):
        for item in items[at : at + group]:
            yield item
        await asyncio.sleep(seconds * group / len(items))
    if not items:
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def always(**works: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Has each work, under its name, go on as `lasting` does until left."""
    tasks = [asyncio.create_task(lasting(where, work)) for where, work in works.items()]
    try:
        yield
    finally:
        await end(*tasks)


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks and waits until all have ended, however.

    A library may swallow a cancellation that meets the end of its own wait, so one that goes on is cancelled again.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_PAUSE_S)
    await asyncio.gather(*tasks, return_exceptions=True)
