"""Reconnecting, and nodes that go while others go on.

Rows of area `reconnect` in the reports of other systems: BR-073 to 085.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from deploy.local.leash import Leash
from servicekit import server
from services.table.store import Store
from tests.services.table.bots import begin, play_hands
from tests.services.table.stack import (
    Client,
    Stack,
    act,
    fresh,
    look,
    node_process,
    table_node,
    terms,
    until,
    until_async,
)
from tests.services.table.test_streams import LONG, close, happy_hand, same, to_play

# ---- reconnecting ---------------------------------------------------------------------------------------------------


async def test_br_073_drop_and_return_restores_seat_hand_last_play_clock_and_multiplier(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    landlord = await to_play(stack, table_id, ids)
    lead = (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards[0]
    await act(stack.nodes[0], table_id, ids[landlord], play=hand_pb2.PlayCards(cards=[lead]))
    await until(lambda: clients[0].last("played"))
    before = await look(stack.nodes[0], table_id, ids[0])
    await clients[0].close()
    await until(lambda: clients[1].last("presence_set") and not clients[1].last("presence_set").connected)
    again = await stack.client(ids[0], table_id, node=1).open()
    after = again.snapshot
    assert after is not None
    assert after.you == 0
    assert after.seats[0].cards == before.seats[0].cards
    assert (after.on_table, after.on_table_seat, after.trick) == (before.on_table, before.on_table_seat, before.trick)
    assert after.clock.seat == before.clock.seat
    assert after.clock.deadline_ms > after.at_ms
    assert (after.multiplier, after.factors, after.landlord) == (before.multiplier, before.factors, before.landlord)
    assert [seat.trustee for seat in after.seats] == [False, False, False]
    await close([again, *clients[1:]])


async def test_br_074_one_seat_per_account_however_often_he_is_killed(stack: Stack) -> None:
    players = await stack.players()
    table_id = await stack.open(terms("happy"), players[:1])
    seats = set()
    for number in range(3):
        client = await stack.client(players[0].player_id, table_id, node=number % 2).open()
        sit = table_pb2.SitRequest(table_id=table_id, player=players[0])
        seats.add((await stack.nodes[number % 2].internal.Sit(sit)).seat)
        await client.close()
    snapshot = await look(stack.nodes[0], table_id, players[0].player_id)
    assert seats == {0}
    assert [bool(seat.player.player_id) for seat in snapshot.seats] == [True, False, False]


async def test_br_075_a_watcher_that_drops_changes_nothing(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    (watcher,) = await stack.players(count=1)
    await stack.nodes[0].internal.Observe(table_pb2.ObserveRequest(table_id=table_id, observer=watcher, seat=0))
    client = await stack.client(watcher.player_id, table_id).open()
    before = await look(stack.nodes[0], table_id, ids[0])
    await client.close()
    await clients[0].until_told("observer_presence_set", times=2)
    after = await look(stack.nodes[0], table_id, ids[0])
    after.seq = before.seq
    assert same(after, before)
    await close(clients)


async def test_br_076_a_loser_who_unplugs_is_played_for_and_pays(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, trustee_ms=1)
    landlord = await to_play(stack, table_id, ids)
    for number in (landlord, (landlord + 1) % 3):
        await clients[number].close()
    watching = clients[(landlord + 2) % 3]
    await watching.act(trustee=table_pb2.Trustee(on=True))
    await watching.until_told("hand_settled")
    snapshot = await look(stack.nodes[0], table_id, ids[landlord])
    assert sum(snapshot.last_result.chips) + snapshot.last_result.system_chips == 0
    assert snapshot.last_result.chips[landlord] != 0
    assert not snapshot.last_outcome.HasField("fled")


async def test_br_077_the_close_of_a_stale_stream_is_ignored(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    newer = await stack.client(ids[0], table_id, node=1).open()
    await clients[0].close()
    await until(lambda: not _streams_of(stack, 0, table_id, ids[0]))
    snapshot = await look(stack.nodes[0], table_id, ids[1])
    assert (snapshot.seats[0].connected, snapshot.seats[0].trustee) == (True, False)
    await close([newer, *clients[1:]])


def _streams_of(stack: Stack, node: int, table_id: str, player_id: str) -> int:
    actor = stack.nodes[node].service.node.actor(table_id)
    return sum(stream.player_id == player_id for stream in actor.audience.streams)


async def test_br_078_who_was_away_when_the_hand_ended_sees_result_and_balances(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, trustee_ms=1, countdown_ms=60_000)
    await to_play(stack, table_id, ids)
    await clients[0].close()
    for number in (1, 2):
        await clients[number].act(trustee=table_pb2.Trustee(on=True))
    await clients[1].until_told("hand_settled")
    again = await stack.client(ids[0], table_id, node=1).open()
    assert again.snapshot is not None
    result = again.snapshot.last_result
    assert result == clients[1].last("hand_settled")
    assert [seat.balance_chips for seat in again.snapshot.seats] == list(result.balances_chips)
    assert again.snapshot.last_outcome.winner
    assert all(proof.server_seed for proof in result.proofs)
    await close([again, *clients[1:]])


async def test_br_079_joining_twice_is_one_seat_and_the_count_stays(stack: Stack) -> None:
    players = await stack.players()
    table_id = await stack.open(terms("happy"), players[:2])
    before = await look(stack.nodes[0], table_id, players[0].player_id)
    again = table_pb2.SitRequest(table_id=table_id, player=players[1])
    answers = [await stack.nodes[number % 2].internal.Sit(again) for number in range(4)]
    assert {answer.seat for answer in answers} == {1}
    assert same(await look(stack.nodes[1], table_id, players[0].player_id), before)


async def test_br_081_rejoining_between_hands_gives_one_consistent_hand(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, countdown_ms=300)
    playing = asyncio.create_task(play_hands(stack.nodes, table_id, ids, hands=3))
    seen = 0
    while not playing.done():
        watcher = await stack.client(ids[0], table_id, node=seen % 2).open()
        snapshot = watcher.snapshot
        assert snapshot is not None
        held = [seat.cards.count for seat in snapshot.seats]
        in_hand = snapshot.clock.phase in (events_pb2.PHASE_BID, events_pb2.PHASE_PLAY)
        assert snapshot.you == 0
        assert not in_hand or len(snapshot.seats[0].cards.cards) == held[0]
        await watcher.close()
        seen += 1
    await playing
    assert seen > 3
    await close(clients)


async def test_who_lost_his_seat_while_he_was_away_sees_what_one_without_a_seat_sees(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    known = clients[1]
    assert known.snapshot is not None
    await known.close()
    request = table_pb2.ActRequest(
        table_id=table_id, command=table_pb2.Command(command_id="b", leave=table_pb2.Leave())
    )
    await stack.nodes[0].stub.Act(request, metadata=(("x-player-id", ids[1]),))
    await clients[0].until_told("countdown_ended")  # the last that comes of it
    again = await stack.client(ids[1], table_id, node=1).open(after_seq=known.seq, epoch=known.snapshot.epoch)
    await until(again.goodbye)
    assert "seat_left" in again.names()
    assert again.snapshot is not None
    assert same(again.snapshot, await look(stack.nodes[1], table_id, ids[1]))
    assert not any(seat.cards.cards for seat in again.snapshot.seats)
    await close([again, clients[0], clients[2]])


async def test_br_082_the_seat_is_fixed_for_the_hand(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    turn = clients[0].last("dealt").first_seat
    await clients[turn].close()
    sit = table_pb2.SitRequest(table_id=table_id, player=common_pb2.Player(player_id=ids[turn]), seat=(turn + 1) % 3)
    assert (await stack.nodes[1].internal.Sit(sit)).seat == turn
    again = await stack.client(ids[turn], table_id, node=1).open()
    assert again.snapshot is not None
    assert again.snapshot.you == turn
    assert again.snapshot.clock.seat == turn
    await close([again, *(client for number, client in enumerate(clients) if number != turn)])


async def test_br_083_who_drops_on_his_own_turn_is_played_for(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack, trustee_ms=20)
    turn = clients[0].last("dealt").first_seat
    other = clients[(turn + 1) % 3]
    await clients[turn].close()
    bid = await other.until_told("bid_made")
    assert (bid.seat, bid.level, bid.by_trustee) == (turn, 0, True)
    await close([client for number, client in enumerate(clients) if number != turn])


async def test_br_084_the_new_session_wins_and_the_old_one_is_told_once(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    for number in range(3):
        newer = await stack.client(ids[0], table_id, node=number % 2).open()
        await until(lambda: clients[0].ended)
        assert [frame.goodbye.why for frame in clients[0].frames if frame.HasField("goodbye")] == ["replaced"]
        assert not newer.ended
        clients[0] = newer
    await close(clients)


async def test_br_085_a_blip_is_no_flee(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, away_ms=5_000)
    await clients[0].close()
    await until(lambda: clients[1].last("presence_set") and not clients[1].last("presence_set").connected)
    again = await stack.client(ids[0], table_id, node=1).open()
    assert again.snapshot is not None
    assert again.snapshot.seats[0].connected
    assert "hand_fled" not in clients[1].names()
    await close([again, *clients[1:]])


async def test_a_connection_that_is_lost_for_too_long_is_a_flee_where_the_room_says_so(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack, away_ms=50)
    await clients[0].close()
    fled = await clients[1].until_told("hand_fled")
    assert fled.outcome.fled == 0
    await close(clients[1:])


# ---- a node that goes, and others that go on ------------------------------------------------------------------------


async def test_a_drained_node_sends_its_clients_on_and_the_hand_goes_on_elsewhere(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port) as node:
        players = await stack.players()
        ids = [player.player_id for player in players]
        table_id = await stack.open(terms("happy", clocks=LONG), players)
        clients = [await Client(one, table_id, node.stub).open() for one in ids]
        await begin(clients, "happy")
        await node.service.drain()
        for client in clients:
            await until(lambda: client.ended)  # noqa: B023
            goodbye = client.goodbye()
            assert goodbye is not None
            assert (goodbye.why, goodbye.reconnect) == ("drain", True)
        with pytest.raises(grpc.aio.AioRpcError, match="no new tables"):
            await node.internal.Open(table_pb2.OpenRequest(table_id=fresh("t"), terms=terms("happy")))
    again = []
    for one, client in zip(ids, clients, strict=True):
        epoch = client.frames[0].snapshot.epoch
        again.append(await stack.client(one, table_id).open(after_seq=client.seq, epoch=epoch))
    snapshot = await look(stack.nodes[0], table_id, ids[0])
    assert [seat.trustee for seat in snapshot.seats] == [False, False, False]
    await play_hands(stack.nodes, table_id, ids, hands=1)
    await close(again)


async def test_a_hand_goes_on_when_its_node_is_killed(stack: Stack, leash: Leash, scratch: Path) -> None:
    players = await stack.players()
    ids = [player.player_id for player in players]
    with node_process(stack, leash, scratch) as process:
        async with server.channel(process.target) as channel:
            stub = table_pb2_grpc.TableServiceStub(channel)
            internal = table_pb2_grpc.TableInternalServiceStub(channel)
            table_id = await stack.open_on(internal, terms("happy", clocks={"auction_ms": 500}), players)
            clients = [await Client(one, table_id, stub).open() for one in ids]
            await begin(clients, "happy")
            process.kill()
            watcher = await stack.client(ids[0], table_id, node=1).open()
            bid = await watcher.until_told("bid_made")
            assert bid.by_trustee
            await close([watcher, *clients])


async def test_who_was_on_a_node_that_died_and_never_comes_back_keeps_no_seat(
    stack: Stack, leash: Leash, scratch: Path
) -> None:
    (player,) = await stack.players(count=1)
    with node_process(stack, leash, scratch, DDZ_TABLE_IDLE_S="1") as process:
        async with server.channel(process.target) as channel:
            internal = table_pb2_grpc.TableInternalServiceStub(channel)
            table_id = await stack.open_on(internal, terms("happy"), [player])
            ghost = await Client(player.player_id, table_id, table_pb2_grpc.TableServiceStub(channel)).open()
            process.kill()
            await until(lambda: ghost.ended)
    store, actor = stack.nodes[0].service.node.store, stack.nodes[0].service.node.actor(table_id)
    for _, connection in (await actor.refresh()).connections:
        await store._pipe.call("DEL", f"table:node:{connection.rpartition(':')[0]}")  # its lease runs out
    await actor.take_up()
    await until_async(lambda: seat_is_free(store, table_id))


async def test_who_alone_does_not_come_back_from_a_node_that_ended_is_away(stack: Stack) -> None:
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    async with table_node(*places, report_s=0.1) as other:
        async with table_node(*places, drain_s=0.1) as node:
            table_id, ids, _ = await happy_hand(Stack([node, node], stack.ledger, stack.hands, *places))
        clients = [await Client(one, table_id, other.stub).open() for one in ids[1:]]
        store = other.service.node.store
        ((_, lost),) = [
            one for one in (await other.service.node.look(table_id, ids[1])).connections if one[0] == ids[0]
        ]
        assert not clients[0].names().count("trustee_set"), "the lease of the node runs: he may be on his way"
        await store._pipe.call("DEL", f"table:node:{lost.rpartition(':')[0]}")  # it runs out
        await until(lambda: (gone := clients[0].last("presence_set")) and (gone.seat, gone.connected) == (0, False))
        hosted = await clients[0].until_told("trustee_set")
        assert (hosted.seat, hosted.on, hosted.why) == (0, True, "away")
        await close(clients)


async def test_a_node_lets_go_of_a_table_that_others_serve_while_it_plays(stack: Stack) -> None:
    places = (stack.redis_url, stack.nats_url, stack.ledger_port)
    table_id, _, clients = await happy_hand(stack, trustee_ms=50)
    for client in clients:
        await client.act(trustee=table_pb2.Trustee(on=True))
    async with table_node(*places, report_s=0.1, retire_s=0.5) as other:
        await other.service.node.actor(table_id).take_up()
        await until(lambda: not other.service.node.actors())
    seq = clients[0].seq
    await until(lambda: clients[0].seq > seq)
    await close(clients)


async def seat_is_free(store: Store, table_id: str) -> bool:
    """Whether the log tells that somebody has left his seat."""
    entries = [events_pb2.LogEntry.FromString(entry) for entry in await store.read(table_id)]
    return any(event.HasField("seat_left") for entry in entries for event in entry.events)


async def test_news_that_are_lost_are_read_from_the_log(stack: Stack) -> None:
    async with table_node(stack.redis_url, stack.nats_url, stack.ledger_port, report_s=0.1) as node:
        table_id, ids, clients = await happy_hand(stack)
        deaf = await Client(ids[0], table_id, node.stub).open()
        node.service.node.news.unlisten(table_id)
        await act(stack.nodes[0], table_id, ids[1], trustee=table_pb2.Trustee(on=True))
        await deaf.until_told("trustee_set")
        await close([deaf, *clients])
