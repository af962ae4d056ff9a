"""Join, cancel, watch: what one person and three see."""

from __future__ import annotations

import asyncio

from tests.services.matchmaking.conftest import CANCELLED, MATCHED, ROOM, WAITING, Hall


async def test_three_who_join_get_one_table(hall: Hall) -> None:
    players = hall.players(3)
    tickets = [await player.join() for player in players]
    assert [ticket.ticket_id for ticket in tickets] == [f"{player.id}-1" for player in players]
    ends = await asyncio.gather(
        *(player.end_of(ticket.ticket_id) for player, ticket in zip(players, tickets, strict=True))
    )
    assert {end.state for end in ends} == {MATCHED}
    (table_id,) = {end.table_id for end in ends}
    request = hall.tables.tables[table_id]
    assert sorted(player.player_id for player in request.players) == sorted(player.id for player in players)
    assert {player.display_name for player in request.players} == {player.player.display_name for player in players}
    assert (request.terms.room_id, request.terms.matched) == (ROOM, True)


async def test_joining_twice_gives_the_same_ticket(hall: Hall) -> None:
    player = hall.player()
    first, second = await player.join(), await player.join()
    assert first.ticket_id == second.ticket_id
    assert (first.state, second.state, second.position) == (WAITING, WAITING, 1)


async def test_cancel(hall: Hall) -> None:
    player = hall.player()
    ticket = await player.join()
    assert (await player.cancel(ticket.ticket_id)).state == CANCELLED
    assert (await player.cancel(ticket.ticket_id)).state == CANCELLED
    again = await player.join()
    assert again.ticket_id == f"{player.id}-2"
