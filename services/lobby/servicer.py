"""LobbyService: protobuf in, a call of the domain, protobuf out."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from servicekit.identity import address, ends_at, player_id, while_good
from services.lobby.account import number_of
from services.lobby.board import Board
from services.lobby.entry import Entry, to_player
from services.lobby.profiles import Profiles
from services.lobby.seating import Seating

_PAGE_SIZE: Final = 50


class LobbyServicer(lobby_pb2_grpc.LobbyServiceServicer):
    """The lobby's public service."""

    def __init__(self, entry: Entry, profiles: Profiles, board: Board, seating: Seating) -> None:
        self._entry = entry
        self._profiles = profiles
        self._board = board
        self._seating = seating

    # ---- the way in: no token --------------------------------------------------------------------------------------

    async def Login(self, request: lobby_pb2.LoginRequest, context: Any) -> lobby_pb2.LoginResponse:
        if request.HasField("guest"):
            account, session, created = await self._entry.guest(request.guest.device_key, _address(context))
            return lobby_pb2.LoginResponse(session=session, player=to_player(account), created=created)
        given = request.password
        account, session = await self._entry.password(given.name, given.password, _address(context))
        return lobby_pb2.LoginResponse(session=session, player=to_player(account))

    async def Register(self, request: lobby_pb2.RegisterRequest, context: Any) -> lobby_pb2.RegisterResponse:
        account, session = await self._entry.register(
            request.name, request.password, request.display_name, _address(context)
        )
        return lobby_pb2.RegisterResponse(session=session, player=to_player(account))

    async def Refresh(self, request: lobby_pb2.RefreshRequest, context: Any) -> lobby_pb2.RefreshResponse:
        return lobby_pb2.RefreshResponse(session=await self._entry.refresh(request.refresh_token))

    async def ListKeys(self, request: lobby_pb2.ListKeysRequest, context: Any) -> lobby_pb2.ListKeysResponse:
        return lobby_pb2.ListKeysResponse(keys=[lobby_pb2.Key(**key) for key in self._entry.public_keys()])

    async def LogOut(self, request: lobby_pb2.LogOutRequest, context: Any) -> lobby_pb2.LogOutResponse:
        await self._entry.log_out(number_of(player_id(context)))
        return lobby_pb2.LogOutResponse()

    # ---- rooms and tables ------------------------------------------------------------------------------------------

    async def ListRooms(self, request: lobby_pb2.ListRoomsRequest, context: Any) -> lobby_pb2.ListRoomsResponse:
        return lobby_pb2.ListRoomsResponse(rooms=self._board.rooms(), notice=self._board.notice())

    async def ListTables(self, request: lobby_pb2.ListTablesRequest, context: Any) -> lobby_pb2.ListTablesResponse:
        tables, more = self._board.page(request.room_id, request.page_token, request.page_size or _PAGE_SIZE)
        return lobby_pb2.ListTablesResponse(tables=tables, next_page_token=more)

    async def WatchLobby(
        self, request: lobby_pb2.WatchLobbyRequest, context: Any
    ) -> AsyncIterator[lobby_pb2.WatchLobbyResponse]:
        until = ends_at(context)
        async with contextlib.aclosing(self._board.watch(player_id(context), request.room_id)) as frames:
            async for frame in while_good(frames, until):
                yield frame

    async def CreateTable(self, request: lobby_pb2.CreateTableRequest, context: Any) -> lobby_pb2.CreateTableResponse:
        account = await self._profiles.account(player_id(context))
        opened, seat = await self._seating.create(
            to_player(account), request.room_id, request.request_id, private=request.private
        )
        return lobby_pb2.CreateTableResponse(table_id=opened.table_id, seat=seat, code=opened.code)

    async def FindTable(self, request: lobby_pb2.FindTableRequest, context: Any) -> lobby_pb2.FindTableResponse:
        opened = await self._seating.find(player_id(context), request.code)
        return lobby_pb2.FindTableResponse(table_id=opened.table_id, room_id=opened.room_id)

    async def Sit(self, request: lobby_pb2.SitRequest, context: Any) -> lobby_pb2.SitResponse:
        account = await self._profiles.account(player_id(context))
        wanted = request.seat if request.HasField("seat") else None
        seat = await self._seating.sit(to_player(account), request.table_id, wanted, request.code)
        return lobby_pb2.SitResponse(seat=seat)

    async def Observe(self, request: lobby_pb2.ObserveRequest, context: Any) -> lobby_pb2.ObserveResponse:
        account = await self._profiles.account(player_id(context))
        await self._seating.observe(to_player(account), request.table_id, request.seat, request.code)
        return lobby_pb2.ObserveResponse()

    # ---- people ----------------------------------------------------------------------------------------------------

    async def GetProfile(self, request: lobby_pb2.GetProfileRequest, context: Any) -> lobby_pb2.GetProfileResponse:
        caller = player_id(context)
        return lobby_pb2.GetProfileResponse(profile=await self._profiles.get(request.player_id or caller, caller))

    async def UpdateProfile(
        self, request: lobby_pb2.UpdateProfileRequest, context: Any
    ) -> lobby_pb2.UpdateProfileResponse:
        profile = await self._profiles.update(player_id(context), request.display_name, request.avatar_id)
        return lobby_pb2.UpdateProfileResponse(profile=profile)

    async def ListLeaders(self, request: lobby_pb2.ListLeadersRequest, context: Any) -> lobby_pb2.ListLeadersResponse:
        return lobby_pb2.ListLeadersResponse(leaders=await self._profiles.leaders(request.unit, request.limit))


def _address(context: Any) -> str:
    """Where the call came from, as the gateway says, or else the peer."""
    return address(context) or str(context.peer()).rsplit(":", 1)[0]
