"""Redis that refuses or hangs for a while, calls that end while they wait, and a ledger that says no."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest
from redis.asyncio import Redis

from ddz.table.v1 import table_pb2
from servicekit import interceptor, metrics
from servicekit.pipe import StoreLost
from services.table.store import Store
from tests.services.table.stack import Stack, act, look, terms, until, until_async
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


async def test_a_call_that_ends_while_it_attaches_leaves_no_stream_and_no_presence(stack: Stack) -> None:
    players = await stack.players()
    table_id = await stack.open(terms("happy"), players)
    actor = stack.nodes[0].service.node.actor(table_id)
    seq = (await look(stack.nodes[0], table_id, players[0].player_id)).seq
    async with redis_of(stack) as redis:
        await redis.client_pause(60_000, all=False)
        client = await stack.client(players[0].player_id, table_id).open(wait=False)
        await until(actor.work)
        await client.close()
        await redis.client_unpause()

    async def is_gone() -> bool:
        snapshot = await look(stack.nodes[0], table_id, players[0].player_id)
        return snapshot.seq > seq and not snapshot.seats[0].connected and not actor.audience.streams

    await until_async(is_gone)
    assert not actor.audience.streams


async def test_a_stream_whose_missed_events_cannot_be_read_at_first_begins_all_the_same(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    players = await stack.players()
    table_id = await stack.open(terms("happy"), players)
    before = await look(stack.nodes[0], table_id, players[0].player_id)
    read, lost = Store.read, 0

    async def losing(self: Store, table: str, after_seq: int = 0) -> list[bytes]:
        nonlocal lost
        if after_seq == before.seq and table == table_id and not lost:
            lost += 1
            raise StoreLost("planted")
        return await read(self, table, after_seq)

    monkeypatch.setattr(Store, "read", losing)
    client = await stack.client(players[0].player_id, table_id).open(after_seq=before.seq, epoch=before.epoch)
    await client.until_told("presence_set")
    assert (lost, client.error, client.names().count("presence_set")) == (1, None, 1)
    await close([client])


async def test_a_stream_that_ends_lets_go_of_everything_at_once() -> None:
    let_go = asyncio.Event()

    async def stream(_request: object, _context: object) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            let_go.set()

    frames = interceptor._stream(stream, None, None, "test")
    async with contextlib.aclosing(frames):  # type: ignore[type-var]
        assert await anext(frames) == 1
    assert let_go.is_set()
