"""A ledger database of its own for each module, and the service over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from deploy.local.servers import Postgres
from tests.services.ledger.harness import Database, Ledger, fresh_name, make_database, serve


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    made = await make_database(postgres)
    yield made
    postgres.psql(f"DROP DATABASE {made.name} WITH (FORCE)")


@pytest.fixture(scope="module")
async def ledger(database: Database, nats: str) -> AsyncIterator[Ledger]:
    async with serve(database, nats) as running_ledger:
        yield running_ledger


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """`fresh_name`."""
    return fresh_name
