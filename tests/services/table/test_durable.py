"""Durable before visible, and one version after the other: what an append promises."""

from __future__ import annotations

import asyncio

from ddz.table.v1 import table_pb2
from tests.services.table.stack import Stack, act, fresh, look, until
from tests.services.table.test_leaks import log_of
from tests.services.table.test_streams import close, happy_hand
from tests.services.table.test_trouble import redis_of


async def test_of_appends_to_one_version_one_holds_whoever_makes_them(stack: Stack) -> None:
    stores = [node.service.node.store for node in stack.nodes]
    table_id = fresh("bare")
    for version in range(5):
        racing = (stores[n % 2].append(table_id, version, version + 1, b"%d" % n, None, 60_000) for n in range(6))
        assert sorted(await asyncio.gather(*racing)) == [False] * 5 + [True]
    assert not await stores[0].append(table_id, 3, 4, b"late", None, 60_000)
    assert not await stores[1].append(table_id, 7, 8, b"early", None, 60_000)
    assert len(await stores[0].read(table_id)) == 5


async def test_every_number_stands_once_in_the_log_when_both_nodes_act_at_once(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    acts = (
        act(stack.nodes[number % 2], table_id, ids[number % 3], trustee=table_pb2.Trustee(on=number % 2 == 0))
        for number in range(30)
    )
    await asyncio.gather(*acts)
    seqs = [stamped.seq for entry in await log_of(stack, table_id) for stamped in entry.stamped]
    assert seqs == list(range(1, len(seqs) + 1))
    await close(clients)


async def test_nothing_is_told_before_it_is_in_the_log(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    told = [len(client.frames) for client in clients]
    async with redis_of(stack) as redis:
        await redis.client_pause(60_000, all=False)
        try:
            command_id = await clients[0].send(trustee=table_pb2.Trustee(on=True))
            await until(lambda: stack.nodes[0].service.node.actor(table_id)._busy)
            for _ in range(20):  # the other node still reads, and whatever had been pushed would have come by then
                await look(stack.nodes[1], table_id, ids[1])
            assert [len(client.frames) for client in clients] == told
        finally:
            await redis.client_unpause()
    for client in clients:
        assert (await client.until_told("trustee_set")).on
    assert await until(lambda: clients[0].answer(command_id))
    await close(clients)
