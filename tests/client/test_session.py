"""Sessions: tokens are renewed before they end or once they are refused; calls are tried again in passing trouble."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from ddz.common.v1 import common_pb2
from ddz.common.v1.common_pb2 import Notice
from ddzclient.client import Gateway
from ddzclient.errors import ServerFault, Unreachable, refusal_from_proto
from ddzclient.session import Session
from doudizhu.refusal import Refusal
from tests.client.scripted import ScriptedLobby, scripted_lobby, serve

KEY = "a-device-key-0001"


@contextlib.asynccontextmanager
async def session_at(lobby: ScriptedLobby, timeout_s: float = 10.0) -> AsyncIterator[Session]:
    async with serve(lobby=lobby) as address, Gateway(address, timeout_s=timeout_s) as gateway:
        yield await Session.guest(gateway, KEY)


async def test_a_call_carries_the_token() -> None:
    lobby = scripted_lobby()
    async with session_at(lobby) as session:
        assert [room.room_id for room in await session.rooms()] == ["rob-beginner"]
        assert session.player_id == "p1"
        assert lobby.calls == [("Login", ""), ("ListRooms", "token-1")]


def test_a_reason_of_a_newer_server_is_a_refusal_too() -> None:
    told = common_pb2.Refusal(message="not on a Sunday")
    told.reason = 9_999  # type: ignore[assignment]  # an enum is open
    assert (refusal_from_proto(told).reason, refusal_from_proto(told).message) == ("9999", "not on a Sunday")


async def test_a_token_about_to_end_is_renewed_once_however_many_ask() -> None:
    lobby = scripted_lobby()
    lobby.expires_at_ms = 0
    async with session_at(lobby) as session:
        lobby.expires_at_ms = 2**53
        await asyncio.gather(session.rooms(), session.rooms(), session.rooms())
        assert [method for method, _ in lobby.calls].count("Refresh") == 1
        assert [token for method, token in lobby.calls if method == "ListRooms"] == ["token-2"] * 3


async def test_a_refresh_token_that_is_used_up_means_logging_in_again() -> None:
    lobby = scripted_lobby()
    lobby.refuse_refresh = True
    async with session_at(lobby) as session:
        await session.renew()
        await session.rooms()
        assert lobby.calls[1:] == [("Refresh", ""), ("Login", ""), ("ListRooms", "token-2")]


async def test_a_refused_token_is_renewed_and_the_call_repeated() -> None:
    lobby = scripted_lobby()

    async def expired(token: str, context: Any) -> None:
        if token == "token-1":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Jwt is expired")

    lobby.on_list_rooms = expired
    async with session_at(lobby) as session:
        await session.rooms()
        assert [token for method, token in lobby.calls if method == "ListRooms"] == ["token-1", "token-2"]


async def test_a_token_that_is_refused_for_good_is_a_refusal() -> None:
    lobby = scripted_lobby()

    async def banned(token: str, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    lobby.on_list_rooms = banned
    async with session_at(lobby) as session:
        with pytest.raises(Refusal) as refusal:
            await session.rooms()
        assert refusal.value.reason == "UNAUTHENTICATED"
        assert [method for method, _ in lobby.calls].count("ListRooms") == 2


async def test_passing_trouble_is_waited_out() -> None:
    lobby = scripted_lobby()
    statuses = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, None]

    async def trouble(token: str, context: Any) -> None:
        if status := statuses.pop(0):
            await context.abort(status, "later")

    lobby.on_list_rooms = trouble
    lobby.notice = Notice(maintenance=True, message="back at noon")
    async with session_at(lobby) as session:
        assert (await session.lobby()).notice == lobby.notice
        assert statuses == []


async def test_a_registration_whose_answer_is_lost_is_sent_again() -> None:
    lobby = scripted_lobby()
    lobby.registrations_lost = 2
    async with serve(lobby=lobby) as address, Gateway(address) as gateway:
        await Session.register(gateway, "anna", "a good password")
    assert [method for method, _ in lobby.calls] == ["Register", "Register", "Register", "Login"]


async def test_a_refusal_keeps_reason_field_and_data() -> None:
    lobby = scripted_lobby()

    async def refuse(token: str, context: Any) -> None:
        raise Refusal("BELOW_MINIMUM", "you need 200 chips", field="room_id", minimum_chips=200)

    lobby.on_list_rooms = refuse
    async with session_at(lobby) as session:
        with pytest.raises(Refusal, match="you need 200 chips") as refusal:
            await session.rooms()
        assert (refusal.value.reason, refusal.value.field) == ("BELOW_MINIMUM", "room_id")
        assert refusal.value.data == {"minimum_chips": "200"}


async def test_a_fault_of_the_servers_is_no_refusal_and_is_not_repeated() -> None:
    lobby = scripted_lobby()

    async def fail(token: str, context: Any) -> None:
        await context.abort(grpc.StatusCode.INTERNAL, "recorded")

    lobby.on_list_rooms = fail
    async with session_at(lobby) as session:
        with pytest.raises(ServerFault, match="recorded"):
            await session.rooms()
        assert [method for method, _ in lobby.calls].count("ListRooms") == 1


async def test_nobody_there_is_unreachable_after_the_time_allowed() -> None:
    async with serve(lobby=scripted_lobby()) as address:
        pass
    async with Gateway(address, timeout_s=0.3) as gateway:
        with pytest.raises(Unreachable):
            await Session.guest(gateway, KEY)


async def test_a_device_key_that_is_too_short_is_refused() -> None:
    async with serve(lobby=scripted_lobby()) as address, Gateway(address) as gateway:
        with pytest.raises(Refusal) as refusal:
            await Session.guest(gateway, "short")
        assert refusal.value.reason == "INVALID"
        assert refusal.value.field == "guest.device_key"
