"""What a bench of the table service alone needs instead of the rest: a ledger that answers from memory, and a table
process without durability, to see what durability costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import grpc
import uvloop

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from servicekit import clients, server
from servicekit.config import load
from services.table.__main__ import Config
from services.table.effects import Ledger, Seeds
from services.table.node import Node, Settings
from services.table.service import TableService

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


class MemoryStore:
    """The interface of services.table.store.Store without a Redis; nothing survives."""

    epoch = 1

    def __init__(self) -> None:
        self._logs: dict[str, list[tuple[int, bytes]]] = {}

    async def read(self, table_id: str, after_seq: int = 0) -> list[bytes]:
        return [entry for seq, entry in self._logs.get(table_id, []) if seq > after_seq]

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

    async def cut(self, table_id: str, version: int, checkpoint: bytes) -> bool:
        return False

    async def set_deadline(self, table_id: str, version: int, deadline_ms: int | None) -> bool:
        return False

    async def say_alive(self, node_id: str, lease_s: int) -> None:
        return

    async def succeed(self, name: str, node_id: str) -> None:
        return

    async def is_alive(self, node_id: str) -> bool:
        return True


@contextlib.asynccontextmanager
async def build(config: Config) -> AsyncIterator[TableService]:
    """A table service whose log is in its memory."""
    async with (
        clients.nats_bus(config.nats_url, name=config.node_id) as bus,
        server.channel(config.ledger_target) as channel,
    ):
        stubs = ledger_pb2_grpc.LedgerInternalServiceStub(channel), ledger_pb2_grpc.LedgerServiceStub(channel)
        ledger = Ledger(*stubs)
        store: Any = MemoryStore()
        node = Node(Settings(), store, ledger, bus, Seeds(bytes.fromhex(config.deal_seed)))
        async with node.running():
            yield TableService(node)


async def ledger(port: int) -> None:
    standing = grpc.aio.server()
    ledger_pb2_grpc.add_LedgerInternalServiceServicer_to_server(cast("Any", LedgerStandIn)(), standing)
    standing.add_insecure_port(f"127.0.0.1:{port}")
    await standing.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "ledger":
        uvloop.run(ledger(int(sys.argv[2])))
    else:
        server.run("table", load(server.ServerConfig, os.environ), lambda: build(load(Config, os.environ)))
