"""A player who is logged in: his tokens, renewed before they run out, and what he can ask for away from a table."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Self, TypeVar

import grpc

from ddz.common.v1.common_pb2 import Player
from ddz.ledger.v1 import ledger_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.matchmaking.v1.matchmaking_pb2 import Ticket, TicketState
from ddzclient.backoff import Backoff
from ddzclient.client import Gateway
from ddzclient.errors import TicketEnded, is_transient, translate
from ddzclient.table import TableView
from doudizhu.refusal import Refusal

Request = TypeVar("Request")
Response = TypeVar("Response")

_RENEW_BEFORE_MS: Final = 30_000
_ENDED: Final = {TicketState.TICKET_STATE_CANCELLED, TicketState.TICKET_STATE_EXPIRED}


class Session:
    """One player at the gateway. Make it with `guest`, `log_in` or `register`; it needs no closing."""

    def __init__(self, gateway: Gateway, login: lobby_pb2.LoginRequest, answer: lobby_pb2.LoginResponse) -> None:
        self.gateway = gateway
        self.player: Player = answer.player
        self.created = answer.created
        self._login = login
        self._tokens: lobby_pb2.Session = answer.session
        self._renewing = asyncio.Lock()

    # ---- who you are ----------------------------------------------------------------------------------------------

    @classmethod
    async def guest(cls, gateway: Gateway, device_key: str) -> Self:
        """Logs in as the guest of a device key of 16 to 128 characters, his password; a new key is a new guest.

        Raises Refusal when the lobby says no, Unreachable when nobody answers in time.
        """
        return await cls._log_in(gateway, lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key=device_key)))

    @classmethod
    async def log_in(cls, gateway: Gateway, name: str, password: str) -> Self:
        """Logs in by name and password; raises Refusal BAD_CREDENTIALS, and what `guest` raises."""
        login = lobby_pb2.PasswordLogin(name=name, password=password)
        return await cls._log_in(gateway, lobby_pb2.LoginRequest(password=login))

    @classmethod
    async def register(cls, gateway: Gateway, name: str, password: str, display_name: str = "") -> Self:
        """Makes an account of 2 to 32 and a password of 8 to 128 characters; raises Refusal NAME_TAKEN besides."""
        request = lobby_pb2.RegisterRequest(name=name, password=password, display_name=display_name)
        await gateway.call(gateway.lobby.Register, request)
        return await cls.log_in(gateway, name, password)

    @classmethod
    async def _log_in(cls, gateway: Gateway, login: lobby_pb2.LoginRequest) -> Self:
        return cls(gateway, login, await gateway.call(gateway.lobby.Login, login))

    @property
    def player_id(self) -> str:
        return self.player.player_id

    async def metadata(self, table_id: str = "") -> list[tuple[str, str | bytes]]:
        """What every call carries: a token that is still good, and the table's id when it is about a table."""
        if self._tokens.access_expires_at_ms - time.time() * 1000 < _RENEW_BEFORE_MS:
            await self._renew(self._tokens)
        pairs: list[tuple[str, str | bytes]] = [("authorization", f"Bearer {self._tokens.access_token}")]
        return [*pairs, ("x-table-id", table_id)] if table_id else pairs

    async def renew(self) -> None:
        """Gets new tokens now: by the refresh token, or by logging in again when that is refused."""
        await self._renew(self._tokens)

    async def _renew(self, old: lobby_pb2.Session) -> None:
        async with self._renewing:
            if self._tokens is not old:  # somebody else has renewed them while this call waited
                return
            try:
                request = lobby_pb2.RefreshRequest(refresh_token=old.refresh_token)
                self._tokens = (await self.gateway.call(self.gateway.lobby.Refresh, request)).session
            except Refusal:
                # Used up: its answer was lost on the way, or another session has logged out everywhere.
                self._tokens = (await self.gateway.call(self.gateway.lobby.Login, self._login)).session

    async def call(
        self, rpc: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, *, table_id: str = ""
    ) -> Response:
        """One call as this player, tried again like `Gateway.call`; a token that is refused is renewed once."""
        used = self._tokens
        try:
            return await self.gateway.call(rpc, request, metadata=await self.metadata(table_id))
        except Refusal as refusal:
            if refusal.reason != "UNAUTHENTICATED":
                raise
        await self._renew(used)
        return await self.gateway.call(rpc, request, metadata=await self.metadata(table_id))

    # ---- what you can ask for -------------------------------------------------------------------------------------

    async def rooms(self) -> Sequence[lobby_pb2.Room]:
        """All rooms, with their terms."""
        return (await self.lobby()).rooms

    async def lobby(self) -> lobby_pb2.ListRoomsResponse:
        """All rooms, and what operators tell to all; with `notice.maintenance` no game can be begun."""
        return await self.call(self.gateway.lobby.ListRooms, lobby_pb2.ListRoomsRequest())

    async def balance(self) -> ledger_pb2.Balance:
        """The player's chips and rating."""
        return (await self.call(self.gateway.ledger.GetBalance, ledger_pb2.GetBalanceRequest())).balance

    async def claim_relief(self) -> ledger_pb2.ClaimReliefResponse:
        """Chips for who is broke, so many times a day; raises Refusal LIMIT_REACHED, PLAYER_IN_HAND."""
        request = ledger_pb2.ClaimReliefRequest(command_id=uuid.uuid4().hex)
        return await self.call(self.gateway.ledger.ClaimRelief, request)

    async def hand(self, hand_id: str) -> ledger_pb2.GetHandResponse:
        """Record and settlement of a settled hand; raises Refusal NOT_FOUND."""
        return await self.call(self.gateway.ledger.GetHand, ledger_pb2.GetHandRequest(hand_id=hand_id))

    async def profile(self, player_id: str = "") -> lobby_pb2.Profile:
        """A player's profile; one's own by default. Raises Refusal NOT_FOUND."""
        request = lobby_pb2.GetProfileRequest(player_id=player_id)
        return (await self.call(self.gateway.lobby.GetProfile, request)).profile

    async def tables(self, room_id: str) -> Sequence[lobby_pb2.TableSummary]:
        """The tables of a room that are not private, the first 200."""
        request = lobby_pb2.ListTablesRequest(room_id=room_id, page_size=200)
        return (await self.call(self.gateway.lobby.ListTables, request)).tables

    async def create_table(self, room_id: str, *, private: bool = False) -> lobby_pb2.CreateTableResponse:
        """Opens a table in a room of seats by choice and sits down there; a private one has a code for friends."""
        request = lobby_pb2.CreateTableRequest(room_id=room_id, request_id=uuid.uuid4().hex, private=private)
        return await self.call(self.gateway.lobby.CreateTable, request)

    async def table_of_code(self, code: str) -> str:
        """The id of the private table behind a code; raises Refusal NOT_FOUND."""
        return (await self.call(self.gateway.lobby.FindTable, lobby_pb2.FindTableRequest(code=code))).table_id

    async def sit(self, table_id: str, seat: int | None = None, code: str = "") -> int:
        """Takes a seat 0..2, or any, at a table; returns it. Raises Refusal ROOM_FULL, SEAT_TAKEN, BELOW_MINIMUM …"""
        request = lobby_pb2.SitRequest(table_id=table_id, seat=seat, code=code)
        return (await self.call(self.gateway.lobby.Sit, request, table_id=table_id)).seat

    async def observe(self, table_id: str, seat: int, code: str = "") -> None:
        """Becomes an observer of one seat 0..2 (RULES.md section 4)."""
        request = lobby_pb2.ObserveRequest(table_id=table_id, seat=seat, code=code)
        await self.call(self.gateway.lobby.Observe, request, table_id=table_id)

    async def join(self, room_id: str) -> Ticket:
        """Queues for a table of a room; the same player again gets the same ticket. Raises Refusal BELOW_MINIMUM …"""
        request = matchmaking_pb2.JoinRequest(room_id=room_id)
        return (await self.call(self.gateway.matchmaking.Join, request)).ticket

    async def quick_start(self, book: str = "") -> Ticket:
        """Queues for the best room for one's chips, of one book or of any."""
        request = matchmaking_pb2.QuickStartRequest(book=book)
        return (await self.call(self.gateway.matchmaking.QuickStart, request)).ticket

    async def cancel(self, ticket_id: str) -> Ticket:
        """Leaves the queue; raises Refusal TOO_LATE once a table was found."""
        request = matchmaking_pb2.CancelRequest(ticket_id=ticket_id)
        return (await self.call(self.gateway.matchmaking.Cancel, request)).ticket

    async def tickets(self, ticket_id: str) -> AsyncGenerator[Ticket, None]:
        """The ticket now and at every change until it ends, across lost connections. Raises Refusal NOT_FOUND."""
        backoff = Backoff()
        request = matchmaking_pb2.WatchTicketRequest(ticket_id=ticket_id)
        while True:
            used = self._tokens
            try:
                stream = self.gateway.matchmaking.WatchTicket(
                    request, metadata=grpc.aio.Metadata(*await self.metadata())
                )
                async for answer in stream:
                    backoff.reset()
                    yield answer.ticket
                    if answer.ticket.state in (TicketState.TICKET_STATE_MATCHED, *_ENDED):
                        return
            except grpc.aio.AioRpcError as failed:
                error = translate(failed)
                if isinstance(error, Refusal) and error.reason == "UNAUTHENTICATED":
                    await self._renew(used)
                elif not is_transient(error):
                    raise error from None
            await backoff.wait()

    async def matched(self, ticket_id: str) -> str:
        """Waits until a ticket has found a table; returns the table's id. Raises TicketEnded."""
        async with contextlib.aclosing(self.tickets(ticket_id)) as tickets:
            async for ticket in tickets:
                if ticket.state == TicketState.TICKET_STATE_MATCHED:
                    return ticket.table_id
                if ticket.state in _ENDED:
                    raise TicketEnded(TicketState.Name(ticket.state).removeprefix("TICKET_STATE_"))
        raise AssertionError("a ticket's stream ends with its end")

    def table(self, table_id: str) -> TableView:
        """The table as this player sees it; use it as an async context manager."""
        return TableView(self.gateway.table, table_id, self.player_id, self.metadata, self.renew)
