"""Servers that do what a test tells them: every stream and every call is answered by the next script."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from ddz.admin.v1 import admin_pb2_grpc
from ddz.common.v1.common_pb2 import Notice, Player, Reason, Refusal
from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from ddz.table.v1.events_pb2 import Event, Snapshot
from ddz.table.v1.table_pb2 import PlayRequest, PlayResponse
from servicekit.interceptor import Guard

Requests = AsyncIterator[PlayRequest]
Script = Callable[[Requests, Any], AsyncIterator[PlayResponse]]


class ScriptedTable(table_pb2_grpc.TableServiceServicer):
    """Each stream runs the next script, the last one for ever; `firsts` are the requests that opened them."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.firsts: list[PlayRequest] = []

    async def Play(self, request_iterator: Any, context: Any) -> AsyncIterator[PlayResponse]:
        requests = aiter(request_iterator)
        self.firsts.append(await anext(requests))
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        async for frame in script(requests, context):
            yield frame


class ScriptedLobby(lobby_pb2_grpc.LobbyServiceServicer):
    """Logs everybody in; tokens count up. `calls` are the methods called, in order, with the token they carried."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.expires_at_ms = 2**53
        self.refuse_refresh = False
        self.registrations_lost = 0
        self.notice = Notice()
        self.on_list_rooms: Callable[[str, Any], Awaitable[None]] | None = None
        self._tokens = 0

    def _session(self) -> lobby_pb2.Session:
        self._tokens += 1
        return lobby_pb2.Session(
            player_id="p1",
            access_token=f"token-{self._tokens}",
            access_expires_at_ms=self.expires_at_ms,
            refresh_token=f"refresh-token-{self._tokens:04}",
        )

    def _note(self, method: str, context: Any) -> str:
        token = dict(context.invocation_metadata()).get("authorization", "")
        self.calls.append((method, token.removeprefix("Bearer ")))
        return self.calls[-1][1]

    async def Login(self, request: lobby_pb2.LoginRequest, context: Any) -> lobby_pb2.LoginResponse:
        self._note("Login", context)
        return lobby_pb2.LoginResponse(session=self._session(), player=Player(player_id="p1"), created=True)

    async def Register(self, request: lobby_pb2.RegisterRequest, context: Any) -> lobby_pb2.RegisterResponse:
        self._note("Register", context)
        if self.registrations_lost:
            self.registrations_lost -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
        return lobby_pb2.RegisterResponse(player=Player(player_id="p1"), session=self._session())

    async def Refresh(self, request: lobby_pb2.RefreshRequest, context: Any) -> lobby_pb2.RefreshResponse:
        self._note("Refresh", context)
        if self.refuse_refresh:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "used up")
        return lobby_pb2.RefreshResponse(session=self._session())

    async def ListRooms(self, request: lobby_pb2.ListRoomsRequest, context: Any) -> lobby_pb2.ListRoomsResponse:
        token = self._note("ListRooms", context)
        if self.on_list_rooms is not None:
            await self.on_list_rooms(token, context)
        return lobby_pb2.ListRoomsResponse(rooms=[lobby_pb2.Room(room_id="rob-beginner")], notice=self.notice)


def scripted_table(*scripts: Script) -> ScriptedTable:
    """The methods that no test calls stay unimplemented."""
    return ScriptedTable(*scripts)  # type: ignore[abstract]


def scripted_lobby() -> ScriptedLobby:
    """The methods that no test calls stay unimplemented."""
    return ScriptedLobby()  # type: ignore[abstract]


@contextlib.asynccontextmanager
async def serve(
    *,
    table: table_pb2_grpc.TableServiceServicer | None = None,
    lobby: lobby_pb2_grpc.LobbyServiceServicer | None = None,
    admin: admin_pb2_grpc.AdminServiceServicer | None = None,
) -> AsyncIterator[str]:
    """A gRPC server on a free port; yields its address."""
    server = grpc.aio.server(interceptors=(Guard(),))
    if table is not None:
        table_pb2_grpc.add_TableServiceServicer_to_server(table, server)
    if lobby is not None:
        lobby_pb2_grpc.add_LobbyServiceServicer_to_server(lobby, server)
    if admin is not None:
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


# ---- frames -------------------------------------------------------------------------------------------------------


def snapshot(seq: int = 0, epoch: int = 1) -> PlayResponse:
    """Three empty seats, the player on seat 0."""
    seats = [events_pb2.SeatView(seat=seat) for seat in range(3)]
    return PlayResponse(snapshot=Snapshot(table_id="t1", seq=seq, epoch=epoch, seats=seats, you=0))


def ready(seq: int, seat: int = 0, *, on: bool = True) -> Event:
    return Event(seq=seq, ready_set=events_pb2.ReadySet(seat=seat, ready=on))


def events(*found: Event) -> PlayResponse:
    return PlayResponse(events=table_pb2.Events(events=found))


def accepted(request: PlayRequest, seq: int) -> PlayResponse:
    return PlayResponse(accepted=table_pb2.Accepted(command_id=request.command.command_id, seq=seq))


def refused(request: PlayRequest, reason: Reason.ValueType, **data: str) -> PlayResponse:
    refusal = Refusal(reason=reason, message="no", field="cards", data=data)
    return PlayResponse(refused=table_pb2.Refused(command_id=request.command.command_id, refusal=refusal))


def goodbye(*, reconnect: bool, why: str = "drain") -> PlayResponse:
    return PlayResponse(goodbye=table_pb2.Goodbye(reconnect=reconnect, why=why))


def heartbeat(seq: int) -> PlayResponse:
    return PlayResponse(heartbeat=table_pb2.Heartbeat(seq=seq))
