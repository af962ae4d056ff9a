"""Nobody holds open more streams than he may, and bytes that are no message are the caller's mistake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import grpc
import pytest

from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from servicekit import errors
from servicekit.server import ServerConfig, channel, serving


class Lobby(lobby_pb2_grpc.LobbyServiceServicer):
    """A stream that says one thing and then stays open."""

    names = ("ddz.lobby.v1.LobbyService",)

    def register(self, server: grpc.aio.Server) -> None:
        lobby_pb2_grpc.add_LobbyServiceServicer_to_server(self, server)

    async def drain(self) -> None:
        pass

    async def WatchLobby(self, request: Any, context: Any) -> AsyncIterator[lobby_pb2.WatchLobbyResponse]:
        yield lobby_pb2.WatchLobbyResponse(online=1)
        await asyncio.Event().wait()


@pytest.fixture
async def lobby() -> AsyncIterator[grpc.aio.Channel]:
    config = ServerConfig(
        grpc_address="127.0.0.1:0",
        metrics_address="127.0.0.1:0",
        drain_s=0.0,
        streams_per_address=3,
        streams_per_player=2,
    )
    service = cast("Any", Lobby)()  # it answers one of the service's calls only
    async with serving(config, service) as port, channel(f"127.0.0.1:{port}") as connection:
        yield connection


async def opened(lobby: grpc.aio.Channel, address: str, player: str) -> Any:
    """A stream that has said something; raises AioRpcError when it is refused."""
    metadata = (("x-forwarded-for", f"203.0.113.99, {address}"), ("x-player-id", player))
    call = lobby_pb2_grpc.LobbyServiceStub(lobby).WatchLobby(lobby_pb2.WatchLobbyRequest(), metadata=metadata)
    await call.read()
    return call


async def refused(lobby: grpc.aio.Channel, address: str, player: str) -> str:
    """The status, and of what there are too many; empty when the stream is open."""
    try:
        (await opened(lobby, address, player)).cancel()
    except grpc.aio.AioRpcError as error:
        refusal = errors.from_rpc_error(error)
        return f"{error.code().name} {refusal and refusal.data['of']}"
    return ""


async def test_an_address_and_a_player_hold_so_many_streams_and_others_are_served(lobby: grpc.aio.Channel) -> None:
    held = [await opened(lobby, "192.0.2.1", player) for player in ("p1", "p1", "p2")]
    assert await refused(lobby, "192.0.2.1", "p3") == "RESOURCE_EXHAUSTED address"
    assert await refused(lobby, "192.0.2.2", "p1") == "RESOURCE_EXHAUSTED player"
    assert await refused(lobby, "192.0.2.2", "p3") == ""
    held[0].cancel()
    deadline = time.monotonic() + 10.0
    while await refused(lobby, "192.0.2.1", "p3"):  # until the server has seen the end of that stream
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("method", ["Login", "WatchLobby"])
async def test_bytes_that_are_no_message_are_the_callers_mistake(lobby: grpc.aio.Channel, method: str) -> None:
    path = f"/ddz.lobby.v1.LobbyService/{method}"
    raw = cast("Any", lobby)
    calls: dict[str, Callable[[], Any]] = {
        "Login": lambda: raw.unary_unary(path)(b"\xff\xff\xff"),
        "WatchLobby": lambda: raw.unary_stream(path)(b"\xff\xff\xff").read(),
    }
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await calls[method]()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
