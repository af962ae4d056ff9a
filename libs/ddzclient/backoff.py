"""Waiting between attempts: twice as long each time, with jitter, so that clients do not come back all at once."""

from __future__ import annotations

import asyncio
import random
from typing import Final

FIRST_S: Final = 0.05
LONGEST_S: Final = 5.0


class Backoff:
    """The waits of one series of attempts."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def reset(self) -> None:
        """Begins anew: the last attempt has succeeded."""
        self._next_s = self._first_s

    async def wait(self) -> None:
        """Sleeps between half of and the whole of the present wait, in seconds, and doubles it."""
        await asyncio.sleep(self._next_s * random.uniform(0.5, 1.0))
        self._next_s = min(self._next_s * 2, self._longest_s)
