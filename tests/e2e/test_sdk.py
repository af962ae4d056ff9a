"""The client against the real system: the example bot, TLS, friends at a private table, observers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator

import jwt
import pytest

from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Snapshot
from ddz.table.v1.table_pb2 import AllowObservers, GetTableRequest, Ready
from ddzclient import Gateway, Player, Refusal, Session, TableGone, TableView, find_table, house
from deploy.local.folders import ROOT
from deploy.local.stack import Stack
from tests.deploy.door import claims, key_of


@contextlib.asynccontextmanager
async def guests(stack: Stack, count: int) -> AsyncIterator[list[Session]]:
    async with Gateway(stack.address) as gateway:
        yield [await Session.guest(gateway, f"sdk-{uuid.uuid4()}") for _ in range(count)]


async def test_the_example_bot_plays(stack: Stack) -> None:
    command = [sys.executable, "docs/example_bot.py", stack.address]
    bot = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    async with asyncio.timeout(60):
        out, err = await bot.communicate()
    assert bot.returncode == 0, err.decode()
    lines = out.decode().splitlines()
    assert len(lines) == 3
    assert all(": 2 hands, " in line for line in lines)
    assert len([line for line in (ROOT / "docs" / "example_bot.py").read_text().splitlines() if line]) <= 40


async def test_the_gateway_is_reached_over_tls(stack: Stack) -> None:
    async with Gateway(stack.tls_address, root_certificates=stack.certificate) as gateway:
        session = await Session.guest(gateway, f"sdk-{uuid.uuid4()}")
        assert {room.terms.book for room in await session.rooms()} == {"classic", "happy", "rob"}
        assert (await session.balance()).chips > 0


async def test_the_same_device_key_is_the_same_guest(stack: Stack) -> None:
    key = f"sdk-{uuid.uuid4()}"
    async with Gateway(stack.address) as gateway:
        first, again = await Session.guest(gateway, key), await Session.guest(gateway, key)
        assert (first.player_id, first.created, again.created) == (again.player_id, True, False)
        await again.renew()
        assert (await again.profile()).player.player_id == first.player_id


async def test_a_stream_outlives_its_token_whatever_the_clients_clock_says(stack: Stack) -> None:
    """The stream ends with its token. By its clock the client still has a good one, and the gateway would take it."""
    async with guests(stack, 1) as [session]:
        table_id = (await session.create_table("happy-beginner")).table_id
        key_id, key = key_of(stack)
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        short = jwt.encode(claims(sub=session.player_id, exp=ends), key, algorithm="ES256", headers={"kid": key_id})
        session._tokens.access_token = short
        async with asyncio.timeout(30), session.table(table_id) as table:
            while not (table.reconnects and table.connected):  # noqa: ASYNC110, no state tells of it
                await asyncio.sleep(0.01)
            assert session._tokens.access_token != short
            await table.act(AllowObservers(allow=False))
            seat = table.state.seats[table.state.you]
            assert (seat.connected, seat.trustee, table.reconnects) == (True, False, 2)


async def test_no_bot_plays_where_it_would_not_be_marked_as_one(stack: Stack) -> None:
    async with Gateway(stack.address) as gateway:
        with pytest.raises(house.NoBots):
            await house.keep(gateway, secrets.token_bytes(32), 1)


async def test_friends_meet_at_a_private_table(stack: Stack) -> None:
    async with guests(stack, 3) as (host, *friends):
        made = await host.create_table("happy-beginner", private=True)
        with pytest.raises(Refusal):
            await friends[0].sit(made.table_id, code="0000")
        for friend in friends:
            assert await friend.table_of_code(made.code) == made.table_id
            await friend.sit(made.table_id, code=made.code)
        assert made.table_id not in {table.table_id for table in await host.tables("happy-beginner")}
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            playing = [group.create_task(play(session, made.table_id, 1)) for session in (host, *friends)]
        (hand,), *others = [task.result() for task in playing]
        assert others == [[hand], [hand]]
        assert hand.startswith(f"{made.table_id}-")  # the first, or where nobody bid a later one


async def play(session: Session, table_id: str, hands: int) -> list[str]:
    async with session.table(table_id) as table:
        return await Player().play(table, hands)


async def test_who_has_left_hears_the_last_word_and_no_more(stack: Stack) -> None:
    async with guests(stack, 3) as players:
        found = await asyncio.gather(*(find_table(player, "classic-beginner") for player in players))
        hands = await asyncio.gather(*(play(player, found[0], 1) for player in players))
        async with asyncio.timeout(20), players[0].table(found[0]) as table:
            assert [table.state.last_result.hand_id] == hands[0]
            with pytest.raises(TableGone, match=r"left|closed"):
                await table.until(lambda state: state.seq == 0)


async def test_an_observer_sees_a_hand_by_its_players_leave_alone(stack: Stack) -> None:
    async with guests(stack, 4) as (*players, observer):
        found = await asyncio.gather(*(find_table(player, "happy-beginner") for player in players))
        async with contextlib.AsyncExitStack() as tables:
            seated = [await tables.enter_async_context(player.table(found[0])) for player in players]
            await observer.observe(found[0], 1)
            watching = await tables.enter_async_context(observer.table(found[0]))
            async with asyncio.TaskGroup() as group:
                for table in seated:
                    group.create_task(Player().play(table, 1))
                await watching.until(in_play)
                assert (watching.state.you, watching.state.observing) == (1, True)
                assert not any(seat.cards.cards for seat in watching.state.seats if not seat.shown)
                with pytest.raises(Refusal) as refusal:
                    await watching.act(Ready(ready=True))
                assert refusal.value.reason == "NOT_A_PLAYER"
                player = next(table for table in seated if table.state.you == 1)
                await player.act(AllowObservers(allow=True))
                await watching.until(lambda state: bool(state.seats[1].cards.cards) or state.HasField("last_result"))
            with contextlib.suppress(TableGone):
                await watching.until(lambda state: state.HasField("last_result"))
            assert watching.state.HasField("last_result")


def in_play(state: Snapshot) -> bool:
    return state.clock.phase in (events_pb2.PHASE_BID, events_pb2.PHASE_PLAY)


class Comparing(Player):
    """Before each of its acts, while the table waits for it, it asks the table for a snapshot."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.compared = 0

    async def _act(self, table: TableView, state: Snapshot) -> None:
        if self.answer(state) is not None:
            self.compared += await matches(self._session, state)
        await super()._act(table, state)


async def test_a_view_is_what_the_table_says_when_asked(stack: Stack) -> None:
    async with guests(stack, 3) as sessions:
        found = await asyncio.gather(*(find_table(session, "classic-beginner") for session in sessions))
        async with contextlib.AsyncExitStack() as tables, asyncio.TaskGroup() as group:
            players = [Comparing(session) for session in sessions]
            for session, player in zip(sessions, players, strict=True):
                group.create_task(player.play(await tables.enter_async_context(session.table(found[0])), 1))
    assert sum(player.compared for player in players) > 10


async def matches(session: Session, state: Snapshot) -> bool:
    """Whether the table was asked at the very event that the state stands at; then both must agree."""
    before = Snapshot()
    before.CopyFrom(state)
    request = GetTableRequest(table_id=state.table_id)
    told = (await session.call(session.gateway.table.GetTable, request, table_id=state.table_id)).snapshot
    for one in (before, told):
        one.ClearField("at_ms")
        one.proof.ClearField("server_seed")
    if told.seq == before.seq:
        assert told == before
    return told.seq == before.seq
