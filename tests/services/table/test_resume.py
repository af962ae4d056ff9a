"""Tables that are taken up after everything stood still: extra time by cause, and deadlines that follow the log."""

from __future__ import annotations

from ddz.admin.v1 import orders_pb2
from services.table.log import decode
from tests.services.table.stack import Stack, TableNode, fresh, look, table_node, terms
from tests.services.table.test_streams import happy_hand

SOON = {"auction_ms": 9_000}


async def extended(node: TableNode, table_id: str) -> int:
    """How often the log says that a clock was extended."""
    entries = [decode(table_id, entry) for entry in await node.service.node.store.read(table_id)]
    return sum(type(one.event).__name__ == "ClockExtended" for entry in entries for one in entry.stamped)


async def test_a_node_that_comes_back_under_its_name_gives_extra_time_at_once(stack: Stack) -> None:
    name = fresh("node")
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    async with table_node(*places, node_id=name, drain_s=0.1) as node:
        alone = Stack([node, node], stack.ledger, stack.hands, *places)
        table_id, ids, _ = await happy_hand(alone, **SOON)
        before = await look(node, table_id, ids[0])
        assert await extended(node, table_id) == 0
    async with table_node(*places, node_id=name) as node:
        after = await look(node, table_id, ids[0])
        assert after.clock.deadline_ms > before.clock.deadline_ms
        assert not any(seat.connected for seat in after.seats)
        await look(node, table_id, ids[0])
        assert await extended(node, table_id) == 1


async def test_a_node_that_comes_back_under_its_name_after_it_stood_down_gives_extra_time_at_once(stack: Stack) -> None:
    name = fresh("node")
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    async with table_node(*places, node_id=name, drain_s=0.1) as node:
        for draining in (True, False):
            asked = orders_pb2.SetDraining(node_id=name, draining=draining)
            report = await node.service._steward.do_errand(orders_pb2.Errand(set_draining=asked))
            assert report is not None
            assert report.node.draining == draining
        table_id, ids, _ = await happy_hand(Stack([node, node], stack.ledger, stack.hands, *places), **SOON)
    async with table_node(*places, node_id=name) as node:
        assert not any(seat.connected for seat in (await look(node, table_id, ids[0])).seats)
        assert await extended(node, table_id) == 1


async def test_a_redis_that_was_away_gives_extra_time_once_for_all_nodes(stack: Stack) -> None:
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    async with table_node(*places) as one, table_node(*places) as two:
        both = Stack([one, two], stack.ledger, stack.hands, *places)
        table_id, ids, clients = await happy_hand(both, **SOON)
        before = await look(one, table_id, ids[0])
        for node in both.nodes:
            node.service.node.store._pipe.epoch += 1  # what a new process of Redis looks like
        for node in both.nodes:
            assert (await look(node, table_id, ids[0])).clock.deadline_ms > before.clock.deadline_ms
        assert await extended(one, table_id) == 1
        for client in clients:
            await client.close()


async def test_a_deadline_is_set_only_for_the_log_that_it_was_computed_from(stack: Stack) -> None:
    store = stack.nodes[0].service.node.store
    players = await stack.players()
    table_id = await stack.open(terms("happy"), players[:2])
    seq = (await look(stack.nodes[0], table_id, players[0].player_id)).seq
    deadline = await store.next_deadline(table_id)
    assert not await store.set_deadline(table_id, seq - 1, None)
    assert not await store.set_deadline(table_id, 0, None)
    assert await store.next_deadline(table_id) == deadline
    assert deadline is not None
    assert await store.set_deadline(table_id, seq, deadline + 5)
    assert await store.next_deadline(table_id) == deadline + 5
    nothing = fresh("t")
    assert await store.set_deadline(nothing, 0, 1)
    assert await store.set_deadline(nothing, 0, None)
    assert await store.next_deadline(nothing) is None
