"""Opening tables and finding seats: checks what only the lobby knows, and asks the table service, which decides."""

from __future__ import annotations

import hmac
from typing import Final

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import remote, rooms
from servicekit.orders import Orders
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from services.lobby import attempts
from services.lobby.account import Reason
from services.lobby.attempts import Attempts
from services.lobby.board import Board
from services.lobby.tables import Opened, Tables, is_private

_TIMEOUT_S: Final = 5.0


class Seating:
    """Seats by choice, and observers."""

    def __init__(
        self,
        all_rooms: Rooms,
        tables: Tables,
        board: Board,
        tries: Attempts,
        seats: Seats,
        orders: Orders,
        table: table_pb2_grpc.TableInternalServiceAsyncStub,
        ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
    ) -> None:
        self._rooms = all_rooms
        self._tables = tables
        self._board = board
        self._tries = tries
        self._seats = seats
        self._orders = orders
        self._table = table
        self._ledger = ledger

    async def create(
        self, player: common_pb2.Player, room_id: str, request_id: str, *, private: bool
    ) -> tuple[Opened, int]:
        """Opens a table and seats the player at it; a repeat of the request finds the first table and seat.

        Raises RATE_LIMITED for who opens one after the other.
        """
        self._orders.require_welcome(player.player_id)
        self._orders.require_open()
        room = self._by_choice(room_id)
        await self._tries.count(attempts.TABLE, player.player_id)
        await self._admit(room, player.player_id)
        opened = await self._tables.create(player.player_id, request_id, room_id, private=private)
        if opened.room_id != room_id or bool(opened.code) != private:
            raise Refusal("KEY_CONFLICT", "This request_id has opened another table.", field="request_id")
        _require_free(await self._seats.table_of(player), opened.table_id)
        request = table_pb2.OpenRequest(table_id=opened.table_id, terms=room.terms)
        await remote.ask(self._table.Open(request, timeout=_TIMEOUT_S, metadata=_route(opened.table_id)), "table")
        await self._tables.keep(player.player_id, request_id, opened)
        return opened, await self._sit(player, opened.table_id, None)

    async def sit(self, player: common_pb2.Player, table_id: str, seat: int | None, code: str) -> int:
        """Seats the player; the table answers ROOM_FULL or SEAT_TAKEN. Returns the seat.

        Who sits there is asked for nothing but his seat. Raises ALREADY_SEATED, with the table's id, for who sits at
        another one.
        """
        self._orders.require_welcome(player.player_id)
        seated_at = await self._seats.table_of(player)
        if seated_at == table_id:
            return await self._sit(player, table_id, seat)
        self._orders.require_open()
        room_id = await self._room_of(player.player_id, table_id, code)
        _require_free(seated_at, table_id)
        if room_id:
            await self._admit(self._by_choice(room_id), player.player_id)
        return await self._sit(player, table_id, seat)

    async def observe(self, player: common_pb2.Player, table_id: str, seat: int, code: str) -> None:
        """Makes the player an observer of a seat."""
        self._orders.require_welcome(player.player_id)
        await self._room_of(player.player_id, table_id, code)
        request = table_pb2.ObserveRequest(table_id=table_id, observer=player, seat=seat)
        await remote.ask(self._table.Observe(request, timeout=_TIMEOUT_S, metadata=_route(table_id)), "table")

    async def find(self, player_id: str, code: str) -> Opened:
        """The private table of a code; raises NOT_FOUND, and RATE_LIMITED for who guesses."""
        await self._tries.count(attempts.CODE, player_id)
        opened = await self._tables.by_code(code)
        if opened is None:
            raise Refusal(Reason.NOT_FOUND, "No table has this code.", field="code")
        await self._tries.take_back((attempts.CODE, player_id))
        return opened

    async def _sit(self, player: common_pb2.Player, table_id: str, seat: int | None) -> int:
        request = table_pb2.SitRequest(table_id=table_id, player=player, seat=seat)
        answer = await remote.ask(self._table.Sit(request, timeout=_TIMEOUT_S, metadata=_route(table_id)), "table")
        return answer.seat

    async def _room_of(self, player_id: str, table_id: str, code: str) -> str:
        """The table's room, after its code was checked; empty when only the table service can know the table.

        Raises TABLE_CLOSED, which whoever knows the table's id may know.
        """
        opened = await self._tables.get(table_id)
        if is_private(table_id):
            await self._tries.count(attempts.CODE, player_id)
            if opened is None or not hmac.compare_digest(opened.code.encode(), code.upper().encode()):
                raise Refusal(Reason.FORBIDDEN, "This table is private: give its code.", field="code")
            await self._tries.take_back((attempts.CODE, player_id))
        if opened is not None:
            return opened.room_id
        return self._board.room_of(table_id)

    def _by_choice(self, room_id: str) -> lobby_pb2.Room:
        room = self._rooms.get(room_id)
        if room.seating != lobby_pb2.SEATING_BY_CHOICE:
            raise Refusal(Reason.FORBIDDEN, "Seats in this room are given by matchmaking.", room_id=room_id)
        return room

    async def _admit(self, room: lobby_pb2.Room, player_id: str) -> None:
        request = ledger_pb2.ListBalancesRequest(player_ids=[player_id])
        answer = await remote.ask(self._ledger.ListBalances(request, timeout=_TIMEOUT_S), "ledger")
        rooms.admit(room, answer.balances[0].chips)


def _require_free(seated_at: str, table_id: str) -> None:
    if seated_at not in ("", table_id):
        raise Refusal(Reason.ALREADY_SEATED, "You sit at another table: leave it first.", table_id=seated_at)


def _route(table_id: str) -> list[tuple[str, str]]:
    """What sends a call to the node that serves the table, wherever a proxy stands between."""
    return [("x-table-id", table_id)]
