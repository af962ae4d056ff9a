"""The boards of the highest ratings and chips, kept for a moment: no index pays for them in every hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from doudizhu.refusal import Refusal
from servicekit import logs
from services.ledger import queries
from services.ledger.ledger import Reason
from services.ledger.trouble import Reads

MOST: Final = 100

# A board is read again once this many times the reading's own duration has passed: at most a twentieth of a connection
# goes there, however many players there are, and a small ledger's board is always fresh.
_REST: Final = 20

Board = list[tuple[str, int, int]]

log = logs.get("leaders")


class Leaders:
    """(player, chips, rating) of the first hundred by each unit."""

    def __init__(self, reads: Reads, clock: Callable[[], float] = time.monotonic) -> None:
        self._reads = reads
        self._clock = clock
        self._boards: dict[str, Board] = {}
        self._good_until_s: dict[str, float] = {}
        self._readings: dict[str, asyncio.Task[None]] = {}

    async def get(self, unit: str, limit: int) -> Board:
        """The first `limit` (at most 100) by `unit`; an older board when it cannot be read for now.

        Raises Refusal UNAVAILABLE when there is none.
        """
        if unit not in self._readings and self._clock() >= self._good_until_s.get(unit, 0.0):
            self._readings[unit] = asyncio.create_task(self._read(unit))
        if unit in self._readings:
            await asyncio.shield(self._readings[unit])  # it goes on for the others when one of them gives up
        if unit not in self._boards:
            raise Refusal(Reason.UNAVAILABLE, "The leaders cannot be read for now; try again later.")
        return self._boards[unit][:limit]

    async def _read(self, unit: str) -> None:
        """Reads a board. The rest is the same when that fails: what takes too long would be begun again at once."""
        started_s = self._clock()
        try:
            self._boards[unit] = await queries.leaders(self._reads, unit, MOST)
        except Refusal as refusal:
            log.warning("leaders not read", extra={"unit": unit, "why": str(refusal)})
        finally:
            now_s = self._clock()
            self._good_until_s[unit] = now_s + _REST * (now_s - started_s)
            del self._readings[unit]
