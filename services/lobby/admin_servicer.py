"""AdminService: who asks must be an operator, and what he has done is written down around the doing."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from ddz.admin.v1 import admin_pb2, admin_pb2_grpc
from servicekit.identity import operator_id
from services.lobby.acts import Acts
from services.lobby.admin import Admin

_PAGE_SIZE: Final = 50

Answer = TypeVar("Answer", bound=Message)


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """The operators' service."""

    def __init__(self, admin: Admin, acts: Acts) -> None:
        self._admin = admin
        self._acts = acts

    async def _operator(self, context: Any) -> str:
        """The caller's player id; raises FORBIDDEN unless both his token and the database say that he may."""
        caller = operator_id(context)
        await self._admin.require_operator(caller)
        return caller

    async def _do(
        self, request: Any, context: Any, kind: type[Answer], work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        return await self._acts.do(await self._operator(context), request.act_id, request, kind, work)

    async def Drain(self, request: admin_pb2.DrainRequest, context: Any) -> admin_pb2.DrainResponse:
        async def work() -> admin_pb2.DrainResponse:
            return admin_pb2.DrainResponse(node=await self._admin.set_draining(request.node_id, True))

        return await self._do(request, context, admin_pb2.DrainResponse, work)

    async def Undrain(self, request: admin_pb2.UndrainRequest, context: Any) -> admin_pb2.UndrainResponse:
        async def work() -> admin_pb2.UndrainResponse:
            return admin_pb2.UndrainResponse(node=await self._admin.set_draining(request.node_id, False))

        return await self._do(request, context, admin_pb2.UndrainResponse, work)

    async def Mute(self, request: admin_pb2.MuteRequest, context: Any) -> admin_pb2.MuteResponse:
        async def work() -> admin_pb2.MuteResponse:
            return admin_pb2.MuteResponse(display_name=await self._admin.mute(request.player_id, request.until_ms))

        return await self._do(request, context, admin_pb2.MuteResponse, work)

    async def Unmute(self, request: admin_pb2.UnmuteRequest, context: Any) -> admin_pb2.UnmuteResponse:
        async def work() -> admin_pb2.UnmuteResponse:
            return admin_pb2.UnmuteResponse(display_name=await self._admin.unmute(request.player_id))

        return await self._do(request, context, admin_pb2.UnmuteResponse, work)

    async def VoidTable(self, request: admin_pb2.VoidTableRequest, context: Any) -> admin_pb2.VoidTableResponse:
        async def work() -> admin_pb2.VoidTableResponse:
            return admin_pb2.VoidTableResponse(hand_id=await self._admin.void_table(request.table_id, request.reason))

        return await self._do(request, context, admin_pb2.VoidTableResponse, work)

    async def Ban(self, request: admin_pb2.BanRequest, context: Any) -> admin_pb2.BanResponse:
        async def work() -> admin_pb2.BanResponse:
            await self._admin.ban(request.player_id, request.until_ms)
            return admin_pb2.BanResponse()

        return await self._do(request, context, admin_pb2.BanResponse, work)

    async def Unban(self, request: admin_pb2.UnbanRequest, context: Any) -> admin_pb2.UnbanResponse:
        async def work() -> admin_pb2.UnbanResponse:
            await self._admin.unban(request.player_id)
            return admin_pb2.UnbanResponse()

        return await self._do(request, context, admin_pb2.UnbanResponse, work)

    async def SetMaintenance(
        self, request: admin_pb2.SetMaintenanceRequest, context: Any
    ) -> admin_pb2.SetMaintenanceResponse:
        async def work() -> admin_pb2.SetMaintenanceResponse:
            await self._admin.set_maintenance(request.on, request.message)
            return admin_pb2.SetMaintenanceResponse()

        return await self._do(request, context, admin_pb2.SetMaintenanceResponse, work)

    async def ReloadRooms(self, request: admin_pb2.ReloadRoomsRequest, context: Any) -> admin_pb2.ReloadRoomsResponse:
        async def work() -> admin_pb2.ReloadRoomsResponse:
            return await self._admin.reload_rooms()

        return await self._do(request, context, admin_pb2.ReloadRoomsResponse, work)

    async def Grant(self, request: admin_pb2.GrantRequest, context: Any) -> admin_pb2.GrantResponse:
        operator = await self._operator(context)

        async def work() -> admin_pb2.GrantResponse:
            key = f"{operator}:{request.act_id}"
            return admin_pb2.GrantResponse(chips=await self._admin.grant(key, request.player_id, request.chips))

        return await self._acts.do(operator, request.act_id, request, admin_pb2.GrantResponse, work)

    async def Reverse(self, request: admin_pb2.ReverseRequest, context: Any) -> admin_pb2.ReverseResponse:
        operator = await self._operator(context)

        async def work() -> admin_pb2.ReverseResponse:
            return await self._admin.reverse(request.hand_id, operator, request.reason)

        return await self._acts.do(operator, request.act_id, request, admin_pb2.ReverseResponse, work)

    async def ReadTable(self, request: admin_pb2.ReadTableRequest, context: Any) -> admin_pb2.ReadTableResponse:
        operator = await self._operator(context)
        found: list[admin_pb2.ReadTableResponse] = []

        async def work() -> admin_pb2.ReadTableResponse:
            found.append(await self._admin.read_table(request.table_id, request.after_seq))
            return admin_pb2.ReadTableResponse()  # that it was read is kept, not what

        await self._acts.do(operator, f"look-{secrets.token_hex(8)}", request, admin_pb2.ReadTableResponse, work)
        return found[0]

    async def ListNodes(self, request: admin_pb2.ListNodesRequest, context: Any) -> admin_pb2.ListNodesResponse:
        await self._operator(context)
        return admin_pb2.ListNodesResponse(nodes=await self._admin.nodes())

    async def ListActs(self, request: admin_pb2.ListActsRequest, context: Any) -> admin_pb2.ListActsResponse:
        await self._operator(context)
        acts, more = await self._acts.page(int(request.page_token or 0), request.page_size or _PAGE_SIZE)
        return admin_pb2.ListActsResponse(acts=acts, next_page_token=more)
