"""Takes news from the outbox to JetStream. One instance at a time leads; when it is gone another one does.

A row is deleted once JetStream has acknowledged it, so that news leave at least once; the key is the message id, by
which the stream drops repeats for a while, and consumers for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
import nats.errors
from nats.aio.client import Client
from prometheus_client import Counter, Gauge

from servicekit import logs, stream

log = logs.get("relay")

SENT: Final = Counter("ddz_ledger_news_sent", "News that JetStream has acknowledged", ["subject"])
LEADS: Final = Gauge("ddz_ledger_relay_leads", "1 where this instance relays the news")

# The advisory lock of the leader; any number that nobody else uses in this database.
_LEADER: Final = 0x6F7574626F78
_TROUBLE: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    nats.errors.Error,
    OSError,
    TimeoutError,
)


class Relay:
    """Run `work` for ever. `poll_s`: how long news may wait; `retry_s`: how long a place as leader may be empty."""

    def __init__(self, dsn: str, bus: Client, *, batch: int = 256, poll_s: float = 0.2, retry_s: float = 1.0) -> None:
        self._dsn = dsn
        self._stream = bus.jetstream(timeout=2.0)
        self._batch = batch
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Says that there are news."""
        self._news.set()

    async def work(self) -> None:
        """Leads when nobody else does, and begins anew whenever a server goes away."""
        while True:
            try:
                await self._lead()
            except _TROUBLE as error:
                log.warning("news wait", extra={"why": repr(error)})
            await asyncio.sleep(self._retry_s)

    async def _lead(self) -> None:
        connection = await asyncpg.connect(self._dsn, timeout=5.0, command_timeout=5.0)
        try:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LEADER):
                return
            LEADS.set(1)
            await stream.ensure(self._stream)
            while True:
                self._news.clear()
                while await self.step(connection):
                    pass
                await self._wait()
        finally:
            LEADS.set(0)
            connection.terminate()

    async def step(self, connection: Any) -> int:
        """Sends the oldest news; how many. Raises when one was not acknowledged; those that were are forgotten."""
        rows = await connection.fetch("SELECT * FROM ledger.oldest_news($1)", self._batch)
        if not rows:
            return 0
        sent = await asyncio.gather(*(self._send(row) for row in rows), return_exceptions=True)
        errors = [outcome for outcome in sent if isinstance(outcome, BaseException)]
        done = [row["outbox_id"] for row, outcome in zip(rows, sent, strict=True) if outcome is None]
        await connection.execute("SELECT ledger.forget_news($1)", done)
        if errors:
            raise errors[0]
        return len(done)

    async def _send(self, row: Any) -> None:
        await self._stream.publish(row["subject"], row["payload"], headers={"Nats-Msg-Id": row["key"]})
        SENT.labels(row["subject"]).inc()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._news.wait()
        except TimeoutError:
            return
