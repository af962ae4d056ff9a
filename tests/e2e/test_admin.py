"""Operators through the real gateway: every act works and is written down, and nobody else does any."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ddz.admin.v1 import admin_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddzclient import Player, Session, TableGone, find_table
from deploy.local.folders import ROOT
from servicekit import orders
from services.lobby import store
from tests.e2e.office import PASSWORD, Office, comes, refusal, refused_as

HOUR_MS = 3_600_000
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Drain", {"node_id": "table-1"}),
    ("Undrain", {"node_id": "table-1"}),
    ("SetMaintenance", {"on": True, "message": "no"}),
    ("VoidTable", {"table_id": "t1"}),
    ("Mute", {"player_id": "p1", "until_ms": 1}),
    ("Unmute", {"player_id": "p1"}),
    ("Ban", {"player_id": "p1"}),
    ("Unban", {"player_id": "p1"}),
    ("Grant", {"player_id": "p1", "chips": 1}),
    ("Reverse", {"hand_id": "h1"}),
    ("ReloadRooms", {}),
]


async def test_nobody_but_an_operator_does_anything(office: Office) -> None:
    stack, admin = office.stack, office.gateway.admin
    player = await office.guest()
    name = f"op-{secrets.token_hex(6)}"
    without_claim = await Session.register(office.gateway, name, PASSWORD)  # the token is older than the office
    await store.appoint(stack.postgres.dsn("ddz_owner"), name)
    dismissed = await Session.log_in(office.gateway, name, PASSWORD)
    await store.appoint(stack.postgres.dsn("ddz_owner"), name, dismiss=True)  # the claim is there, the office is not
    forged = ("x-player-role", "operator")
    looks: list[tuple[str, dict[str, Any]]] = [("ReadTable", {"table_id": "t1"}), ("ListNodes", {}), ("ListActs", {})]
    before = len(await office.acts())
    for call, fields in REQUESTS + looks:
        request = getattr(admin_pb2, f"{call}Request")(**fields)
        if call in dict(REQUESTS):
            request.act_id, request.reason = "not-mine", "a test"
        for session in (player, without_claim, dismissed):
            pairs = [*await session.metadata(), forged]
            found = await refusal(office.gateway.call(getattr(admin, call), request, metadata=pairs))
            assert found.reason == "FORBIDDEN", call
        found = await refusal(office.gateway.call(getattr(admin, call), request, metadata=[forged]))
        assert found.reason == "UNAUTHENTICATED", call
    assert len(await office.acts()) == before


async def test_rest_is_refused_alike(office: Office) -> None:
    token = dict(await (await office.guest()).metadata())["authorization"]
    body = json.dumps({"actId": "rest", "reason": "a test", "chips": "5"}).encode()
    headers = {"authorization": str(token), "x-player-role": "operator", "content-type": "application/json"}
    path = f"http://{office.stack.address}/v1/admin/players/p1/grant"
    with pytest.raises(HTTPError) as caught:
        await asyncio.to_thread(urlopen, Request(path, body, headers))
    assert (caught.value.code, json.load(caught.value)["details"][0]["reason"]) == (403, "REASON_FORBIDDEN")


async def test_a_grant_is_given_once_and_written_down(office: Office) -> None:
    player = await office.guest()
    before = (await player.balance()).chips
    act_id = secrets.token_hex(8)
    first = await office.do("Grant", act_id, player_id=player.player_id, chips=500)
    assert first == await office.do("Grant", act_id, player_id=player.player_id, chips=500)
    assert (await player.balance()).chips == before + 500 == first.chips
    found = await refusal(office.do("Grant", act_id, player_id=player.player_id, chips=501))
    assert (found.reason, (await player.balance()).chips) == ("KEY_CONFLICT", before + 500)
    [act] = [act for act in await office.acts() if act.act_id == act_id]
    assert (act.operator_id, act.act, act.reason, act.outcome) == (office.operator.player_id, "Grant", "a test", "done")
    assert json.loads(act.arguments_json) == {"player_id": player.player_id, "chips": "500"}


async def test_an_act_that_fails_is_written_down_too_and_fails_again(office: Office) -> None:
    act_id = secrets.token_hex(8)
    for _ in range(2):
        assert (await refusal(office.do("Grant", act_id, player_id="p999999999", chips=5))).reason == "NOT_FOUND"
    [act] = [act for act in await office.acts() if act.act_id == act_id]
    assert (act.outcome, act.detail) == ("NOT_FOUND", "There is no such player.")


async def test_nothing_that_is_written_down_can_be_changed(office: Office) -> None:
    await office.do("ReloadRooms")
    for change in ("UPDATE lobby.act SET reason = ''", "DELETE FROM lobby.outcome", "TRUNCATE lobby.outcome"):
        with pytest.raises(Exception, match="append-only"):
            await asyncio.to_thread(office.stack.postgres.psql, change, "ddz")


async def test_who_is_banned_is_out_everywhere_until_it_ends(office: Office) -> None:
    key = f"admin-{secrets.token_hex(8)}"
    player = await Session.guest(office.gateway, key)
    until_ms = time.time_ns() // 1_000_000 + HOUR_MS
    ticket = await player.join("happy-beginner")
    await office.do("Ban", player_id=player.player_id, until_ms=until_ms)
    again = await refusal(Session.guest(office.gateway, key))
    assert (again.reason, again.data["until_ms"]) == ("BANNED", str(until_ms))
    request = lobby_pb2.RefreshRequest(refresh_token=player._tokens.refresh_token)
    assert (await refusal(office.gateway.call(office.gateway.lobby.Refresh, request))).reason == "BANNED"
    # The token is still good, and of no use.
    assert (await refusal(player.create_table("happy-beginner"))).reason == "BANNED"
    await comes(lambda: refused_as("BANNED", lambda: player.quick_start()))
    async with asyncio.timeout(30):
        states = [one.state async for one in player.tickets(ticket.ticket_id)]
    assert states[-1] == matchmaking_pb2.TICKET_STATE_CANCELLED
    await office.do("Unban", player_id=player.player_id)
    await Session.guest(office.gateway, key)


async def ends_now(office: Office, what: str, player_id: str) -> None:
    """Brings the end of a ban or a mute to now, as if the time had passed."""
    now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    ended = f"UPDATE lobby.account SET {what}_until_ms = {now} WHERE number = {player_id.removeprefix('p')}"
    await asyncio.to_thread(office.stack.postgres.psql, ended, "ddz")


async def test_a_ban_ends_by_itself(office: Office) -> None:
    key = f"admin-{secrets.token_hex(8)}"
    player = await Session.guest(office.gateway, key)
    await office.do("Ban", player_id=player.player_id, until_ms=time.time_ns() // 1_000_000 + HOUR_MS)
    assert (await refusal(Session.guest(office.gateway, key))).reason == "BANNED"
    await ends_now(office, "banned", player.player_id)

    async def is_back() -> bool:
        return not await refused_as("BANNED", lambda: Session.guest(office.gateway, key))

    await comes(is_back)
    past = await refusal(office.do("Ban", player_id=player.player_id, until_ms=1))
    assert (past.reason, past.field) == ("INVALID", "until_ms")


async def test_a_trustee_plays_for_who_is_banned_at_a_table(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    async with people[0].table(table_id) as out, people[1].table(table_id) as seen:
        await office.do("Ban", player_id=people[0].player_id)
        with pytest.raises(TableGone, match="banned"):
            async with asyncio.timeout(30):
                await out.until(lambda _: False)
        seat = out.state.you
        async with asyncio.timeout(30):
            await seen.until(lambda state: bool(state.seats[seat].trustee) and not state.seats[seat].connected)


async def test_who_is_muted_has_a_neutral_name_until_it_ends(office: Office) -> None:
    player, other = await office.guest(), await office.guest()
    rename = lobby_pb2.UpdateProfileRequest(display_name="坏名字", avatar_id=1)
    await player.call(office.gateway.lobby.UpdateProfile, rename)
    neutral = orders.neutral_name(player.player_id)
    until_ms = time.time_ns() // 1_000_000 + HOUR_MS
    muted = await office.do("Mute", player_id=player.player_id, until_ms=until_ms)
    assert muted.display_name == neutral
    for who in (player, other):
        assert (await who.profile(player.player_id)).player.display_name == neutral
    kept = await refusal(player.call(office.gateway.lobby.UpdateProfile, rename))
    assert (kept.reason, kept.data["until_ms"]) == ("FORBIDDEN", str(until_ms))
    table = await player.create_table("happy-beginner")
    async with player.table(table.table_id) as view:
        assert view.state.seats[view.state.you].player.display_name == neutral
    assert (await office.do("Unmute", player_id=player.player_id)).display_name == "坏名字"
    assert (await other.profile(player.player_id)).player.display_name == "坏名字"
    await office.do("Mute", player_id=player.player_id, until_ms=time.time_ns() // 1_000_000 + HOUR_MS)
    assert (await other.profile(player.player_id)).player.display_name == neutral
    await ends_now(office, "muted", player.player_id)

    async def has_its_name() -> bool:
        return (await other.profile(player.player_id)).player.display_name == "坏名字"

    await comes(has_its_name)


async def test_a_settlement_is_reversed_once(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    chips = [(await one.balance()).chips for one in people]
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()

    async def play(one: Session) -> list[str]:
        async with one.table(table_id) as view:
            return await Player().play(view, 1)

    async with asyncio.timeout(60):
        [hand_id], *_ = await asyncio.gather(*map(play, people))
    first = await office.do("Reverse", hand_id=hand_id)
    second = await office.do("Reverse", hand_id=hand_id)  # another act: the ledger knows it all the same
    assert first == second
    assert [(await one.balance()).chips for one in people] == chips


async def test_every_process_that_has_rooms_reads_them(office: Office) -> None:
    found: list[Any] = []

    async def all_have_answered() -> bool:  # one that is slow for a second does so the next time
        found[:] = (await office.do("ReloadRooms")).processes
        return {one.process.partition("-")[0] for one in found} == {"lobby", "matchmaking"}

    await comes(all_have_answered)
    assert {tuple(one.room_ids) for one in found} == {tuple(room.room_id for room in await office.operator.rooms())}
    assert not any(one.error for one in found)


async def test_the_command_does_it_by_an_operators_log_in(office: Office) -> None:
    player = await office.guest()
    environment = os.environ | {"DDZ_OPERATOR": office.name, "DDZ_OPERATOR_PASSWORD": PASSWORD}

    async def ddz(*arguments: str, env: dict[str, str] = environment) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "ddzclient.cli", "admin", *arguments, "--server", office.stack.address]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=env, **pipes)
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    code, out, err = await ddz("grant", player.player_id, "7", "--reason", "a test")
    assert (code, out, err) == (0, f"{player.player_id} has {(await player.balance()).chips} chips.\n", "")
    code, out, _ = await ddz("mute", player.player_id, "--until", "1h", "--reason", "a test")
    assert (code, out.startswith(f"{player.player_id} is called {orders.neutral_name(player.player_id)} until")) == (
        0,
        True,
    )
    code, out, _ = await ddz("acts")
    assert code == 0
    assert f"{office.operator.player_id} Mute" in out
    code, _, err = await ddz("unban", "p999999999", "--reason", "a test")
    assert (code, err) == (1, f"ddz admin unban: {office.stack.address}: 找不到 There is no such player.\n")
    code, _, err = await ddz("nodes", env=environment | {"DDZ_OPERATOR": ""})
    assert (code, err) == (2, "ddz admin nodes: Who are you? Give --name, or set DDZ_OPERATOR.\n")
    code, _, err = await ddz("nodes", env=environment | {"DDZ_OPERATOR_PASSWORD": ""})
    words = "There is no terminal to ask for the password: set DDZ_OPERATOR_PASSWORD."
    assert (code, err) == (2, f"ddz admin nodes: {words}\n")


async def test_appointing_is_a_command_next_to_the_database(office: Office) -> None:
    name = f"op-{secrets.token_hex(6)}"
    environment = os.environ | {"DDZ_POSTGRES_OWNER_DSN": office.stack.postgres.dsn("ddz_owner")}

    def lobby(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "services.lobby", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    absent = await asyncio.to_thread(lobby, "appoint", name)
    assert absent == (1, f"lobby: There is no account named {name}: register it first.\n")
    player = await Session.register(office.gateway, name, PASSWORD)
    assert await asyncio.to_thread(lobby, "appoint", name) == (
        0,
        f"lobby: {name} ({player.player_id}) is an operator\n",
    )
    spared = await refusal(office.do("Ban", player_id=player.player_id))
    assert spared.reason == "FORBIDDEN"
