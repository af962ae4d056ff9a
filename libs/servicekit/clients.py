"""Connections to what stands behind the services, opened once a process and closed with it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import asyncpg
import nats
from nats.aio.client import Client as NatsClient
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from servicekit import logs

log = logs.get("clients")


@contextlib.asynccontextmanager
async def postgres(dsn: str, *, connections: int) -> AsyncIterator[asyncpg.Pool]:
    """A pool of exactly `connections`; raises OSError when the server does not answer."""
    async with asyncpg.create_pool(dsn, min_size=connections, max_size=connections) as pool:
        yield pool


@contextlib.asynccontextmanager
async def redis(url: str) -> AsyncIterator[Redis]:
    """A client that sends a command again when its connection is lost: every script here is safe to repeat."""
    client = Redis.from_url(url, retry=Retry(ExponentialBackoff(cap=0.5, base=0.01), retries=3))
    try:
        await client.ping()
        yield client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def nats_bus(url: str, *, name: str) -> AsyncIterator[NatsClient]:
    """A client that reconnects for ever; loss of the bus degrades news only."""

    async def lost(error: Exception) -> None:
        log.warning("nats", extra={"why": str(error)})

    client = await nats.connect(url, name=name, max_reconnect_attempts=-1, reconnect_time_wait=0.2, error_cb=lost)
    try:
        yield client
    finally:
        await client.close()
