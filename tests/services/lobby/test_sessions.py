"""Refresh tokens and log-out: what a session lives through, and what ends it."""

from __future__ import annotations

import asyncio
import os
import secrets
from datetime import timedelta

import pytest

from ddz.lobby.v1 import lobby_pb2
from servicekit import clients
from services.lobby.store import GREATEST_SESSIONS, Store, Successor
from tests.services.lobby.conftest import Person, Settle, Town, refusal_of
from tests.services.lobby.test_board import until

# How often the suite's share of races is run: `RACES=20 make test ARGS="-k races"`.

RACES = int(os.environ.get("RACES", "1"))


async def refreshed(town: Town, session: lobby_pb2.Session) -> lobby_pb2.Session:
    request = lobby_pb2.RefreshRequest(refresh_token=session.refresh_token)
    return (await town.stub.Refresh(request)).session


async def test_a_refresh_token_is_good_once(found: Settle) -> None:
    async with found(refresh_grace_s=0.0) as town:
        first = (await town.guest()).session
        second = await refreshed(town, first)
        assert second.player_id == first.player_id
        assert second.refresh_token != first.refresh_token
        assert second.access_token != first.access_token
        assert (await refusal_of(refreshed(town, first))).reason == "UNAUTHENTICATED"


async def test_a_refresh_token_that_comes_twice_ends_its_family_alone(found: Settle) -> None:
    async with found(refresh_grace_s=0.0) as town:
        key = secrets.token_hex(16)
        stolen, other = (await town.guest(key)).session, (await town.guest(key)).session
        second = await refreshed(town, stolen)
        await refusal_of(refreshed(town, stolen))
        assert (await refusal_of(refreshed(town, second))).reason == "UNAUTHENTICATED"
        await refreshed(town, other)


async def test_a_refresh_whose_answer_was_lost_is_answered_again(town: Town) -> None:
    first = (await town.guest()).session
    lost = await refreshed(town, first)
    again = await refreshed(town, first)
    assert again.refresh_token == lost.refresh_token
    third = await refreshed(town, again)
    assert third.refresh_token not in (first.refresh_token, again.refresh_token)


async def test_a_refresh_token_whose_successor_was_used_ends_its_family(town: Town) -> None:
    """Who repeats it did not lose the answer."""
    first = (await town.guest()).session
    third = await refreshed(town, await refreshed(town, first))
    for session in (first, third):
        assert (await refusal_of(refreshed(town, session))).reason == "UNAUTHENTICATED"


async def test_a_session_that_is_refreshed_again_and_again_ends_alone(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of it does not grow for ever; what it used up long ago does not count."""
    monkeypatch.setattr("services.lobby.store.GREATEST_REFRESHES", 3)
    key = secrets.token_hex(16)
    other, session = (await town.guest(key)).session, (await town.guest(key)).session
    theirs = f"lobby.session SET used_at = used_at - interval '2 days' WHERE number = {session.player_id[1:]}"
    for _ in range(3):
        session = await refreshed(town, session)
    town.postgres.psql(f"UPDATE {theirs}", "ddz")
    for _ in range(3):
        session = await refreshed(town, session)
    last = await refusal_of(refreshed(town, session))
    assert last.reason == "UNAUTHENTICATED"
    left = f"SELECT count(*) FROM lobby.session WHERE number = {session.player_id[1:]}"
    assert town.postgres.psql(left, "ddz").strip() == "1"
    await refreshed(town, other)


async def test_refreshes_at_once_give_one_session(town: Town) -> None:
    for _ in range(20):
        session = (await town.guest()).session
        answers = await asyncio.gather(*(refreshed(town, session) for _ in range(4)))
        assert len({answer.refresh_token for answer in answers}) == 1


async def test_a_refresh_token_runs_out(found: Settle) -> None:
    async with found(refresh_token_s=0) as town:
        request = lobby_pb2.RefreshRequest(refresh_token=(await town.guest()).session.refresh_token)
        assert (await refusal_of(town.stub.Refresh(request))).reason == "UNAUTHENTICATED"


async def test_sessions_that_have_run_out_are_forgotten_though_nobody_comes_back(
    town: Town, found: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.lobby.store._FORGET_AT_ONCE", 1)
    away, there = [(await town.guest()).session for _ in range(3)], (await town.guest()).session
    theirs = f"WHERE number IN ({', '.join(session.player_id[1:] for session in away)})"
    town.postgres.psql(f"UPDATE lobby.session SET expires_at = now() - interval '1 second' {theirs}", "ddz")

    async def gone() -> bool:
        return town.postgres.psql(f"SELECT count(*) FROM lobby.session {theirs}", "ddz").strip() == "0"

    async with found():
        await until(gone)
    await refreshed(town, there)


async def test_an_account_has_so_many_sessions_and_the_newest_stay(town: Town) -> None:
    key = secrets.token_hex(16)
    sessions = [(await town.guest(key)).session for _ in range(GREATEST_SESSIONS + 1)]
    assert (await refusal_of(refreshed(town, sessions[0]))).reason == "UNAUTHENTICATED"
    for session in (sessions[1], sessions[-1]):
        await refreshed(town, session)


async def test_log_out_ends_every_session(town: Town) -> None:
    key = secrets.token_hex(16)
    sessions = [await town.guest(key) for _ in range(3)]
    person = Person(town, sessions[0].player)
    await person.call("LogOut", lobby_pb2.LogOutRequest())
    for answer in sessions:
        request = lobby_pb2.RefreshRequest(refresh_token=answer.session.refresh_token)
        assert (await refusal_of(town.stub.Refresh(request))).reason == "UNAUTHENTICATED"


async def test_no_session_outlives_a_log_out_or_a_theft_that_races_a_refresh(town: Town) -> None:
    """Without the wire: what ends sessions ends the one that a refresh is just making."""
    life, none = timedelta(days=1), timedelta(0)

    def successor() -> Successor:
        return Successor(secrets.token_bytes(32), secrets.token_bytes(32))

    async with clients.postgres(town.config.postgres_dsn, connections=8) as pool:
        store = Store(pool)

        async def one(number: int, *, log_out: bool, swapped: bool) -> None:
            first, second = secrets.token_bytes(32), successor()
            await store.add_session(number, first, life)
            await store.rotate(first, second, life, none)
            ends = store.end_sessions(number) if log_out else store.rotate(first, successor(), life, none)
            renews = store.rotate(second.token_hash, successor(), life, none)
            await asyncio.gather(*([renews, ends] if swapped else [ends, renews]))
            assert await pool.fetchval("SELECT count(*) FROM lobby.session WHERE number = $1", number) == 0

        accounts = [(await store.guest(secrets.token_bytes(32), bot=False))[0] for _ in range(8)]
        for turn in range(25 * RACES):
            for log_out in (True, False):
                swapped = turn % 2 == 0
                await asyncio.gather(*(one(who.number, log_out=log_out, swapped=swapped) for who in accounts))


async def test_who_carries_no_token_is_asked_to_log_in(town: Town) -> None:
    assert (await refusal_of(town.stub.LogOut(lobby_pb2.LogOutRequest()))).reason == "UNAUTHENTICATED"
    assert (await refusal_of(town.stub.GetProfile(lobby_pb2.GetProfileRequest()))).reason == "UNAUTHENTICATED"
