"""Streams of tickets: what they tell, whose ticket ends when its streams are gone, and joins that race."""

from __future__ import annotations

import asyncio
import time

import grpc
import pytest

from ddz.matchmaking.v1 import matchmaking_pb2
from servicekit import identity
from tests.services.matchmaking.conftest import (
    CLAIMED,
    EXPIRED,
    MATCHED,
    ROOM,
    WAITING,
    Hall,
    Open,
    until,
)
from tests.services.matchmaking.test_tickets import has_table, seated

# ---- watching -------------------------------------------------------------------------------------------------------


async def test_the_stream_tells_the_place_and_the_table(hall: Hall) -> None:
    players = hall.players(3)
    first, second = [await player.join() for player in players[:2]]
    states: list[matchmaking_pb2.Ticket] = []

    async def watch() -> None:
        async for answer in players[1].watch(second.ticket_id):
            states.append(answer.ticket)  # noqa: PERF401, read while it grows

    task = asyncio.create_task(watch())
    await until(lambda: told(states, 1))
    assert (states[0].state, states[0].position, states[0].room_id) == (WAITING, 2, ROOM)
    await players[0].cancel(first.ticket_id)
    await until(lambda: first_of(states))
    assert states[-1].state == WAITING
    await seated(*players[2:], hall.player())
    await task
    assert states[-1].state == MATCHED
    assert states[-1].table_id in hall.tables.tables
    assert {state.state for state in states} <= {WAITING, CLAIMED, MATCHED}
    waits = [state.waited_ms for state in states]
    assert waits == sorted(waits)


async def test_a_stream_ends_with_the_token_that_opened_it_and_the_ticket_goes_on(hall: Hall) -> None:
    players = hall.players(3)
    ticket = await players[0].join()
    request = matchmaking_pb2.WatchTicketRequest(ticket_id=ticket.ticket_id)
    headers = [*identity.metadata(players[0].player), ("x-player-until", str(time.time() + 1.0))]
    stream = hall.stub.WatchTicket(request, metadata=headers)
    assert {answer.ticket.state async for answer in stream} == {WAITING}
    assert await stream.code() is grpc.StatusCode.OK
    end = asyncio.create_task(players[0].end_of(ticket.ticket_id))
    await seated(*players[1:], players[0])
    assert (await end).state == MATCHED


async def told(states: list[matchmaking_pb2.Ticket], count: int) -> bool:
    return len(states) >= count


async def first_of(states: list[matchmaking_pb2.Ticket]) -> bool:
    """Whether the newest state is the first place; others may come before, as places are told now and again."""
    return states[-1].position == 1


async def test_an_estimate_is_given_once_others_have_been_matched(hall: Hall) -> None:
    await seated(*hall.players(3))
    player = hall.player()
    ticket = await player.join()
    async for answer in player.watch(ticket.ticket_id):
        assert answer.ticket.estimate_ms >= 1_000
        break


async def test_a_stream_that_comes_late_is_told_the_end(hall: Hall) -> None:
    players = hall.players(3)
    table_id = await seated(*players)
    end = await players[0].end_of(f"{players[0].id}-1")
    assert (end.state, end.table_id) == (MATCHED, table_id)


async def test_an_instance_sees_what_another_one_matched(opened: Open, hall: Hall) -> None:
    async with opened(beside=hall) as other:
        players = hall.players(3)
        tickets = [await player.join() for player in players]
        watched = zip(players, tickets, (hall, other, other), strict=True)
        ends = await asyncio.gather(*(player.end_of(ticket.ticket_id, at) for player, ticket, at in watched))
        assert {end.state for end in ends} == {MATCHED}


async def test_br_077_br_085_the_close_of_a_stale_stream_changes_nothing(hall: Hall) -> None:
    player = hall.player()
    ticket = await player.join()
    stale, fresh = player.watch(ticket.ticket_id), player.watch(ticket.ticket_id)
    await stale.read()
    await fresh.read()
    stale.cancel()
    others = hall.players(2)
    await seated(*others, player)
    fresh.cancel()


async def test_br_091_a_ghost_of_the_queue_is_skipped_and_ends(opened: Open) -> None:
    async with opened(grace_s=0.3) as hall:
        ghost, *players = hall.players(4)
        ticket = await ghost.join()
        stream = ghost.watch(ticket.ticket_id)
        await stream.read()
        stream.cancel()

        async def skipped() -> bool:
            return await hall.redis.zcard(f"mm:{{{ROOM}}}:age") == 0

        await until(skipped)
        await seated(*players)
        assert hall.tables_of(ghost.id) == []

        async def ended() -> bool:
            return await hall.redis.hget(f"mm:{{{ROOM}}}:t:{ticket.ticket_id}", "state") == b"expired"

        await until(ended)
        assert (await ghost.end_of(ticket.ticket_id)).state == EXPIRED
        assert (await ghost.join()).ticket_id == f"{ghost.id}-2"


async def test_who_comes_back_in_time_keeps_his_place(hall: Hall) -> None:
    player, *others = hall.players(3)
    ticket = await player.join()
    stream = player.watch(ticket.ticket_id)
    await stream.read()
    stream.cancel()
    again = await player.join()
    assert (again.ticket_id, again.position) == (ticket.ticket_id, 1)
    await seated(player, *others)


async def test_a_ticket_without_any_sign_of_its_owner_ends(opened: Open) -> None:
    async with opened(lease_s=0.3) as hall:
        player = hall.player()
        ticket = await player.join()

        async def ended() -> bool:
            return await hall.redis.hget(f"mm:{{{ROOM}}}:t:{ticket.ticket_id}", "state") == b"expired"

        await until(ended)


async def test_nobody_waits_for_ever(opened: Open) -> None:
    async with opened(longest_s=0.5) as hall:
        player = hall.player()
        assert (await player.end_of((await player.join()).ticket_id)).state == EXPIRED


@pytest.mark.parametrize("clients_of_one", [3, 6])
async def test_br_074_br_079_one_account_from_many_clients_has_one_ticket(
    opened: Open, hall: Hall, clients_of_one: int
) -> None:
    async with opened(beside=hall) as other:
        player = hall.player()
        joins = [player.join(hall=(number % 2 and other) or hall) for number in range(clients_of_one)]
        tickets = await asyncio.gather(*joins)
        assert {ticket.ticket_id for ticket in tickets} == {f"{player.id}-1"}
        assert await hall.redis.zcard(f"mm:{{{ROOM}}}:age") == 1
        await seated(player, *hall.players(2))


async def test_br_089_two_last_joins_at_once_make_one_match(opened: Open, hall: Hall) -> None:
    async with opened(beside=hall) as other:
        for _ in range(100):
            players = hall.players(4)
            await asyncio.gather(*(player.join() for player in players[:2]))
            await asyncio.gather(players[2].join(hall=hall), players[3].join(hall=other))
            await until(lambda: has_table(hall, players[0].id))  # noqa: B023
            tables = {table for player in players for table in hall.tables_of(player.id)}
            assert len(tables) == 1
            left = [player for player in players if not hall.tables_of(player.id)]
            assert len(left) == 1
            await left[0].cancel(f"{left[0].id}-1")
