"""An operator ends tables that are stuck, whatever they are stuck by, and looks at their logs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest
from redis.asyncio import Redis

from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import events_pb2, table_pb2
from services.table.store import Store
from tests.services.table.stack import Stack
from tests.services.table.test_streams import close, happy_hand


@contextlib.asynccontextmanager
async def log_of(stack: Stack, table_id: str) -> AsyncIterator[tuple[Redis, str]]:
    redis = Redis.from_url(stack.redis_url)
    store: Store = stack.nodes[0].service.node.store
    try:
        yield redis, f"{{{store._shard(table_id)}}}:t:{table_id}:log"
    finally:
        await redis.aclose()


async def break_log(stack: Stack, table_id: str) -> None:
    """Adds an event that cannot come there, as a fault of ours would: nobody can fold the log any more."""
    async with log_of(stack, table_id) as (redis, key):
        [(last, _)] = await redis.xrevrange(key, count=1) or []
        assert isinstance(last, bytes)
        seq = int(last.partition(b"-")[0]) + 5
        wrong = events_pb2.LogEntry(events=[events_pb2.Event(seq=seq, ready_set=events_pb2.ReadySet(seat=1))])
        await redis.xadd(key, {"e": wrong.SerializeToString()}, id=f"{seq}-0")


async def void(stack: Stack, table_id: str, node: int = 0) -> str:
    request = table_pb2.VoidTableRequest(table_id=table_id, reason="stuck")
    return (await stack.nodes[node].internal.VoidTable(request)).hand_id


async def read(stack: Stack, table_id: str) -> table_pb2.ReadLogResponse:
    return await stack.nodes[0].internal.ReadLog(table_pb2.ReadLogRequest(table_id=table_id))


async def open_hands(stack: Stack) -> set[str]:
    found = await stack.ledger.ListOpenHands(ledger_pb2.ListOpenHandsRequest(limit=1000))
    return {hand.table_id for hand in found.hands}


async def test_a_live_hand_is_void_here_and_in_the_ledger_on_whatever_node(stack: Stack) -> None:
    table_id, _, clients = await happy_hand(stack)
    hand_id = await void(stack, table_id, node=1)
    assert hand_id.startswith(table_id)
    for client in clients:
        await client.until_told("closed")
        [told] = [event.hand_voided for event in client.events if event.HasField("hand_voided")]
        assert told.reason == "operator"
    assert table_id not in await open_hands(stack)
    assert await void(stack, table_id) == hand_id
    await close(clients)


async def test_a_table_that_its_own_actor_cannot_read_is_put_aside(stack: Stack) -> None:
    table_id, _, clients = await happy_hand(stack)
    await break_log(stack, table_id)
    found = await read(stack, table_id)
    assert found.live_hand_id.startswith(table_id)
    [dealt] = [event.dealt for event in found.events if event.HasField("dealt")]
    assert [len(hand.cards) for hand in dealt.hands] == [0, 0, 0]
    assert table_id in await open_hands(stack)
    assert await void(stack, table_id) == found.live_hand_id
    assert table_id not in await open_hands(stack)
    async with log_of(stack, table_id) as (redis, key):
        assert await redis.pttl(key) > 0
    assert await stack.nodes[0].service.node.store.next_deadline(table_id) is None
    await close(clients)


async def test_what_is_no_table_is_not_found(stack: Stack) -> None:
    for call in (void(stack, "t-none"), read(stack, "t-none")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
