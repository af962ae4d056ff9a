"""What the process serves and what it runs in the background."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import asyncpg
import grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from servicekit.lasting import end, lasting
from services.ledger import outbox
from services.ledger.batcher import Batcher, Limits
from services.ledger.relay import Relay
from services.ledger.servicer import LedgerInternalServicer, LedgerServicer, Relief
from services.ledger.trouble import Reads


class LedgerService:
    """The two gRPC services of the ledger."""

    names: Sequence[str] = [service.full_name for service in ledger_pb2.DESCRIPTOR.services_by_name.values()]

    def __init__(self, reads: Reads, batcher: Batcher, relief: Relief) -> None:
        self._public = LedgerServicer(reads, batcher, relief)
        self._internal = LedgerInternalServicer(reads, batcher)

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the servicers."""
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self._public, server)
        ledger_pb2_grpc.add_LedgerInternalServiceServicer_to_server(self._internal, server)

    async def drain(self) -> None:
        """Nothing to do: what was accepted is answered while the server waits for its calls to end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`connections`: transactions at once."""

    connections: int
    limits: Limits
    relief: Relief


@contextlib.asynccontextmanager
async def running(dsn: str, pool: asyncpg.Pool, nats_url: str, settings: Settings) -> AsyncIterator[LedgerService]:
    """The service with its batcher and its relay at work; `pool` is for reads."""
    relay = Relay(dsn, nats_url)
    batcher = Batcher(dsn, settings.limits, relay.wake)
    reads = Reads(pool, settings.limits.patience_s)
    tasks = [asyncio.create_task(lasting("relay", relay.work))]
    tasks += [asyncio.create_task(lasting("outbox", functools.partial(outbox.watch, reads)))]
    tasks += [asyncio.create_task(lasting("batcher", batcher.work)) for _ in range(settings.connections)]
    try:
        yield LedgerService(reads, batcher, settings.relief)
    finally:
        await end(*tasks)
