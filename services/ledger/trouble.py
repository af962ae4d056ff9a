"""What goes wrong between us and Postgres and says nothing about a request: it is tried again, then UNAVAILABLE."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg
from prometheus_client import Counter

from doudizhu.refusal import Refusal
from servicekit import logs
from services.ledger.ledger import Reason

log = logs.get("trouble")

RETRIES: Final = Counter("ddz_ledger_retries", "What was asked of Postgres again, by what went wrong", ["error"])

# The server went away, or two transactions met. A request is safe to repeat by its key; a commit alone never is.
TRANSIENT: Final = (
    asyncpg.DeadlockDetectedError,  # 40P01
    asyncpg.SerializationError,  # 40001
    asyncpg.UniqueViolationError,  # another instance was first: the next attempt reads what it wrote
    asyncpg.OperatorInterventionError,  # 57P0x
    asyncpg.PostgresConnectionError,  # 08xxx
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
for _error in (asyncpg.DeadlockDetectedError, asyncpg.ConnectionDoesNotExistError, ConnectionRefusedError):
    RETRIES.labels(_error.__name__)  # the usual ones are shown from the start: a series must be there to rise

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5

T = TypeVar("T")


async def insist(run: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Runs it until it succeeds or fails for a reason of its own; raises Refusal UNAVAILABLE after `patience_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await run()
        except TRANSIENT as error:
            RETRIES.labels(type(error).__name__).inc()
            if loop.time() + pause_s > deadline:
                log.warning("Postgres does not answer", extra={"why": repr(error)})
                raise Refusal(Reason.UNAVAILABLE, "The ledger cannot reach its database; try again.") from error
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Reads:
    """Queries outside of the batcher's transactions, with the same patience."""

    def __init__(self, pool: asyncpg.Pool, patience_s: float) -> None:
        self._pool = pool
        self._patience_s = patience_s

    async def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """The rows of a query; raises Refusal UNAVAILABLE when Postgres does not answer."""

        async def run() -> list[Any]:
            return list(await self._pool.fetch(query, *arguments))

        return await insist(run, self._patience_s)

    async def in_snapshot(self, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """What `read` makes of one snapshot of the database; it runs again when the connection is lost."""

        async def run() -> T:
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await read(connection)

        return await insist(run, self._patience_s)
