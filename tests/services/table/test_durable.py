"""Durable before visible, and one version after the other: what an append promises."""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health_pb2, health_pb2_grpc

from ddz.table.v1 import table_pb2
from servicekit import server
from tests.services.table.bots import begin, play_hands
from tests.services.table.stack import Client, Stack, act, fresh, look, table_node, terms, until, until_async
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
    table_id, _, clients = await happy_hand(stack)
    async with redis_of(stack) as redis:
        await redis.client_pause(60_000, all=False)
        try:
            command_id = await clients[0].send(trustee=table_pb2.Trustee(on=True))
            await until(lambda: stack.nodes[0].service.node.actor(table_id)._busy)
            async with server.channel(stack.nodes[0].target) as channel:
                ask = health_pb2_grpc.HealthStub(channel).Check
                for _ in range(20):  # it still answers, and whatever had been pushed would have come by then
                    await ask(health_pb2.HealthCheckRequest())
            assert not clients[0].answer(command_id)
            assert not any("trustee_set" in client.names() for client in clients)
        finally:
            await redis.client_unpause()
    for client in clients:
        assert (await client.until_told("trustee_set")).on
    assert await until(lambda: clients[0].answer(command_id))
    await close(clients)


async def test_a_log_that_is_cut_after_every_hand_goes_on_on_any_node(stack: Stack) -> None:
    players = await stack.players()
    ids = [player.player_id for player in players]
    async with (
        table_node(stack.redis_url, stack.nats_url, stack.ledger_port, cut_events=20) as one,
        table_node(stack.redis_url, stack.nats_url, stack.ledger_port, cut_events=20) as other,
    ):
        table_id = await stack.open_on(one.internal, terms("happy", clocks={"countdown_ms": 600_000}), players)
        clients = [Client(player_id, table_id, one.stub) for player_id in ids]
        for client in clients:
            await client.open()
        await begin(clients, "happy")
        await play_hands([one], table_id, ids, hands=1)
        store = one.service.node.store

        async def is_cut() -> bool:
            return len((await store.parts(table_id))[-1]) == 1

        await until_async(is_cut)
        for number in range(30):  # more events than a log may have after a hand
            await act(one, table_id, ids[0], ready=table_pb2.Ready(ready=number % 2 == 0))
        await one.service.node.actor(table_id).cut()
        for player_id in ids:  # the cards of the hand that is over too: people still look at them
            fresh_look, known = await look(other, table_id, player_id), await look(one, table_id, player_id)
            assert sum(seat.cards.count for seat in known.seats) > 0
            known.at_ms = fresh_look.at_ms
            assert fresh_look == known
        assert isinstance(await act(other, table_id, ids[0], ready=table_pb2.Ready(ready=False)), int)
        # A node that has read on just before the cut does not know of it, and cuts once more.
        other.service.node.actor(table_id)._replica._checkpoint_seq = 0
        await other.service.node.actor(table_id).cut()
        assert len(await store.parts(table_id)) > 2
        third, known = await look(stack.nodes[0], table_id, ids[0]), await look(one, table_id, ids[0])
        known.at_ms = third.at_ms
        assert third == known
        await clients[1].until_told("ready_set", times=4)
        await close(clients)
