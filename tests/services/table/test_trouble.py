"""Redis that refuses or hangs for a while, calls that end while they wait, and a ledger that says no."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest
from redis.asyncio import Redis

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import table_pb2
from servicekit import interceptor, metrics
from servicekit.crowd import Crowd
from servicekit.pipe import StoreLost
from services.table import commands
from services.table.effects import Ledger
from services.table.store import Store
from tests.services.table.stack import Stack, act, fresh, look, metadata, table_node, terms, until, until_async
from tests.services.table.test_streams import close, happy_hand
from tests.services.table.test_void_tables import WRONG, break_log, open_hands, void


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
        await until(lambda: not actor.idle)
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

    class Context:
        def invocation_metadata(self) -> tuple[()]:
            return ()

        def code(self) -> None:
            return None

    frames = interceptor._stream(stream, Crowd(), None, Context(), "test")
    async with contextlib.aclosing(frames):  # type: ignore[type-var]
        assert await anext(frames) == 1
    assert let_go.is_set()


async def settled_hand(stack: Stack) -> ledger_pb2.GetHandResponse:
    """A hand that was fled from, as the ledger has it."""
    table_id, ids, clients = await happy_hand(stack)
    await clients[1].act(leave=table_pb2.Leave())
    await clients[0].until_told("hand_settled")
    await close(clients)
    return await stack.hands.GetHand(
        ledger_pb2.GetHandRequest(hand_id=f"{table_id}-1"), metadata=metadata(ids[0]), timeout=5
    )


async def test_a_hand_that_was_settled_otherwise_is_shown_as_the_ledger_settled_it(stack: Stack) -> None:
    found = await settled_hand(stack)
    record = hand_pb2.HandRecord()
    record.CopyFrom(found.record)
    record.ended_at_ms += 1
    answer = await Ledger(stack.ledger, stack.hands).settle(record.hand_id, record)
    assert isinstance(answer, commands.LedgerSettled)
    assert list(answer.chips) == [seat.chips for seat in found.settlement.seats]
    assert list(answer.balances) == [seat.balance_after_chips for seat in found.settlement.seats]


async def test_a_hand_that_the_ledger_will_not_settle_is_voided_there_and_frees_its_players(stack: Stack) -> None:
    found = await settled_hand(stack)
    ids = [player.player_id for player in found.record.players]
    record = hand_pb2.HandRecord()
    record.CopyFrom(found.record)
    record.hand_id, record.table_id = fresh("h"), fresh("t")
    for hand_id in (record.hand_id, fresh("h")):
        opened = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=ids, table_id=record.table_id)
        await stack.ledger.OpenHand(opened, timeout=5)
        if hand_id == record.hand_id:
            record.players[0].player_id, record.players[1].player_id = ids[1], ids[0]  # the wrong seats
            answer = await Ledger(stack.ledger, stack.hands).settle(hand_id, record)
            assert answer == commands.LedgerVoided(hand_id)
        else:
            await stack.ledger.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hand_id), timeout=5)


async def test_an_open_hand_that_its_table_has_given_up_is_voided(stack: Stack) -> None:
    table_id, _, clients = await happy_hand(stack)
    ids = [player.player_id for player in await stack.players()]
    late = ledger_pb2.OpenHandRequest(hand_id=f"{table_id}-9", player_ids=ids, table_id=table_id)
    await stack.ledger.OpenHand(late, timeout=5)
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, lost_s=0.0) as node:
        await node.service.node.void_lost()
    open_hands = await stack.ledger.ListOpenHands(ledger_pb2.ListOpenHandsRequest(limit=1_000), timeout=5)
    of_the_table = [hand.hand_id for hand in open_hands.hands if hand.table_id == table_id]
    assert of_the_table == [f"{table_id}-1"], "the hand that is played stays, the other holds nobody any more"
    await close(clients)


async def test_an_open_hand_whose_table_is_lost_is_voided_and_others_are_not(stack: Stack) -> None:
    live, _, clients = await happy_hand(stack)
    ids = [player.player_id for player in await stack.players()]
    lost = fresh("lost")

    async def open_hand(number: int) -> None:
        request = ledger_pb2.OpenHandRequest(hand_id=f"{lost}-{number}", player_ids=ids, table_id=lost)
        await stack.ledger.OpenHand(request, timeout=5)

    await open_hand(1)
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port) as node:
        await node.service.node.void_lost()  # it is not old enough
        with pytest.raises(grpc.aio.AioRpcError):
            await open_hand(2)
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, lost_s=0.0) as node:
        await node.service.node.void_lost()
        await open_hand(2)
        await node.service.node.void_lost()
    open_hands = await stack.ledger.ListOpenHands(ledger_pb2.ListOpenHandsRequest(limit=1_000), timeout=5)
    assert f"{live}-1" in {hand.hand_id for hand in open_hands.hands}
    assert lost not in {hand.table_id for hand in open_hands.hands}
    await close(clients)


async def test_a_table_that_cannot_be_read_keeps_its_hand_and_hides_no_lost_one(stack: Stack) -> None:
    unreadable, _, clients = await happy_hand(stack)
    await break_log(stack, unreadable, WRONG["index"])
    ids = [player.player_id for player in await stack.players()]
    lost = fresh("lost")  # the younger hand, which is looked at later
    await stack.ledger.OpenHand(ledger_pb2.OpenHandRequest(hand_id=lost, player_ids=ids, table_id=lost), timeout=5)
    faults = metrics.FAULTS.labels("actor")._value
    before = faults.get()
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, lost_s=0.0) as node:
        await node.service.node.void_lost()
    left = await open_hands(stack)
    assert (unreadable in left, lost in left) == (True, False)
    assert faults.get() > before
    await void(stack, unreadable)
    await close(clients)


async def test_a_table_that_cannot_be_read_does_not_cut_a_drain_short(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, drain_s=0.1) as node:
        table_id, _, clients = await happy_hand(stack)
        await break_log(stack, table_id, WRONG["assertion"])
        actor = node.service.node.actor(table_id)
        reading = asyncio.create_task(actor.refresh())
        await asyncio.sleep(0)
        assert not actor.idle, "the reading has begun"
        await node.service.node.drain()
        with pytest.raises(AssertionError):
            await reading
        assert await void(stack, table_id)
        await close(clients)
