"""Opening, sitting, leaving, racing. Rows of area `room` in the reports of other systems: BR-086 to 097."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import events_pb2, table_pb2
from servicekit import errors
from services.table.store import Store
from tests.services.table.stack import Stack, fresh, look, table_node, terms, until, until_async
from tests.services.table.test_streams import close, happy_hand


def reason(error: object) -> str:
    """The typed reason of a refused call."""
    assert isinstance(error, grpc.aio.AioRpcError), error
    refusal = errors.from_rpc_error(error)
    assert refusal is not None, error
    return refusal.reason


async def test_open_is_idempotent_on_every_node(stack: Stack) -> None:
    players = await stack.players()
    request = table_pb2.OpenRequest(table_id=fresh("m"), terms=terms("rob"), players=players)
    answers = await asyncio.gather(*(stack.nodes[number % 2].internal.Open(request) for number in range(6)))
    assert all(answer.seq >= 4 for answer in answers)
    snapshot = await look(stack.nodes[0], request.table_id, players[0].player_id)
    assert [seat.player.player_id for seat in snapshot.seats] == [player.player_id for player in players]
    assert snapshot.hand_id == f"{request.table_id}-1"


async def test_the_same_id_for_others_is_a_conflict(stack: Stack) -> None:
    players = await stack.players(count=4)
    request = table_pb2.OpenRequest(table_id=fresh("m"), terms=terms("rob"), players=players[:3])
    await stack.nodes[0].internal.Open(request)
    other = table_pb2.OpenRequest(table_id=request.table_id, terms=terms("rob"), players=players[1:])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stack.nodes[1].internal.Open(other)
    assert reason(refused.value) == "KEY_CONFLICT"


async def test_br_086_two_joins_for_the_last_seat_give_one_seat_and_one_room_full(stack: Stack) -> None:
    players = await stack.players(count=4)
    for _ in range(5):
        table_id = await stack.open(terms("happy"), players[:2])
        racing = [
            stack.nodes[number].internal.Sit(table_pb2.SitRequest(table_id=table_id, player=players[2 + number]))
            for number in range(2)
        ]
        answers = await asyncio.gather(*racing, return_exceptions=True)
        seated = [answer for answer in answers if isinstance(answer, table_pb2.SitResponse)]
        refused = [answer for answer in answers if not isinstance(answer, table_pb2.SitResponse)]
        assert [answer.seat for answer in seated] == [2]
        assert [reason(answer) for answer in refused] == ["ROOM_FULL"]


async def test_br_087_leaving_mid_hand_ends_the_hand(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    await clients[0].act(leave=table_pb2.Leave())
    settled = await clients[1].until_told("hand_settled")
    assert settled.chips[0] < 0
    await until(lambda: clients[1].last("seat_left"))
    assert (await look(stack.nodes[1], table_id, ids[1])).seats[0].player.player_id == ""
    goodbye = await until(lambda: clients[0].goodbye())
    assert (goodbye.why, goodbye.reconnect) == ("left", False)
    await close(clients)


@pytest.mark.parametrize(
    "changes",
    [
        {"book": "type99"},
        {"base_min_chips": 5, "base_max_chips": 4},
        {"base_max_chips": 2**60},
        {"book_fields_json": "{"},
        {"book_fields_json": '{"rob_factor": 1000}'},
    ],
)
async def test_br_088_terms_that_cannot_be_open_no_table(stack: Stack, changes: dict[str, Any]) -> None:
    table_id = fresh("t")
    of = terms("happy")
    of.MergeFrom(common_pb2.Terms(**changes))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stack.nodes[0].internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=of))
    assert reason(refused.value) == "INVALID"
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await look(stack.nodes[1], table_id, "p")
    assert reason(missing.value) == "NOT_FOUND"


async def test_br_089_the_last_two_confirmations_at_once_start_one_hand(stack: Stack) -> None:
    players = await stack.players()
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms("happy"), players)
    clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
    await asyncio.gather(*(client.act(ready=table_pb2.Ready(ready=True)) for client in clients))
    await clients[0].until_told("dealt")
    assert clients[0].names().count("hand_opening") == 1
    await close(clients)


async def test_br_093_leaving_at_the_instant_of_the_start_is_free_or_a_flee(
    stack: Stack,
) -> None:
    for _ in range(6):
        players = await stack.players()
        ids = [player.player_id for player in players]
        table_id = await stack.open(terms("happy", clocks={"seed_ms": 0}), players)
        clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
        for client in clients[:2]:
            await client.act(ready=table_pb2.Ready(ready=True))
        await asyncio.gather(clients[2].act(ready=table_pb2.Ready(ready=True)), clients[1].act(leave=table_pb2.Leave()))
        await clients[0].until_told("seat_left")
        hand_ended = ("hand_settled", "hand_voided")
        names = clients[0].names()
        started, fled = "hand_opening" in names, "hand_fled" in names
        if started:
            await until(lambda: any(name in clients[0].names() for name in hand_ended))  # noqa: B023
        assert fled is ("dealt" in names)
        balances = await stack.ledger.ListBalances(ledger_pb2.ListBalancesRequest(player_ids=ids))
        assert (balances.balances[1].chips < 10_000) is fled
        await close(clients)


async def test_br_095_sit_leave_sit_is_one_seat(stack: Stack) -> None:
    (player,) = await stack.players(count=1)
    table_id = await stack.open(terms("happy"), [player])
    client = await stack.client(player.player_id, table_id).open()
    await client.act(leave=table_pb2.Leave())
    seat = await stack.nodes[1].internal.Sit(table_pb2.SitRequest(table_id=table_id, player=player))
    snapshot = await look(stack.nodes[0], table_id, player.player_id)
    taken = [one.seat for one in snapshot.seats if one.player.player_id]
    assert taken == [seat.seat]
    await client.close()


async def test_br_097_the_fourth_gets_no_seat_but_may_watch(stack: Stack) -> None:
    players = await stack.players(count=4)
    table_id = await stack.open(terms("happy"), players[:3])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stack.nodes[0].internal.Sit(table_pb2.SitRequest(table_id=table_id, player=players[3]))
    assert reason(refused.value) == "ROOM_FULL"
    observe = table_pb2.ObserveRequest(table_id=table_id, observer=players[3], seat=0)
    assert (await stack.nodes[1].internal.Observe(observe)).seq


async def test_who_is_below_the_minimum_is_told_why_and_unseated(stack: Stack) -> None:
    rich = await stack.players(count=2)
    (poor,) = await stack.players(chips=99, count=1)
    table_id = await stack.open(terms("happy"), [*rich, poor])
    clients = [
        await stack.client(player.player_id, table_id, node=number % 2).open()
        for number, player in enumerate([*rich, poor])
    ]
    for client in clients:
        await client.act(ready=table_pb2.Ready(ready=True))
    left = await clients[0].until_told("seat_left")
    assert (left.player_id, left.reason) == (poor.player_id, common_pb2.REASON_BELOW_MINIMUM)
    assert (left.minimum_chips, left.balance_chips) == (100, 99)
    await until(lambda: clients[2].last("seat_left"))
    await close(clients)


async def test_who_plays_elsewhere_cannot_play_here(stack: Stack) -> None:
    players = await stack.players(count=5)
    first = await stack.open(terms("happy", clocks={"auction_ms": 60_000}), players[:3])
    second = await stack.open(terms("happy", clocks={"auction_ms": 60_000}), players[2:])
    for table_id, seated in ((first, players[:3]), (second, players[2:])):
        for player in seated:
            client = await stack.client(player.player_id, table_id).open()
            await client.act(ready=table_pb2.Ready(ready=True))
            if player is seated[-1]:
                await until(lambda: client.last("dealt") or client.last("seat_left"))  # noqa: B023
    left = client.last("seat_left")
    assert (left.player_id, left.reason) == (players[2].player_id, common_pb2.REASON_PLAYER_IN_HAND)


async def test_a_closed_table_leaves_nothing_behind(stack: Stack) -> None:
    # Alone, for others keep the logs of tables that they close for longer.
    async with table_node(
        stack.alone_url, stack.nats_url, stack.ledger_port, idle_ms=1_000, keep_ms=200, report_s=0.1, retire_s=0.1
    ) as node:
        (player,) = await stack.players(count=1)
        table_id = await stack.open_on(node.internal, terms("happy"), [player])
        client = stack.client(player.player_id, table_id)
        client.stub = node.stub
        await client.open()
        await client.act(leave=table_pb2.Leave())
        await client.close()
        store = node.service.node.store
        await until_async(lambda: is_gone(store, table_id))
        await until(lambda: table_id not in [actor.table_id for actor in node.service.node.actors()])
        assert await store.next_deadline(table_id) is None
        assert node.service.node.news.listening() == 0


async def is_gone(store: Store, table_id: str) -> bool:
    return not await store.read(table_id)


async def test_the_hand_is_settled_although_everybody_has_gone(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    await close(clients)
    await stack.nodes[0].stub.Act(
        table_pb2.ActRequest(table_id=table_id, command=table_pb2.Command(command_id="bye", leave=table_pb2.Leave())),
        metadata=(("x-player-id", ids[1]),),
    )
    await until_async(lambda: has_settled(stack, table_id))


async def has_settled(stack: Stack, table_id: str) -> bool:
    try:
        answer = await stack.hands.GetHand(ledger_pb2.GetHandRequest(hand_id=f"{table_id}-1"))
    except grpc.aio.AioRpcError:
        return False
    return answer.record.outcome.fled == 1


async def test_a_negotiated_base_on_real_servers(stack: Stack) -> None:
    players = await stack.players()
    table_id = await stack.open(terms("classic"), players)
    clients = [
        await stack.client(player.player_id, table_id, node=number % 2).open() for number, player in enumerate(players)
    ]
    refused = await clients[1].act(set_base=table_pb2.SetBase(base_chips=5))
    assert refused.refusal.reason == common_pb2.REASON_WRONG_PHASE
    refused = await clients[0].act(set_base=table_pb2.SetBase(base_chips=101))
    assert refused.refusal.reason == common_pb2.REASON_BASE_OUT_OF_BOUNDS
    await clients[0].act(set_base=table_pb2.SetBase(base_chips=5))
    await clients[1].act(answer_base=table_pb2.AnswerBase(agree=True))
    await clients[2].act(answer_base=table_pb2.AnswerBase(agree=False))
    left = await clients[0].until_told("seat_left")
    assert left.reason == common_pb2.REASON_BASE_DISAGREED
    snapshot = await look(stack.nodes[1], table_id, players[0].player_id)
    assert (snapshot.base_chips, snapshot.clock.phase) == (5, events_pb2.PHASE_SEATING)
    await close(clients)
