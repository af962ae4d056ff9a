"""Ledger databases, the service over one of them, and names that nobody else uses."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg

from ddz.ledger.v1 import ledger_pb2_grpc
from deploy.local.servers import Postgres
from servicekit import clients, migrations, server
from services.ledger.batcher import Limits
from services.ledger.grants import ReliefTerms
from services.ledger.service import Settings, running
from services.ledger.servicer import Relief

MIGRATIONS = Path(__file__).resolve().parents[3] / "services" / "ledger" / "migrations"
RELIEF = ReliefTerms(chips=100, below_chips=50, per_day=2)
SETTINGS = Settings(connections=2, limits=Limits(), relief=Relief(RELIEF, day_begins_utc_h=-8))
NOBODY_RELAYS = timedelta(days=1)  # the news of a ledger without a service wait as long as the test takes
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated database; `dsn(role)` connects to it."""

    server: Postgres
    name: str

    def dsn(self, role: str = "ddz_ledger") -> str:
        return self.server.dsn(role, self.name)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A running service: its stubs, its address, and a pool of the superuser for looking underneath."""

    public: ledger_pb2_grpc.LedgerServiceAsyncStub
    internal: ledger_pb2_grpc.LedgerInternalServiceAsyncStub
    target: str
    root: asyncpg.Pool


async def make_database(postgres: Postgres) -> Database:
    """A new one, migrated."""
    name = f"ledger_{next(_numbers)}"
    postgres.psql(f"CREATE DATABASE {name} OWNER ddz_owner")
    database = Database(postgres, name)
    await migrations.apply(database.dsn("ddz_owner"), MIGRATIONS, "ledger")
    return database


@contextlib.asynccontextmanager
async def serve(
    database: Database, nats_url: str, settings: Settings = SETTINGS, *, drain_s: float = 1.0
) -> AsyncIterator[Ledger]:
    """The service on a free port of loopback."""
    config = server.ServerConfig("127.0.0.1:0", "127.0.0.1:0", "INFO", drain_s)
    async with (
        clients.postgres(database.dsn(), connections=2) as reads,
        running(database.dsn(), reads, nats_url, settings) as service,
        server.serving(config, service) as port,
        server.channel(f"127.0.0.1:{port}") as channel,
        asyncpg.create_pool(database.dsn("postgres"), min_size=1, max_size=2) as root,
    ):
        yield Ledger(
            ledger_pb2_grpc.LedgerServiceStub(channel),
            ledger_pb2_grpc.LedgerInternalServiceStub(channel),
            f"127.0.0.1:{port}",
            root,
        )


def fresh_name(prefix: str) -> str:
    """A name that nobody else uses: fresh_name("hand") -> "hand-17"."""
    return f"{prefix}-{next(_numbers)}"
