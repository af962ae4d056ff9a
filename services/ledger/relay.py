"""Takes news from the outbox to JetStream. One instance at a time leads; when it is gone another one does.

A row is deleted once JetStream has acknowledged it, so that news leave at least once; the key is the message id, by
which the stream drops repeats for a while, and consumers for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
import nats.errors
from nats.js import JetStreamContext
from prometheus_client import Counter, Gauge

from servicekit import clients, logs, stream

log = logs.get("relay")

SENT: Final = Counter("ddz_ledger_news_sent", "News that JetStream has acknowledged", ["subject"])
LEADS: Final = Gauge("ddz_ledger_relay_leads", "1 where this instance relays the news")

WAITING: Final = Gauge("ddz_ledger_news_waiting", "News that the last look into the outbox found, a batch at most")

_ACKNOWLEDGE_S: Final = 2.0
_QUERY_S: Final = 5.0

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

    def __init__(self, dsn: str, nats_url: str, *, batch: int = 256, poll_s: float = 0.2, retry_s: float = 1.0) -> None:
        self._dsn = dsn
        self._nats_url = nats_url
        self._batch = batch
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Says that there are news."""
        self._news.set()

    async def work(self) -> None:
        """Leads when nobody else does, and begins anew whenever a server goes away.

        It waits for NATS as long as need be: the ledger settles without it.
        """
        async with clients.nats_bus(self._nats_url, name="ledger") as bus:
            news = bus.jetstream(timeout=_ACKNOWLEDGE_S)
            while True:
                try:
                    await self._lead(news)
                except _TROUBLE as error:
                    log.warning("news wait", extra={"why": repr(error)})
                await asyncio.sleep(self._retry_s)

    async def _lead(self, news: JetStreamContext) -> None:
        connection = await asyncpg.connect(self._dsn, timeout=_QUERY_S, command_timeout=_QUERY_S)
        try:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LEADER):
                return
            LEADS.set(1)
            await stream.ensure(news)
            while True:
                self._news.clear()
                while await self.step(connection, news):
                    pass
                await self._wait()
        finally:
            LEADS.set(0)
            connection.terminate()

    async def step(self, connection: asyncpg.Connection, news: JetStreamContext) -> int:
        """Sends the oldest news; how many. Raises when one was not acknowledged; those that were are forgotten."""
        rows = await connection.fetch("SELECT * FROM ledger.oldest_news($1)", self._batch)
        WAITING.set(len(rows))
        if not rows:
            return 0
        sent = await asyncio.gather(*(_send(news, row) for row in rows), return_exceptions=True)
        errors = [outcome for outcome in sent if isinstance(outcome, BaseException)]
        done = [row["outbox_id"] for row, outcome in zip(rows, sent, strict=True) if outcome is None]
        await connection.execute("SELECT ledger.forget_news($1)", done)
        if errors:
            raise errors[0]
        return len(done)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._news.wait()
        except TimeoutError:
            return


async def _send(news: JetStreamContext, row: Any) -> None:
    await news.publish(row["subject"], row["payload"], headers={"Nats-Msg-Id": row["key"]})
    SENT.labels(row["subject"]).inc()
