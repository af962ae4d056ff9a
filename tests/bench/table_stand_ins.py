"""What a bench of the table service alone needs instead of the rest: a ledger that answers from memory, the lobby's
keys for a gateway, and a table process without durability, to see what durability costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final, cast

import grpc
import uvloop
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from servicekit import clients, server
from servicekit.config import load
from servicekit.orders import Orders, nothing
from services.table.__main__ import Config
from services.table.effects import Ledger, Seeds
from services.table.node import Node
from services.table.service import TableService
from services.table.settings import Settings
from services.table.steward import Steward
from services.table.store import Store
from services.table.table import Connection

CHIPS: Final = 1_000_000


class LedgerStandIn(ledger_pb2_grpc.LedgerInternalServiceServicer):
    """Everybody has a million chips before and after every hand."""

    async def OpenHand(self, request: ledger_pb2.OpenHandRequest, _context: Any) -> ledger_pb2.OpenHandResponse:
        return ledger_pb2.OpenHandResponse(carried_chips=[CHIPS] * 3)

    async def Settle(self, request: ledger_pb2.SettleRequest, _context: Any) -> ledger_pb2.SettleResponse:
        seats = [
            ledger_pb2.SeatResult(player_id=player.player_id, balance_after_chips=CHIPS)
            for player in request.record.players
        ]
        return ledger_pb2.SettleResponse(
            settlement=ledger_pb2.Settlement(hand_id=request.record.hand_id, seats=seats, settled_at_ms=1)
        )

    async def VoidHand(self, request: ledger_pb2.VoidHandRequest, _context: Any) -> ledger_pb2.VoidHandResponse:
        return ledger_pb2.VoidHandResponse()

    async def ListOpenHands(
        self, _request: ledger_pb2.ListOpenHandsRequest, _context: Any
    ) -> ledger_pb2.ListOpenHandsResponse:
        return ledger_pb2.ListOpenHandsResponse()


class LobbyStandIn(lobby_pb2_grpc.LobbyServiceServicer):
    """Tells the gateway the public halves of the keys in a file, once there is one."""

    def __init__(self, keys: Path) -> None:
        self._keys = keys

    async def ListKeys(self, _request: lobby_pb2.ListKeysRequest, _context: Any) -> lobby_pb2.ListKeysResponse:
        private = json.loads(self._keys.read_text())["keys"]
        public = [{name: value for name, value in key.items() if name != "d"} for key in private]
        return json_format.ParseDict({"keys": public}, lobby_pb2.ListKeysResponse())


class MemoryStore(Store):
    """Logs without a Redis: what a node asks for as long as it plays; nothing survives."""

    def __init__(self) -> None:
        self._logs: dict[str, list[tuple[int, bytes]]] = {}

    @property
    def epoch(self) -> int:
        return 1

    async def read(self, table_id: str, after_seq: int = 0) -> list[bytes]:
        return [entry for seq, entry in self._logs.get(table_id, []) if seq > after_seq]

    async def parts(self, table_id: str) -> list[list[bytes]]:
        return [entries] if (entries := await self.read(table_id)) else []

    async def append(
        self, table_id: str, expected: int, new: int, entry: bytes, deadline_ms: int | None, keep_ms: int | None
    ) -> bool:
        log = self._logs.setdefault(table_id, [])
        if (log[-1][0] if log else 0) != expected:
            return False
        log.append((new, entry))
        return True

    async def claim_due(self, until_ms: int, now_ms: int) -> list[str]:
        return []

    async def exists(self, table_id: str) -> bool:
        return table_id in self._logs

    async def cut(self, table_id: str, version: int, checkpoint: bytes, until_seq: int) -> bool:
        return False

    async def set_deadline(self, table_id: str, version: int, deadline_ms: int | None) -> bool:
        return False

    async def say_alive(self, node_id: str, lease_s: int) -> None:
        return

    async def succeed(self, name: str, node_id: str) -> None:
        return

    async def dead(self, streams: Iterable[Connection], here: str) -> tuple[Connection, ...]:
        return ()


@contextlib.asynccontextmanager
async def build(config: Config) -> AsyncIterator[TableService]:
    """A table service whose log is in its memory."""
    async with (
        clients.nats_bus(config.nats_url, name=config.node_id) as bus,
        server.channel(config.ledger_target) as channel,
    ):
        stubs = ledger_pb2_grpc.LedgerInternalServiceStub(channel), ledger_pb2_grpc.LedgerServiceStub(channel)
        ledger = Ledger(*stubs)
        orders = Orders(nothing)
        settings = Settings(commands_per_s=config.commands_per_s, commands_burst=config.commands_burst)
        node = Node(settings, MemoryStore(), ledger, bus, Seeds(bytes.fromhex(config.deal_seed)), orders)
        async with node.running():
            yield TableService(node, Steward(node, orders, ledger, bus))


async def ledger(port: int, keys: str = "") -> None:
    standing = grpc.aio.server()
    ledger_pb2_grpc.add_LedgerInternalServiceServicer_to_server(cast("Any", LedgerStandIn)(), standing)
    if keys:
        lobby_pb2_grpc.add_LobbyServiceServicer_to_server(cast("Any", LobbyStandIn)(Path(keys)), standing)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, standing)
        await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    standing.add_insecure_port(f"127.0.0.1:{port}")
    await standing.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "ledger":
        uvloop.run(ledger(int(sys.argv[2]), *sys.argv[3:]))
    else:
        server.run("table", load(server.ServerConfig, os.environ), lambda: build(load(Config, os.environ)))
