"""The ledger service. `python -m services.ledger` serves; `python -m services.ledger migrate` brings its schema up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from servicekit import clients, migrations, server
from servicekit.config import ConfigError, load, setting
from services.ledger.batcher import Limits
from services.ledger.service import LedgerService, running

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Config:
    """What the ledger reads."""

    postgres_dsn: str = setting("DDZ_POSTGRES_DSN", "Postgres, as the role ddz_ledger")
    nats_url: str = setting("DDZ_NATS_URL", "NATS with JetStream")
    connections: int = setting("DDZ_LEDGER_CONNECTIONS", "transactions that run at once", 2)
    reads: int = setting("DDZ_LEDGER_READ_CONNECTIONS", "connections for reads", 2)
    batch: int = setting("DDZ_LEDGER_BATCH", "requests in a transaction at most", 32)
    queue: int = setting("DDZ_LEDGER_QUEUE", "requests that may wait before OVERLOADED", 4096)


@dataclass(frozen=True, slots=True)
class Migrate:
    """What `migrate` reads."""

    owner_dsn: str = setting("DDZ_POSTGRES_OWNER_DSN", "Postgres, as the role ddz_owner")


@contextlib.asynccontextmanager
async def build(config: Config) -> AsyncIterator[LedgerService]:
    """Connects, checks the schema, and runs what is in the background."""
    async with (
        clients.postgres(config.postgres_dsn, connections=config.reads) as reads,
        clients.nats_bus(config.nats_url, name="ledger") as bus,
    ):
        await migrations.check(reads, MIGRATIONS, "ledger")
        limits = Limits(batch=config.batch, queue=config.queue)
        async with running(config.postgres_dsn, reads, bus, limits, config.connections) as service:
            yield service


def main() -> None:
    """Serves or migrates, as the argument says."""
    try:
        if sys.argv[1:] == ["migrate"]:
            ran = asyncio.run(migrations.apply(load(Migrate, os.environ).owner_dsn, MIGRATIONS, "ledger"))
            print(f"ledger: {', '.join(ran) or 'nothing to do'}", file=sys.stderr)  # noqa: T201
            return
        config, server_config = load(Config, os.environ), load(server.ServerConfig, os.environ)
    except (ConfigError, OSError, migrations.MigrationError) as error:
        raise SystemExit(str(error)) from error
    server.run("ledger", server_config, lambda: build(config))


if __name__ == "__main__":
    main()
