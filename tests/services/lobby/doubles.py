"""Stand-ins for the services next door: a table service and a ledger that keep what they are told in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from doudizhu.refusal import Refusal
from doudizhu.titles import title
from servicekit.server import ServerConfig, serving


class Ledger(ledger_pb2_grpc.LedgerInternalServiceServicer, ledger_pb2_grpc.LedgerServiceServicer):
    """Chips and ratings by player; grants count once a key. `fault` is called first and may raise."""

    names: Sequence[str] = ("ddz.ledger.v1.LedgerInternalService", "ddz.ledger.v1.LedgerService")

    def __init__(self) -> None:
        self.chips: dict[str, int] = {}
        self.rating: dict[str, int] = {}
        self.grants: dict[str, tuple[str, int]] = {}
        self.open_hands: dict[str, str] = {}
        self.fault: Callable[[], None] = lambda: None

    def register(self, server: grpc.aio.Server) -> None:
        ledger_pb2_grpc.add_LedgerInternalServiceServicer_to_server(self, server)
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self, server)

    async def drain(self) -> None:
        """Nothing to finish."""

    def _balance(self, player_id: str) -> ledger_pb2.Balance:
        rating = self.rating.get(player_id, 0)
        chips = self.chips.get(player_id, 0)
        return ledger_pb2.Balance(player_id=player_id, chips=chips, rating=rating, title=title(rating).id)

    async def Grant(self, request: ledger_pb2.GrantRequest, context: Any) -> ledger_pb2.GrantResponse:
        self.fault()
        given = self.grants.setdefault(request.key, (request.player_id, request.chips))
        if given != (request.player_id, request.chips):
            raise Refusal("KEY_CONFLICT", "Another grant has this key.")
        self.chips[request.player_id] = sum(chips for player, chips in self.grants.values() if player == given[0])
        return ledger_pb2.GrantResponse(balance=self._balance(request.player_id))

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, context: Any
    ) -> ledger_pb2.ListBalancesResponse:
        self.fault()
        return ledger_pb2.ListBalancesResponse(balances=[self._balance(player) for player in request.player_ids])

    async def GetBalance(self, request: ledger_pb2.GetBalanceRequest, context: Any) -> ledger_pb2.GetBalanceResponse:
        self.fault()
        player_id = dict(context.invocation_metadata())["x-player-id"]
        hand_id = self.open_hands.get(player_id, "")
        return ledger_pb2.GetBalanceResponse(balance=self._balance(player_id), hand_id=hand_id)

    async def ListLeaders(self, request: ledger_pb2.ListLeadersRequest, context: Any) -> ledger_pb2.ListLeadersResponse:
        by = self.chips if request.unit == "chips" else self.rating
        order = sorted(by, key=lambda player: (-by[player], player))[: request.limit or 50]
        return ledger_pb2.ListLeadersResponse(leaders=[self._balance(player) for player in order])


class TableHouse(table_pb2_grpc.TableInternalServiceServicer, table_pb2_grpc.TableServiceServicer):
    """Tables with three seats. `fault(table_id)` is called before a table opens, `after(table_id)` once it has,
    `looking(table_id)` before anybody is shown one."""

    names: Sequence[str] = ("ddz.table.v1.TableInternalService", "ddz.table.v1.TableService")

    def __init__(self) -> None:
        self.tables: dict[str, table_pb2.OpenRequest] = {}
        self.seats: dict[str, list[str]] = {}
        self.observers: dict[str, dict[str, int]] = {}
        self.opens: list[str] = []
        self.fault: Callable[[str], None] = lambda table_id: None
        self.after: Callable[[str], None] = lambda table_id: None
        self.looking: Callable[[str], None] = lambda table_id: None

    def register(self, server: grpc.aio.Server) -> None:
        table_pb2_grpc.add_TableInternalServiceServicer_to_server(self, server)
        table_pb2_grpc.add_TableServiceServicer_to_server(self, server)

    async def drain(self) -> None:
        """Nothing to finish."""

    def leave(self, table_id: str, player_id: str) -> None:
        seats = self.seats[table_id]
        seats[seats.index(player_id)] = ""

    async def Open(self, request: table_pb2.OpenRequest, context: Any) -> table_pb2.OpenResponse:
        self.opens.append(request.table_id)
        self.fault(request.table_id)
        known = self.tables.setdefault(request.table_id, request)
        if known != request:
            raise Refusal("KEY_CONFLICT", "Another table has this id.")
        self.seats.setdefault(request.table_id, ([player.player_id for player in request.players] + [""] * 3)[:3])
        self.after(request.table_id)
        return table_pb2.OpenResponse(seq=1)

    async def Sit(self, request: table_pb2.SitRequest, context: Any) -> table_pb2.SitResponse:
        seats = self.seats.get(request.table_id)
        if seats is None:
            raise Refusal("NOT_FOUND", "There is no such table.")
        player = request.player.player_id
        if player in seats:
            return table_pb2.SitResponse(seat=seats.index(player))
        if "" not in seats:
            raise Refusal("ROOM_FULL", "All three seats are taken.")
        seat = request.seat if request.HasField("seat") else seats.index("")
        if seats[seat]:
            raise Refusal("SEAT_TAKEN", "This seat is taken.", seat=seat)
        seats[seat] = player
        return table_pb2.SitResponse(seat=seat)

    async def Observe(self, request: table_pb2.ObserveRequest, context: Any) -> table_pb2.ObserveResponse:
        if request.table_id not in self.seats:
            raise Refusal("NOT_FOUND", "There is no such table.")
        self.observers.setdefault(request.table_id, {})[request.observer.player_id] = request.seat
        return table_pb2.ObserveResponse(seq=1)

    async def GetTable(self, request: table_pb2.GetTableRequest, context: Any) -> table_pb2.GetTableResponse:
        self.looking(request.table_id)
        player = dict(context.invocation_metadata())["x-player-id"]
        seats = self.seats.get(request.table_id)
        if seats is None:
            raise Refusal("NOT_FOUND", "There is no such table.")
        you = seats.index(player) if player in seats else -1
        return table_pb2.GetTableResponse(snapshot=events_pb2.Snapshot(table_id=request.table_id, you=you))


@contextlib.asynccontextmanager
async def standing(service: Any) -> AsyncIterator[str]:
    """Serves on a free port of loopback; yields the target."""
    config = ServerConfig(grpc_address="127.0.0.1:0", metrics_address="127.0.0.1:0", drain_s=0.0)
    async with serving(config, service) as port:
        yield f"127.0.0.1:{port}"
