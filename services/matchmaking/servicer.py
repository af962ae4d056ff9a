"""MatchmakingService: protobuf in, a call of the domain, protobuf out."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ddz.matchmaking.v1 import matchmaking_pb2, matchmaking_pb2_grpc
from servicekit import identity
from services.matchmaking.desk import Desk
from services.matchmaking.queue import Ticket
from services.matchmaking.watching import Watching


class MatchmakingServicer(matchmaking_pb2_grpc.MatchmakingServiceServicer):
    """Matchmaking's public service."""

    def __init__(self, desk: Desk, watching: Watching) -> None:
        self._desk = desk
        self._watching = watching

    async def Join(self, request: matchmaking_pb2.JoinRequest, context: Any) -> matchmaking_pb2.JoinResponse:
        ticket = await self._desk.join(identity.player(context), request.room_id)
        return matchmaking_pb2.JoinResponse(ticket=_to_proto(ticket))

    async def QuickStart(
        self, request: matchmaking_pb2.QuickStartRequest, context: Any
    ) -> matchmaking_pb2.QuickStartResponse:
        ticket = await self._desk.quick_start(identity.player(context), request.book)
        return matchmaking_pb2.QuickStartResponse(ticket=_to_proto(ticket))

    async def Cancel(self, request: matchmaking_pb2.CancelRequest, context: Any) -> matchmaking_pb2.CancelResponse:
        ticket = await self._desk.cancel(identity.player_id(context), request.ticket_id)
        return matchmaking_pb2.CancelResponse(ticket=_to_proto(ticket))

    async def WatchTicket(
        self, request: matchmaking_pb2.WatchTicketRequest, context: Any
    ) -> AsyncIterator[matchmaking_pb2.WatchTicketResponse]:
        ends_at = identity.ends_at(context)
        room_id = await self._desk.room_of(identity.player_id(context), request.ticket_id)
        async with contextlib.aclosing(self._watching.watch(room_id, request.ticket_id)) as tickets:
            async for ticket in identity.while_good(tickets, ends_at):
                yield matchmaking_pb2.WatchTicketResponse(ticket=_to_proto(ticket))


def _to_proto(ticket: Ticket) -> matchmaking_pb2.Ticket:
    return matchmaking_pb2.Ticket(
        ticket_id=ticket.ticket_id,
        room_id=ticket.room_id,
        state=matchmaking_pb2.TicketState.Value(f"TICKET_STATE_{ticket.state.upper()}"),
        position=ticket.position,
        waited_ms=ticket.waited_ms,
        estimate_ms=ticket.estimate_ms,
        table_id=ticket.table_id,
    )
