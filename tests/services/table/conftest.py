"""A ledger and two table nodes over it, for all tests of the table service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ddz.ledger.v1 import ledger_pb2_grpc
from deploy.local.servers import Postgres
from servicekit import clients, migrations, server
from services.ledger import service as ledger_service
from services.ledger.batcher import Limits
from tests.services.table.stack import Stack, table_node

MIGRATIONS = Path(__file__).resolve().parents[3] / "services" / "ledger" / "migrations"
_CONFIG = server.ServerConfig("127.0.0.1:0", "127.0.0.1:0", "INFO", 1.0)


@pytest.fixture(scope="session")
async def ledger_port(postgres: Postgres, nats: str) -> AsyncIterator[int]:
    """A ledger with a database of its own."""
    postgres.psql("CREATE DATABASE tables OWNER ddz_owner")
    await migrations.apply(postgres.dsn("ddz_owner", "tables"), MIGRATIONS, "ledger")
    dsn = postgres.dsn("ddz_ledger", "tables")
    async with (
        clients.postgres(dsn, connections=2) as reads,
        clients.nats_bus(nats, name="ledger") as bus,
        ledger_service.running(dsn, reads, bus, Limits(), 2) as service,
        server.serving(_CONFIG, service) as port,
    ):
        yield port


@pytest.fixture(scope="session")
async def stack(valkey: str, nats: str, ledger_port: int) -> AsyncIterator[Stack]:
    """Two nodes that serve the same tables."""
    async with (
        table_node(valkey, nats, ledger_port) as one,
        table_node(valkey, nats, ledger_port) as two,
        server.channel(f"127.0.0.1:{ledger_port}") as channel,
    ):
        yield Stack(
            [one, two],
            ledger_pb2_grpc.LedgerInternalServiceStub(channel),
            ledger_pb2_grpc.LedgerServiceStub(channel),
            valkey,
            nats,
            ledger_port,
        )
