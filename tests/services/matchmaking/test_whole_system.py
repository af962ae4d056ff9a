"""Lobby and matchmaking on the real system: bots fill a table and play, statistics follow, seats are given once."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ddz.lobby.v1 import lobby_pb2
from ddz.table.v1 import events_pb2
from ddz.table.v1.table_pb2 import Leave
from ddzclient import Gateway, Player, Refusal, Session, find_table, house
from ddzclient.errors import TableGone
from deploy.local import folders, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from tests.chaos import chaos_seats
from tests.services.lobby.test_board import until

ROOM = "happy-beginner"
MATCHED_ROOM = "rob-beginner"


@pytest.fixture(scope="module")
def town(leash: Leash, scratch: Path) -> Iterator[whole.Stack]:
    """The whole system, where bots are allowed and fill tables after half a second."""
    folder = scratch / "matchmaking-stack"
    folder.mkdir()
    options = whole.Options(
        rooms_file=folders.ROOT / "deploy" / "rooms.fast.yaml",
        drain_s=2.0,
        extra={"DDZ_ALLOW_BOTS": "1", "DDZ_BOT_FILL_S": "0.5"},
    )
    with whole.running(leash, folder, ports.plan(ports.free(ports.count(2)), 2), options) as running:
        yield running


@contextlib.asynccontextmanager
async def guests(town: whole.Stack, count: int, *, bots: bool = False) -> AsyncIterator[list[Session]]:
    prefix = "bot:" if bots else ""
    async with Gateway(town.address) as gateway:
        yield [await Session.guest(gateway, f"{prefix}{secrets.token_hex(16)}") for _ in range(count)]


async def statistics(session: Session) -> lobby_pb2.Statistics:
    answer = await session.call(session.gateway.lobby.GetProfile, lobby_pb2.GetProfileRequest())
    return answer.profile.statistics


async def test_bots_fill_a_table_and_play_and_the_hand_is_counted(town: whole.Stack) -> None:
    async with guests(town, 1) as (person,), guests(town, 2, bots=True) as bots:
        assert all(bot.player.bot for bot in bots)
        three = [person, *bots]
        tickets = [(session, await session.join(MATCHED_ROOM)) for session in (*bots, person)]
        (table_id,) = {await session.matched(ticket.ticket_id) for session, ticket in tickets}

        async def play(session: Session) -> list[str]:
            async with session.table(table_id) as table:
                marked = {seat.player.player_id for seat in table.state.seats if seat.player.bot}
                assert marked == {bot.player_id for bot in bots}
                return await Player(seed=1).play(table, 1, lambda _: None)

        async with asyncio.timeout(60):
            played = await asyncio.gather(*(play(session) for session in three))
        assert len(played[0]) == 1

        async def counted() -> bool:
            return [(await statistics(session)).hands for session in three] == [1, 1, 1]

        await until(counted)
        found = [await statistics(session) for session in three]
        record = (await person.hand(played[0][0])).record
        assert sum(counts.landlord_hands for counts in found) == 1
        assert sum(counts.landlord_wins + counts.farmer_wins for counts in found) in (1, 2)
        winners = [counts.greatest_multiplier for counts in found if counts.greatest_multiplier]
        assert set(winners) == {record.outcome.multiplier}


async def test_bots_of_the_house_fill_one_table_after_the_other(town: whole.Stack) -> None:
    async with Gateway(town.address) as door, guests(town, 1) as (person,):
        keeping = asyncio.create_task(house.keep(door, secrets.token_bytes(32), 2, [MATCHED_ROOM]))
        try:
            async with asyncio.timeout(60):
                for _ in range(2):
                    async with person.table(await find_table(person, MATCHED_ROOM)) as table:
                        assert [seat.player.bot for seat in table.state.seats].count(True) == 2
                        assert len(await Player(seed=3).play(table, 1)) == 1
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping


async def test_bots_leave_a_table_without_people(town: whole.Stack) -> None:
    """At a table by choice, which outlives who leaves it."""
    async with Gateway(town.address) as door, guests(town, 1) as (person,):
        keeping = asyncio.create_task(house.keep(door, secrets.token_bytes(32), 2, [ROOM]))
        try:
            async with asyncio.timeout(60):
                async with person.table(await find_table(person, ROOM)) as table:
                    bots = [seat.player.player_id for seat in table.state.seats if seat.player.bot]
                    assert len(bots) == 2
                    await table.act(Leave())

                async def gone() -> bool:
                    tables = await person.tables(ROOM)
                    return not any(player.player_id in bots for table in tables for player in table.players)

                await until(gone)
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping


async def test_br_086_of_two_who_want_the_last_seat_one_gets_it(town: whole.Stack) -> None:
    """The short form of `make chaos-seats`."""
    async with guests(town, 4) as (host, second, *rivals):
        assert (await chaos_seats.race(host, second, rivals, 25)).total() == 25


async def test_br_097_a_fourth_may_watch(town: whole.Stack) -> None:
    async with guests(town, 4) as (host, *others):
        made = await host.create_table(ROOM)
        for other in others[:2]:
            await other.sit(made.table_id)
        with pytest.raises(Refusal) as refused:
            await others[2].sit(made.table_id)
        assert refused.value.reason == "ROOM_FULL"
        await others[2].observe(made.table_id, 0)
        async with others[2].table(made.table_id) as table:
            assert (table.state.you, table.state.observing) == (0, True)


async def test_br_074_br_095_one_account_has_one_seat(town: whole.Stack) -> None:
    async with guests(town, 3) as (host, other_host, person):
        made, other = await host.create_table(ROOM), await other_host.create_table(ROOM)
        seats = await asyncio.gather(*(person.sit(made.table_id) for _ in range(5)))
        assert len(set(seats)) == 1

        async def known() -> bool:
            answer = await person.call(person.gateway.lobby.GetProfile, lobby_pb2.GetProfileRequest())
            return answer.profile.table_id == made.table_id

        await until(known)
        for elsewhere in (person.sit(other.table_id), person.join(MATCHED_ROOM)):
            with pytest.raises(Refusal) as refused:
                await elsewhere
            assert (refused.value.reason, refused.value.data["table_id"]) == ("ALREADY_SEATED", made.table_id)
        async with person.table(made.table_id) as table:
            await table.act(Leave())
        assert await person.sit(other.table_id) in (0, 1, 2)


async def test_a_table_by_choice_is_listed_with_who_sits_there(town: whole.Stack) -> None:
    async with guests(town, 2) as (host, guest):
        made = await host.create_table("classic-beginner")
        await guest.sit(made.table_id)

        async def listed() -> bool:
            request = lobby_pb2.ListTablesRequest(room_id="classic-beginner", page_size=200)
            answer = await guest.call(guest.gateway.lobby.ListTables, request)
            found = {table.table_id: table for table in answer.tables}.get(made.table_id)
            if found is None:
                return False
            seated = {player.player_id for player in found.players if player.player_id}
            return seated == {host.player_id, guest.player_id} and bool(found.phase)

        await until(listed)


async def test_who_is_matched_and_asks_again_is_sent_to_his_table(town: whole.Stack) -> None:
    async with guests(town, 3) as three:
        tickets = [await session.join(MATCHED_ROOM) for session in three]
        table_id = await three[0].matched(tickets[0].ticket_id)
        again = await three[0].join(MATCHED_ROOM)
        assert (again.ticket_id, again.table_id) == (tickets[0].ticket_id, table_id)
        for session in three:
            async with session.table(table_id) as table:
                if table.state.clock.phase != events_pb2.PHASE_CLOSED:
                    with contextlib.suppress(Refusal, TableGone):
                        await table.act(Leave())


async def test_in_a_rob_room_leaving_after_the_match_is_a_flee(town: whole.Stack) -> None:
    """RULES.md section 10: base 10, multiplier 1: he pays 20, 10 to each, and all three pay the rake of 5."""
    async with guests(town, 3) as three:
        for session in three:
            await session.join(MATCHED_ROOM)
        table_id = await three[0].matched((await three[0].join(MATCHED_ROOM)).ticket_id)
        async with three[0].table(table_id) as table:
            await table.act(Leave())

        async def fled() -> bool:
            return (await statistics(three[0])).flees == 1

        await until(fled)
        assert [(await session.balance()).chips - 10_000 for session in three] == [-25, 5, 5]
