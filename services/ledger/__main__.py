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
from servicekit.config import load, setting
from services.ledger.batcher import Limits
from services.ledger.grants import ReliefTerms
from services.ledger.service import LedgerService, Settings, running
from services.ledger.servicer import Relief

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Config:
    """What the ledger reads."""

    postgres_dsn: str = setting("DDZ_POSTGRES_DSN", "Postgres, as the role ddz_ledger")
    nats_url: str = setting("DDZ_NATS_URL", "NATS with JetStream")
    connections: int = setting("DDZ_LEDGER_CONNECTIONS", "transactions that run at once", 3, least=1)
    reads: int = setting("DDZ_LEDGER_READ_CONNECTIONS", "connections for reads; an audit takes one", 3, least=2)
    batch: int = setting("DDZ_LEDGER_BATCH", "requests in a transaction at most", 128, least=1)
    queue: int = setting("DDZ_LEDGER_QUEUE", "requests that may wait before OVERLOADED", 4096, least=1)
    relief_chips: int = setting("DDZ_RELIEF_CHIPS", "what a broke player may claim", 1000, least=1)
    relief_below: int = setting("DDZ_RELIEF_BELOW_CHIPS", "who has fewer chips is broke", 1000, least=0)
    relief_per_day: int = setting("DDZ_RELIEF_PER_DAY", "claims a day; 0 = no relief", 3, least=0)
    relief_day_h: float = setting("DDZ_RELIEF_DAY_BEGINS_UTC_H", "when a day begins; -8 = midnight in Beijing", -8.0)

    def settings(self) -> Settings:
        """What the service is made with."""
        terms = ReliefTerms(self.relief_chips, self.relief_below, self.relief_per_day)
        limits = Limits(batch=self.batch, queue=self.queue)
        return Settings(self.connections, limits, Relief(terms, self.relief_day_h))


@dataclass(frozen=True, slots=True)
class Migrate:
    """What `migrate` reads."""

    owner_dsn: str = setting("DDZ_POSTGRES_OWNER_DSN", "Postgres, as the role ddz_owner")


@contextlib.asynccontextmanager
async def build(config: Config) -> AsyncIterator[LedgerService]:
    """Connects, checks the schema, and runs what is in the background."""
    async with clients.postgres(config.postgres_dsn, connections=config.reads) as reads:
        await migrations.check(reads, MIGRATIONS, "ledger")
        async with running(config.postgres_dsn, reads, config.nats_url, config.settings()) as service:
            yield service


def main() -> None:
    """Serves or migrates, as the argument says; exits 1 with one sentence when it cannot."""
    with server.one_sentence("ledger", migrations.MigrationError):
        if sys.argv[1:] == ["migrate"]:
            ran = asyncio.run(migrations.apply(load(Migrate, os.environ).owner_dsn, MIGRATIONS, "ledger"))
            print(f"ledger: {', '.join(ran) or 'nothing to do'}", file=sys.stderr)  # noqa: T201
            return
        config, server_config = load(Config, os.environ), load(server.ServerConfig, os.environ)
    server.run("ledger", server_config, lambda: build(config))


if __name__ == "__main__":
    main()
