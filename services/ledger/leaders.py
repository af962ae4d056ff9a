"""The boards of the highest ratings and chips, kept for a moment: no index pays for them in every hand."""

from __future__ import annotations

import asyncio
from typing import Final

from services.ledger import queries
from services.ledger.trouble import Reads

MOST: Final = 100

# A board is read again once this many times the reading's own duration has passed: at most a twentieth of a connection
# goes there, however many players there are, and a small ledger's board is always fresh.
_REST: Final = 20

Board = list[tuple[str, int, int]]


class Leaders:
    """(player, chips, rating) of the first hundred by each unit."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._boards: dict[str, tuple[float, Board]] = {}
        self._locks = {unit: asyncio.Lock() for unit in ("chips", "rating")}

    async def get(self, unit: str, limit: int) -> Board:
        """The first `limit` (at most 100) by `unit`."""
        clock = asyncio.get_running_loop().time
        async with self._locks[unit]:
            good_until_s, board = self._boards.get(unit, (0.0, []))
            if clock() >= good_until_s:
                started_s = clock()
                board = await queries.leaders(self._reads, unit, MOST)
                self._boards[unit] = (clock() + _REST * (clock() - started_s), board)
        return board[:limit]
