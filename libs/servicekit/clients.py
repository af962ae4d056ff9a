"""Connections to what stands behind the services, opened once a process and closed with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import nats.errors
from nats.aio.client import Client as NatsClient
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from servicekit import logs
from servicekit.lasting import end
from servicekit.pipe import StoreLost
from servicekit.probe import probed

log = logs.get("clients")

# Postgres went away or cannot do it for now, or two transactions met: it says nothing about what was asked.
POSTGRES_AWAY: Final = (
    asyncpg.DeadlockDetectedError,  # 40P01
    asyncpg.SerializationError,  # 40001
    asyncpg.OperatorInterventionError,  # 57P0x, 57014
    asyncpg.IdleInTransactionSessionTimeoutError,  # 25P03
    asyncpg.PostgresConnectionError,  # 08xxx
    asyncpg.InsufficientResourcesError,  # 53xxx
    asyncpg.ReadOnlySQLTransactionError,  # 25006: it has become a standby
    asyncpg.InvalidCachedStatementError,  # a migration came in between
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError too
)

# A bus that says nothing is given up for another connection after three of these.
PING_S: Final = 5

_NOBODY: Final = "ddz.nobody"  # listens here

# Redis is not there, has become a replica, or has no room for what is written.
_REDIS_AWAY: Final = (RedisConnectionError, RedisTimeoutError, ReadOnlyError, OutOfMemoryError)

# What a call ends with when a server behind us is away: our caller may come again, it is no fault of ours.
AWAY: Final = (*POSTGRES_AWAY, StoreLost, *_REDIS_AWAY)

_REDIS_CONNECTIONS: Final = 32
_REDIS_WAIT_S: Final = 5.0


@contextlib.asynccontextmanager
async def postgres(dsn: str, *, connections: int) -> AsyncIterator[asyncpg.Pool]:
    """A pool of exactly `connections`; raises OSError when the server does not answer."""
    async with (
        asyncpg.create_pool(dsn, min_size=connections, max_size=connections) as pool,
        probed("postgres", lambda: pool.fetchval("SELECT 1"), *AWAY, asyncpg.PostgresError),
    ):
        yield pool


@contextlib.asynccontextmanager
async def redis(url: str) -> AsyncIterator[Redis]:
    """A client that sends a command again when its connection is lost: what it is given must be safe to repeat.

    Who comes when all connections are busy waits for one. After a failover all of them lead to the new primary.
    """
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.01), retries=3)
    pool = BlockingConnectionPool.from_url(url, max_connections=_REDIS_CONNECTIONS, timeout=_REDIS_WAIT_S, retry=retry)
    client = _Following.from_pool(pool)
    try:
        await client.ping()
        async with probed("redis", client.ping, RedisError, OSError):
            yield client
    finally:
        await client.aclose()


class _Following(Redis):
    """Follows the primary where one address leads to it (docs/decisions/0016)."""

    async def execute_command(self, *command: Any, **options: Any) -> Any:
        """The answer; a replica's refusal to write has every connection made anew, and the command sent once again."""
        execute: Any = super().execute_command
        pool: Any = self.connection_pool
        try:
            return await execute(*command, **options)
        except ReadOnlyError:
            await pool.update_active_connections_for_reconnect()
            await pool.disconnect(inuse_connections=False)
            return await execute(*command, **options)


@contextlib.asynccontextmanager
async def nats_bus(url: str, *, name: str, wait: bool = True) -> AsyncIterator[NatsClient]:
    """A client that reconnects for ever; loss of the bus degrades news only.

    Without `wait` it is there at once and connects in the background: for those who can do without until then.
    """

    async def lost(error: Exception) -> None:
        log.warning("nats", extra={"why": str(error)})

    client = NatsClient()
    options: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.2, "ping_interval": PING_S}
    connecting = asyncio.create_task(client.connect(url, name=name, error_cb=lost, **options))
    try:
        await asyncio.sleep(0)  # with its first step it can be used
        if wait or connecting.done():
            await connecting
        async with probed("nats", lambda: answered(client), nats.errors.Error, OSError, up=client.is_connected):
            yield client
    finally:
        await end(connecting)
        with contextlib.suppress(OSError, nats.errors.Error):  # a bus that is away cannot be told
            await client.close()


async def answered(bus: NatsClient, timeout_s: float = 1.0) -> None:
    """Waits until the bus has taken in what was sent before, a sign of life; raises nats.errors.Error when it has not.

    Not by the client's `flush`: when that times out or is cancelled, the PONG that comes late ends the client's reading
    (nats-py 2.16), which hears nothing any more and says that it is connected.
    """
    if not bus.is_connected:
        raise nats.errors.ConnectionClosedError
    with contextlib.suppress(nats.errors.NoRespondersError):  # the bus says at once that nobody listens
        await bus.request(_NOBODY, timeout=timeout_s)
