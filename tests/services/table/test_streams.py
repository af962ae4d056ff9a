"""Streams and commands: snapshot first, resume by sequence from any node, repeats, replaced and slow streams, drain.

Rows of area `reconnect` in the reports of other systems: BR-073 to 085.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from services.table.commands import Disconnect
from services.table.fanout import Stream, payload
from tests.services.table.bots import begin
from tests.services.table.stack import (
    Client,
    Stack,
    act,
    look,
    metadata,
    table_node,
    terms,
    until,
)

LONG = {"auction_ms": 60_000, "play_ms": 60_000, "first_lead_ms": 60_000}


async def happy_hand(stack: Stack, **clocks: int) -> tuple[str, list[str], list[Client]]:
    """A dealt `happy` hand and its three clients, on the nodes in turn."""
    players = await stack.players()
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms("happy", clocks={**LONG, **clocks}), players)
    clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
    await begin(clients, "happy")
    for client in clients:
        await client.until_told("dealt")
    return table_id, ids, clients


async def close(clients: list[Client]) -> None:
    for client in clients:
        await client.close()


async def to_play(stack: Stack, table_id: str, ids: list[str]) -> int:
    """The one on turn bids 3; the landlord's seat."""
    seat = (await look(stack.nodes[0], table_id, ids[0])).clock.seat
    await act(stack.nodes[0], table_id, ids[seat], bid=hand_pb2.Bid(level=3))
    return seat


def same(one: events_pb2.Snapshot, other: events_pb2.Snapshot) -> bool:
    """Equal but for the time at which they were made."""
    left, right = events_pb2.Snapshot(), events_pb2.Snapshot()
    left.CopyFrom(one)
    right.CopyFrom(other)
    left.at_ms = right.at_ms = 0
    return left == right


# ---- streams --------------------------------------------------------------------------------------------------------


async def test_a_stream_begins_with_a_snapshot_then_events_without_a_gap(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    await to_play(stack, table_id, ids)
    for client in clients:
        await client.until_told("landlord_set")
        assert client.frames[0].HasField("snapshot")
        first = client.frames[0].snapshot.seq
        assert [event.seq for event in client.events] == list(range(first + 1, client.seq + 1))
    await close(clients)


async def test_a_stream_resumes_after_an_event_from_another_node(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    known = clients[0]
    epoch = known.frames[0].snapshot.epoch
    await known.close()
    await to_play(stack, table_id, ids)
    again = await stack.client(ids[0], table_id, node=1).open(after_seq=known.seq, epoch=epoch)
    await again.until_told("landlord_set")
    assert not any(frame.HasField("snapshot") for frame in again.frames)
    assert [event.seq for event in again.events] == list(range(known.seq + 1, again.seq + 1))
    await close([again, *clients[1:]])


@pytest.mark.parametrize(("after_seq", "of_another_epoch"), [(1, True), (10_000, False)])
async def test_what_cannot_be_resumed_begins_with_a_snapshot(
    stack: Stack, after_seq: int, of_another_epoch: bool
) -> None:
    table_id, ids, clients = await happy_hand(stack)
    epoch = clients[0].frames[0].snapshot.epoch
    again = await stack.client(ids[0], table_id).open(after_seq, epoch + of_another_epoch)
    assert again.frames[0].HasField("snapshot")
    await close([again, *clients])


async def test_watch_serves_those_who_act_by_single_calls(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    call = stack.nodes[1].stub.Watch(table_pb2.WatchRequest(table_id=table_id), metadata=metadata(ids[0]))
    first = await call.read()
    assert isinstance(first, table_pb2.WatchResponse)
    assert first.snapshot.you == 0
    await to_play(stack, table_id, ids)
    told: list[str | None] = []
    while "landlord_set" not in told:
        frame = await call.read()
        assert isinstance(frame, table_pb2.WatchResponse)
        told += [event.WhichOneof("event") for event in frame.events.events]
    call.cancel()
    await close(clients)


async def test_a_stream_that_another_node_takes_for_dead_is_asked_to_come_back(stack: Stack) -> None:
    players = await stack.players()
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms("happy"), players)
    clients = [await stack.client(one, table_id).open() for one in ids]
    table = await stack.nodes[1].service.node.look(table_id, ids[0])
    dead = table.seats[0].connection
    await stack.nodes[1].service.node.actor(table_id).ask(lambda _: Disconnect(ids[0], dead))
    await until(lambda: clients[0].ended)
    goodbye = clients[0].goodbye()
    assert goodbye is not None
    assert goodbye.reconnect
    assert not any(client.ended for client in clients[1:])
    clients[0] = await stack.client(ids[0], table_id).open()
    assert (await look(stack.nodes[1], table_id, ids[0])).seats[0].connected
    await close(clients)


async def test_a_silent_stream_gets_heartbeats(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, heartbeat_s=0.1) as node:
        players = await stack.players()
        table_id = await stack.open(terms("happy"), players)
        client = await Client(players[0].player_id, table_id, node.stub).open()
        await until(lambda: sum(frame.HasField("heartbeat") for frame in client.frames) >= 2)
        assert client.frames[-1].heartbeat.seq == client.seq
        await client.close()


async def test_the_newest_stream_of_a_seat_wins_and_the_old_one_is_told(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    newer = await stack.client(ids[0], table_id, node=1).open()
    await until(lambda: clients[0].goodbye())
    goodbye = clients[0].goodbye()
    assert goodbye is not None
    assert (goodbye.why, goodbye.reconnect) == ("replaced", False)
    await until(lambda: clients[0].ended)
    assert (await newer.act(trustee=table_pb2.Trustee(on=True))).seq
    assert (await look(stack.nodes[0], table_id, ids[0])).seats[0].connected
    await close([newer, *clients])


async def frames_of(stream: Stream) -> list[table_pb2.PlayResponse]:
    return [table_pb2.PlayResponse.FromString(frame) async for frame in stream.frames()]


async def test_a_slow_consumer_is_dropped() -> None:
    stream = Stream("p", "c", limit=4)
    for seq in range(10):
        stream.push_events(payload([events_pb2.Event(seq=seq)]))
    (frame,) = await frames_of(stream)
    assert frame.goodbye.why == "slow"


async def test_several_events_leave_in_one_frame_with_the_answer() -> None:
    stream = Stream("p", "c", limit=10)
    for seqs in ((1, 2), range(3, 40)):
        stream.push_events(payload([events_pb2.Event(seq=seq, at_ms=1 << 40) for seq in seqs]))
    stream.push_accepted(table_pb2.Accepted(command_id="c1", seq=2))
    stream.push("heartbeat", table_pb2.Heartbeat(seq=39))
    stream.push_accepted(table_pb2.Accepted(command_id="c2", seq=39))
    stream.goodbye("drain", reconnect=True)
    together, heartbeat, alone, goodbye = await frames_of(stream)
    assert [event.seq for event in together.events.events] == list(range(1, 40))
    assert list(together.events.accepted) == [table_pb2.Accepted(command_id="c1", seq=2)]
    assert heartbeat.heartbeat.seq == 39
    assert alone.accepted == table_pb2.Accepted(command_id="c2", seq=39)
    assert goodbye.goodbye.reconnect


# ---- commands -------------------------------------------------------------------------------------------------------


async def test_a_repeated_command_gets_the_first_answer_on_any_node(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    seat = clients[0].last("dealt").first_seat
    answers = {
        await act(stack.nodes[number % 2], table_id, ids[seat], "once", bid=hand_pb2.Bid(level=1))
        for number in range(4)
    }
    assert len(answers) == 1
    await until(lambda: clients[0].seq >= max(answers))
    assert clients[0].names().count("bid_made") == 1
    await close(clients)


async def test_the_same_command_id_of_another_player_is_another_command(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    await act(stack.nodes[0], table_id, ids[0], "same", trustee=table_pb2.Trustee(on=True))
    await act(stack.nodes[0], table_id, ids[1], "same", trustee=table_pb2.Trustee(on=True))
    snapshot = await look(stack.nodes[1], table_id, ids[0])
    assert [seat.trustee for seat in snapshot.seats] == [True, True, False]
    await close(clients)


async def test_a_repeated_refusal_stays_a_refusal(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    seat = clients[0].last("dealt").first_seat
    other = clients[(seat + 1) % 3]
    first = await other.act("early", bid=hand_pb2.Bid(level=2))
    assert first.refusal.reason == common_pb2.REASON_NOT_YOUR_TURN
    await act(stack.nodes[0], table_id, ids[seat], bid=hand_pb2.Bid(level=1))
    await until(lambda: other.last("bid_made"))
    other.frames.clear()
    second = await other.act("early", bid=hand_pb2.Bid(level=2))
    assert second.refusal.reason == common_pb2.REASON_NOT_YOUR_TURN
    await close(clients)


async def test_two_nodes_that_act_at_once_append_one_after_the_other(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    turns = [
        act(stack.nodes[number % 2], table_id, ids[number % 3], trustee=table_pb2.Trustee(on=number % 2 == 0))
        for number in range(30)
    ]
    await asyncio.gather(*turns)
    last = (await look(stack.nodes[0], table_id, ids[0])).seq
    for client in clients:
        await until(lambda: client.seq >= last)  # noqa: B023
        assert [event.seq for event in client.events] == sorted({event.seq for event in client.events})
    await close(clients)


async def test_a_full_mailbox_refuses_and_recovers(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, mailbox_limit=2) as node:
        players = await stack.players()
        table_id = await stack.open(terms("happy"), players)
        ids = [player.player_id for player in players]
        gate = asyncio.Event()

        async def hold(_: object) -> None:
            await gate.wait()

        actor = node.service.node.actor(table_id)
        held = asyncio.create_task(actor.ask(lambda _: None, then=hold))
        asked = [
            asyncio.create_task(act(node, table_id, ids[0], trustee=table_pb2.Trustee(on=number % 2 == 0)))
            for number in range(5)
        ]
        await until(lambda: sum(one.done() for one in asked) == 3)
        gate.set()
        answers = await asyncio.gather(held, *asked, return_exceptions=True)
        full = [one for one in answers if isinstance(one, grpc.aio.AioRpcError)]
        assert [one.code() for one in full] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 3
        await act(node, table_id, ids[0], trustee=table_pb2.Trustee(on=False))


@pytest.mark.parametrize("bot", [False, True])
async def test_client_seeds_of_people_and_bots_are_waited_for_and_in_the_deals_proof(stack: Stack, bot: bool) -> None:
    players = await stack.players()
    for player in players:
        player.bot = bot
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms("happy", clocks={**LONG, "seed_ms": 60_000}), players)
    clients = [await stack.client(one, table_id).open() for one in ids]
    for client in clients:
        await client.act(ready=table_pb2.Ready(ready=True))
    await clients[0].until_told("committed")
    assert len(clients[0].last("committed").commitment) == 32
    for number, client in enumerate(clients):
        await client.act(give_seed=table_pb2.GiveSeed(seed=bytes([number + 1] * 8)))
    dealt = await clients[0].until_told("dealt")
    assert list(dealt.proof.client_seeds) == [bytes([number + 1] * 8) for number in range(3)]
    await close(clients)
