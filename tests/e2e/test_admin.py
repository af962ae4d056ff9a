"""Operators through the real gateway: every act works and is written down, and nobody else does any."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ddz.admin.v1 import admin_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import events_pb2
from ddzclient import Gateway, Player, Refusal, Session, TableGone, TableView, find_table
from deploy.local.folders import ROOT
from deploy.local.stack import Stack
from servicekit import orders
from services.lobby import store

PASSWORD = "correct horse battery"
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


class Office:
    """A gateway with an operator who is logged in at it."""

    def __init__(self, stack: Stack, gateway: Gateway, name: str, operator: Session) -> None:
        self.stack = stack
        self.gateway = gateway
        self.name = name
        self.operator = operator

    async def do(self, call: str, act_id: str = "", **fields: Any) -> Any:
        """One act of the operator, by the name of its call."""
        request = getattr(admin_pb2, f"{call}Request")(act_id=act_id or secrets.token_hex(8), reason="a test", **fields)
        return await self.operator.call(getattr(self.gateway.admin, call), request)

    async def guest(self) -> Session:
        return await Session.guest(self.gateway, f"admin-{secrets.token_hex(8)}")

    async def acts(self) -> list[admin_pb2.Act]:
        request = admin_pb2.ListActsRequest(page_size=50)
        return list((await self.operator.call(self.gateway.admin.ListActs, request)).acts)

    async def plays_no_hand(self, table_id: str) -> bool:
        found = await self.operator.call(self.gateway.admin.ReadTable, admin_pb2.ReadTableRequest(table_id=table_id))
        return not found.live_hand_id

    async def nodes(self) -> dict[str, Any]:
        found = await self.operator.call(self.gateway.admin.ListNodes, admin_pb2.ListNodesRequest())
        return {node.node_id: node for node in found.nodes}


@pytest.fixture
async def office(stack: Stack) -> AsyncIterator[Office]:
    async with Gateway(stack.address) as gateway:
        name = f"op-{secrets.token_hex(6)}"
        await Session.register(gateway, name, PASSWORD)
        await store.appoint(stack.postgres.dsn("ddz_owner"), name)
        yield Office(stack, gateway, name, await Session.log_in(gateway, name, PASSWORD))


async def comes(what: Callable[[], Awaitable[bool]]) -> None:
    """Waits until something holds; other processes hear of orders a little later."""
    async with asyncio.timeout(60):
        while not await what():  # noqa: ASYNC110 - what is waited for is in other processes
            await asyncio.sleep(0.05)


async def refusal(call: Awaitable[Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await call
    return caught.value


async def refused_as(reason: str, call: Callable[[], Awaitable[Any]]) -> bool:
    try:
        await call()
    except Refusal as found:
        return found.reason == reason
    return False


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


async def test_a_ban_ends_by_itself(office: Office) -> None:
    key = f"admin-{secrets.token_hex(8)}"
    player = await Session.guest(office.gateway, key)
    await office.do("Ban", player_id=player.player_id, until_ms=time.time_ns() // 1_000_000 + 2_000)
    assert (await refusal(Session.guest(office.gateway, key))).reason == "BANNED"

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
    await office.do("Mute", player_id=player.player_id, until_ms=time.time_ns() // 1_000_000 + 1_000)

    async def has_its_name() -> bool:
        return (await other.profile(player.player_id)).player.display_name == "坏名字"

    await comes(has_its_name)


async def notice_in_the_lobby(session: Session) -> tuple[bool, str]:
    request = lobby_pb2.WatchLobbyRequest()
    pairs = await session.metadata()
    call: Any = session.gateway.lobby.WatchLobby(request, metadata=tuple(pairs), timeout=20)
    frame = await call.read()
    call.cancel()
    return frame.notice.maintenance, frame.notice.message


async def told(view: TableView, message: str) -> None:
    await view.until(lambda _: view.notice.message == message)


async def test_maintenance_holds_the_next_hand_and_outlives_every_process(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    late = await office.guest()
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    async with contextlib.AsyncExitStack() as doors:
        views = [await doors.enter_async_context(one.table(table_id)) for one in people]
        playing = [asyncio.create_task(Player().play(view, 3)) for view in views]
        try:
            async with asyncio.timeout(60):
                await views[0].until(lambda state: bool(state.seats[state.you].cards.cards))
            await office.do("SetMaintenance", on=True, message="back at noon")
            async with asyncio.timeout(60):
                for view in views:  # a node that has not heard of it yet may begin one more hand
                    await told(view, "back at noon")
            assert await notice_in_the_lobby(late) == (True, "back at noon")
            closed = await refusal(late.create_table("happy-beginner"))
            assert (closed.reason, closed.data["notice"]) == ("MAINTENANCE", "back at noon")
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.join("happy-beginner")))
            # The hand is played out, and no other begins.
            await comes(lambda: office.plays_no_hand(table_id))
            async with asyncio.timeout(60):
                held = await views[0].until(lambda state: state.clock.phase == events_pb2.PHASE_READY)
            names = [name for name in office.stack.fleet.names if not name.startswith("ledger")]
            await asyncio.to_thread(office.stack.fleet.restart, *names)
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.create_table("happy-beginner")))
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.join("happy-beginner")))
            assert views[0].state.hand_id == held.hand_id
        finally:
            await office.do("SetMaintenance", on=False)
        async with asyncio.timeout(60):
            hands = await asyncio.gather(*playing)
        assert hands[0] == hands[1] == hands[2]
    assert await notice_in_the_lobby(late) == (False, "")
    assert (await refusal(office.do("SetMaintenance", on=True))).field == "message"


async def test_a_drained_node_gets_no_table_while_its_hand_goes_on(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    async with contextlib.AsyncExitStack() as doors:
        views = [await doors.enter_async_context(one.table(table_id)) for one in people]
        nodes = await office.nodes()
        assert set(nodes) == {"table-1", "table-2"}
        drained = max(nodes, key=lambda name: int(nodes[name].streams))
        try:
            act_id = secrets.token_hex(8)
            told = await office.do("Drain", act_id, node_id=drained)
            assert told.node.draining
            assert told == await office.do("Drain", act_id, node_id=drained)
            async with asyncio.timeout(60):
                hands = await asyncio.gather(*(Player().play(view, 1) for view in views))
            assert hands[0] == hands[1] == hands[2]
            assert all(view.reconnects for view in views)
            held = (await office.nodes())[drained]
            assert (held.draining, held.streams) == (True, 0)
            for _ in range(4):
                one = await office.guest()
                made = await one.create_table("happy-beginner")
                async with one.table(made.table_id):
                    pass
            after = (await office.nodes())[drained]
            assert after.streams == 0
        finally:
            back = await office.do("Undrain", node_id=drained)
        assert not back.node.draining
    request = admin_pb2.DrainRequest(act_id=secrets.token_hex(8), reason="a test", node_id="table-9")
    pairs = await office.operator.metadata()
    nobody = office.gateway.call(office.gateway.admin.Drain, request, metadata=pairs, repeat=False)
    assert (await refusal(nobody)).reason == "UNAVAILABLE"


def wait(_view: object, _seat: int) -> None:
    """A policy that lets its clock run."""


async def live_hand(people: list[Session], doors: contextlib.AsyncExitStack) -> list[Any]:
    """Three at a table whose cards are dealt."""
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    views = [await doors.enter_async_context(one.table(table_id)) for one in people]
    bots = [asyncio.create_task(Player(wait).play(view, 1)) for view in views]
    doors.callback(lambda: [bot.cancel() for bot in bots])
    async with asyncio.timeout(60):
        for view in views:
            await view.until(lambda state: len(state.seats[state.you].cards.cards) == 17)
    return views


async def test_a_look_at_a_log_shows_no_card_of_a_live_hand_and_a_void_ends_it(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    chips = [(await one.balance()).chips for one in people]
    async with contextlib.AsyncExitStack() as doors:
        views = await live_hand(people, doors)
        table_id, hand_id = views[0].table_id, views[0].state.hand_id
        look = admin_pb2.ReadTableRequest(table_id=table_id)
        found = await office.operator.call(office.gateway.admin.ReadTable, look)
        assert found.live_hand_id == hand_id
        [dealt] = [event.dealt for event in found.events if event.HasField("dealt")]
        assert [(len(hand.cards), hand.count) for hand in dealt.hands] == [(0, 17)] * 3
        assert not dealt.bottom
        assert not any(event.committed.server_seed for event in found.events if event.HasField("committed"))
        assert not any(event.presence_set.connection for event in found.events if event.HasField("presence_set"))

        act_id = secrets.token_hex(8)
        first = await office.do("VoidTable", act_id, table_id=table_id)
        assert first.hand_id == hand_id
        assert first == await office.do("VoidTable", act_id, table_id=table_id)
        for view in views:
            with pytest.raises(TableGone, match="closed"):
                async with asyncio.timeout(30):
                    await view.until(lambda _: False)
        over = await office.operator.call(office.gateway.admin.ReadTable, look)
        [dealt] = [event.dealt for event in over.events if event.HasField("dealt")]
        assert [len(hand.cards) for hand in dealt.hands] == [17, 17, 17]
        assert [(await one.balance()).chips for one in people] == chips
        for one in people:  # the ledger holds nobody in the hand
            await one.create_table("happy-beginner")
    assert [act.act for act in await office.acts() if table_id in act.arguments_json] == [
        "ReadTable",
        "VoidTable",
        "ReadTable",
    ]


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
    found = (await office.do("ReloadRooms")).processes
    assert {one.process.partition("-")[0] for one in found} == {"lobby", "matchmaking"}
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
