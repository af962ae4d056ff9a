"""Work that must go on for as long as the process does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from servicekit import logs, metrics

log = logs.get("lasting")

_PAUSE_S: Final = 1.0


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
