"""Fifty tables, played by bots and closed, leave nothing behind; `make bench-lifecycle` does it with 10,000."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import table_pb2
from doudizhu import Refusal
from services.table.actor import Actor
from services.table.fanout import Stream
from services.table.table import Table
from tests.bench.table_life import live, terms
from tests.bench.table_script import DEAL_SEED
from tests.services.table.stack import Stack, TableNode, fresh, table_node, until, until_async

TABLES = 50
AT_ONCE = 20
A_FEW = 10  # of what always comes and goes; what each table left would be fifty


def held() -> dict[str, int]:
    """How many there are of what a table is made of."""
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return {kind.__name__: kinds.count(kind) for kind in (Actor, Stream, Table, asyncio.Task)}


async def lives(stack: Stack, node: TableNode, count: int) -> None:
    """So many tables, some at once, until the node has forgotten them."""
    numbers = iter(range(count))

    async def some() -> None:
        players = await stack.players()
        for _ in numbers:
            await live(node.stub, node.internal, fresh("life"), [player.player_id for player in players])

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    await until(lambda: not node.service.node.actors())
    await until(lambda: not node.service.node.news.listening())


async def test_fifty_tables_leave_nothing_in_memory_redis_or_subscriptions(stack: Stack) -> None:
    quick = {"keep_ms": 200, "report_s": 0.1, "retire_s": 0.1}
    async with (
        Redis.from_url(stack.alone_url) as redis,  # others would keep the logs of what they close for longer
        table_node(
            stack.alone_url, stack.nats_url, stack.ledger_port, deal_seed=DEAL_SEED, commands_per_s=1e6, **quick
        ) as node,
    ):

        async def no_logs() -> bool:
            return not [key async for key in redis.scan_iter("*:t:life*")]

        await lives(stack, node, AT_ONCE)
        before = held()
        await lives(stack, node, TABLES)
        await until_async(no_logs)
        await until(lambda: all(count <= before[name] + A_FEW for name, count in held().items()), timeout_s=30)
        for shard in range(node.service.node.settings.shards):
            due: list[Any] = await redis.zrange(f"{{{shard}}}:deadlines", 0, -1)
            assert not [table_id for table_id in due if table_id.startswith(b"life")]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Memory that waits for the collector of garbage is lost to fragments: nothing may need it."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
async def test_an_actor_that_is_let_go_of_is_gone(stack: Stack) -> None:
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    async with table_node(*places, report_s=0.05, retire_s=0.05) as node:
        actor = weakref.ref(node.service.node.actor(fresh("life")))
        assert actor() is not None
        await until(lambda: actor() is None)


async def test_a_refusal_that_is_remembered_keeps_no_frames(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port) as node:
        table_id = fresh("life")
        players = await stack.players()
        await node.internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=terms(), players=players))
        command = table_pb2.Command(command_id="early", bid=hand_pb2.Bid(level=3))
        for _ in range(2):
            with pytest.raises(Refusal) as told:
                await node.service.node.act(table_id, players[0].player_id, command)
            assert told.value.reason == "WRONG_PHASE"
        (kept,) = node.service.node.actor(table_id)._unlogged.values()
        assert isinstance(kept, Refusal)
        assert (kept.__traceback__, kept.__context__) == (None, None)
        assert str(kept) == str(told.value)
