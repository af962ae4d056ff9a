"""Takes news from the outbox to JetStream. One instance at a time leads; when it is gone another one does.

A row is deleted once JetStream has acknowledged it, so that news leave at least once; the key is the message id, by
which the stream drops repeats for a while, and consumers for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from prometheus_client import Counter, Gauge

from servicekit import clients, logs, stream, traces
from services.ledger.trouble import ABANDONED

log = logs.get("relay")

SENT: Final = Counter("ddz_ledger_news_sent", "News that JetStream has acknowledged")
LEADS: Final = Gauge("ddz_ledger_relay_leads", "1 where this instance relays the news")

WAITING: Final = Gauge("ddz_ledger_news_waiting", "News that the last look into the outbox found, a batch at most")

_ACKNOWLEDGE_S: Final = 2.0
_QUERY_S: Final = 5.0

# The advisory lock of the leader; any number that nobody else uses in this database.
_LEADER: Final = 0x6F7574626F78


class NotAcknowledged(Exception):
    """JetStream has not taken all news in time."""


_TROUBLE: Final = (
    NotAcknowledged,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    nats.errors.Error,
    OSError,
    TimeoutError,
)


class Publisher:
    """Sends many news at once: one subscription hears all acknowledgements, where a request makes one for each."""

    def __init__(self, bus: Client) -> None:
        self._bus = bus
        self._inbox = bus.new_inbox()
        self._awaited: set[int] = set()
        self._all = asyncio.Event()

    async def listen(self) -> None:
        """To be called once, before anything is sent."""
        await self._bus.subscribe(f"{self._inbox}.*", cb=self._hear)

    async def send(self, rows: Sequence[Any]) -> list[int]:
        """The outbox ids of those that JetStream has acknowledged; all, or those of the first two seconds."""
        sent = {row["outbox_id"] for row in rows}
        self._awaited = set(sent)
        self._all.clear()
        with contextlib.ExitStack() as spans:
            for row in rows:
                reply = f"{self._inbox}.{row['outbox_id']}"
                headers = {"Nats-Msg-Id": row["key"], **traces.telling(row["subject"], row["traceparent"], spans)}
                await self._bus.publish(row["subject"], row["payload"], reply=reply, headers=headers)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ACKNOWLEDGE_S):
                    await self._all.wait()
        return list(sent - self._awaited)

    async def _hear(self, message: Msg) -> None:
        # Without a stream the answer is a status and no data; a stream that refuses says why.
        if not message.data or "error" in json.loads(message.data):
            return
        self._awaited.discard(int(message.subject.rpartition(".")[2]))
        if not self._awaited:
            self._all.set()


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
            publisher = Publisher(bus)
            await publisher.listen()
            while True:
                try:
                    await self._lead(bus, publisher)
                except _TROUBLE as error:
                    log.warning("news wait", extra={"why": repr(error)})
                await asyncio.sleep(self._retry_s)

    async def _lead(self, bus: Client, publisher: Publisher) -> None:
        connection = await asyncpg.connect(
            self._dsn, timeout=_QUERY_S, command_timeout=_QUERY_S, server_settings=ABANDONED
        )
        try:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LEADER):
                return
            LEADS.set(1)
            await stream.ensure(bus.jetstream(timeout=_ACKNOWLEDGE_S))
            while True:
                self._news.clear()
                while await self.step(connection, publisher):
                    pass
                await self._wait()
        finally:
            LEADS.set(0)
            connection.terminate()

    async def step(self, connection: asyncpg.Connection, publisher: Publisher) -> int:
        """Sends the oldest news and forgets those that were acknowledged; how many.

        Raises NotAcknowledged when one was not.
        """
        rows = await connection.fetch("SELECT * FROM ledger.oldest_news($1)", self._batch)
        WAITING.set(len(rows))
        if not rows:
            return 0
        done = await publisher.send(rows)
        await connection.execute("SELECT ledger.forget_news($1)", done)
        SENT.inc(len(done))
        if len(done) < len(rows):
            raise NotAcknowledged(f"{len(rows) - len(done)} of {len(rows)} news")
        return len(done)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._news.wait()
