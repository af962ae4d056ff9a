"""Redis that refuses or hangs for a while, calls that end while they wait, and a ledger that says no."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import grpc
from redis.asyncio import Redis

from servicekit import metrics
from tests.services.table.stack import Stack, act, table_pb2, until
from tests.services.table.test_streams import close, happy_hand


@contextlib.asynccontextmanager
async def redis_of(stack: Stack) -> AsyncIterator[Redis]:
    """A connection beside those of the nodes."""
    redis = Redis.from_url(stack.redis_url)
    try:
        yield redis
    finally:
        await redis.aclose()


async def test_nodes_outlive_a_redis_that_takes_no_writes_and_the_tables_go_on(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, auction_ms=500)
    faults = [metrics.FAULTS.labels(where)._value.get() for where in ("poll", "sweep", "background", "actor")]
    async with redis_of(stack) as redis:
        await redis.config_set("min-replicas-to-write", "1")
        try:
            with contextlib.suppress(grpc.aio.AioRpcError):  # it waits for Redis, and then says UNAVAILABLE
                await act(stack.nodes[0], table_id, ids[0], trustee=table_pb2.Trustee(on=True))
        finally:
            await redis.config_set("min-replicas-to-write", "0")
    await clients[0].until_told("bid_made", times=3)
    assert faults == [metrics.FAULTS.labels(where)._value.get() for where in ("poll", "sweep", "background", "actor")]
    await until(lambda: all(client.error is None for client in clients))
    await close(clients)
