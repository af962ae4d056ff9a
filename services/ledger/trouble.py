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
from servicekit.clients import POSTGRES_AWAY
from services.ledger.ledger import Reason

log = logs.get("trouble")

RETRIES: Final = Counter("ddz_ledger_retries", "What was asked of Postgres again, by what went wrong", ["error"])

# A request is safe to repeat by its key; a commit alone never is. Where another instance was first with a key, the next
# attempt reads what it wrote.
TRANSIENT: Final = (*POSTGRES_AWAY, asyncpg.UniqueViolationError)
for _error in (asyncpg.DeadlockDetectedError, asyncpg.ConnectionDoesNotExistError, ConnectionRefusedError):
    RETRIES.labels(_error.__name__)  # the usual ones are shown from the start: a series must be there to rise

# For connections that hold locks: if our machine or the network dies, Postgres gives the locks back in seconds, not in
# the hours after which TCP by itself gives up.
ABANDONED: Final = {
    "statement_timeout": "15s",
    "idle_in_transaction_session_timeout": "15s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

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
    """Queries outside of the batcher's transactions, with the same patience: for a connection, and for the answer."""

    def __init__(self, pool: asyncpg.Pool, patience_s: float) -> None:
        self._pool = pool
        self._patience_s = patience_s
        self._snapshot = asyncio.Lock()

    async def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """The rows of a query; raises Refusal UNAVAILABLE when Postgres does not answer."""

        async def run() -> list[Any]:
            async with self._pool.acquire(timeout=self._patience_s) as connection:
                return list(await connection.fetch(query, *arguments, timeout=self._patience_s))

        return await insist(run, self._patience_s)

    async def in_snapshot(self, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """What `read` makes of one snapshot of the database; it runs again when the connection is lost.

        It may take long, so that it is one at a time: the other connections are for short reads.
        """

        async def run() -> T:
            async with (
                self._pool.acquire(timeout=self._patience_s) as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await read(connection)

        async with self._snapshot:
            return await insist(run, self._patience_s)
