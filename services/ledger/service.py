"""What the process serves and what it runs in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import asyncpg
import grpc
from nats.aio.client import Client

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from services.ledger.batcher import Batcher, Limits
from services.ledger.relay import Relay
from services.ledger.servicer import LedgerInternalServicer, LedgerServicer


class LedgerService:
    """The two gRPC services of the ledger."""

    names: Sequence[str] = [service.full_name for service in ledger_pb2.DESCRIPTOR.services_by_name.values()]

    def __init__(self, reads: asyncpg.Pool, batcher: Batcher) -> None:
        self._reads = reads
        self._batcher = batcher

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the servicers."""
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(LedgerServicer(self._reads), server)
        ledger_pb2_grpc.add_LedgerInternalServiceServicer_to_server(
            LedgerInternalServicer(self._reads, self._batcher), server
        )

    async def drain(self) -> None:
        """Nothing to do: what was accepted is answered while the server waits for its calls to end."""


@contextlib.asynccontextmanager
async def running(
    dsn: str, reads: asyncpg.Pool, bus: Client, limits: Limits, connections: int
) -> AsyncIterator[LedgerService]:
    """The service with its batcher (`connections` transactions at once) and its relay at work."""
    batcher, relay = Batcher(dsn, limits), Relay(dsn, bus)
    tasks = [asyncio.create_task(relay.work())]
    tasks += [asyncio.create_task(batcher.work()) for _ in range(connections)]
    try:
        yield LedgerService(reads, batcher)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
