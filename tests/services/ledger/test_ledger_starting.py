"""What the ledger refuses to start with, in one sentence; its migration; and that it ends with nothing under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from deploy.local.servers import Postgres
from servicekit import server
from servicekit.config import ConfigError, load
from services.ledger.__main__ import Config
from services.ledger.batcher import Limits
from tests.services.ledger.harness import MIGRATIONS, SETTINGS, Database, serve
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, settle
from tests.services.ledger.test_ledger_news import eventually

NOWHERE = {"DDZ_POSTGRES_DSN": "postgresql://ddz_ledger@127.0.0.1:1/ddz", "DDZ_NATS_URL": "nats://127.0.0.1:1"}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command = [sys.executable, "-m", "services.ledger", *arguments]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def behind(postgres: Postgres) -> Iterator[str]:
    """A database that nobody has migrated."""
    name = "ledger_behind"
    postgres.psql(f"CREATE DATABASE {name} OWNER ddz_owner")
    yield name
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_it_starts_only_once_the_schema_is_up_and_says_how(behind: str, postgres: Postgres, nats: str) -> None:
    serve = {
        "DDZ_POSTGRES_DSN": postgres.dsn("ddz_ledger", behind),
        "DDZ_NATS_URL": nats,
        "DDZ_GRPC_ADDRESS": "127.0.0.1:0",
        "DDZ_METRICS_ADDRESS": "127.0.0.1:0",
    }
    refused = run(serve)
    assert refused.returncode == 1
    assert "0001_accounts.sql" in refused.stderr
    assert "run `python -m services.ledger migrate` with DDZ_POSTGRES_OWNER_DSN set" in refused.stderr
    migrate = {"DDZ_POSTGRES_OWNER_DSN": postgres.dsn("ddz_owner", behind)}
    names = ", ".join(path.name for path in sorted(Path(MIGRATIONS).glob("*.sql")))
    assert run(migrate, "migrate").stderr == f"ledger: {names}\n"
    assert run(migrate, "migrate").stderr == "ledger: nothing to do\n"
    postgres.psql("DELETE FROM ledger.migrations WHERE name = '0003_audit.sql'", behind)
    refused = run(serve)
    assert refused.returncode == 1
    assert "lacks 0003_audit.sql" in refused.stderr


def test_without_a_database_it_says_so(nats: str) -> None:
    listening = {"DDZ_GRPC_ADDRESS": "127.0.0.1:0", "DDZ_METRICS_ADDRESS": "127.0.0.1:0"}
    refused = run(NOWHERE | listening | {"DDZ_NATS_URL": nats})
    assert refused.returncode == 1
    assert "cannot start" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_relief_is_said_by_none_a_day() -> None:
    """A claim of no chips would be a fault: the database keeps no grant of nothing."""
    with pytest.raises(ConfigError, match="DDZ_RELIEF_CHIPS must be at least 1"):
        load(Config, NOWHERE | {"DDZ_RELIEF_CHIPS": "0"})
    assert load(Config, NOWHERE | {"DDZ_RELIEF_PER_DAY": "0"}).settings().relief.terms.per_day == 0


async def test_a_settlement_under_way_is_waited_for_when_it_ends(
    database: Database, nats: str, fresh: Callable[[str], str]
) -> None:
    root = await asyncpg.connect(database.dsn("postgres"))
    service = contextlib.AsyncExitStack()
    patient = replace(SETTINGS, limits=Limits(patience_s=60.0, transaction_timeout_s=60.0))
    ledger = await service.enter_async_context(serve(database, nats, patient, drain_s=60.0))
    hand_id, players = await opened(ledger, fresh)
    async with server.channel(ledger.target) as channel:
        stub = ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        async with root.transaction():
            await root.execute("SELECT FROM ledger.account WHERE player_id = $1 FOR UPDATE", players[0])
            call = asyncio.ensure_future(stub.Settle(settle(record(hand_id, players, winner="landlord", landlord=0))))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'ddz_ledger'"

            async def locked_out() -> bool:
                return bool(await root.fetchval(waits))

            async def closed() -> bool:
                async with server.channel(ledger.target) as late:
                    try:
                        await ledger_pb2_grpc.LedgerInternalServiceStub(late).ListOpenHands(
                            ledger_pb2.ListOpenHandsRequest(), timeout=1.0
                        )
                    except grpc.aio.AioRpcError:
                        return True
                    return False

            await eventually(locked_out)
            ends = asyncio.create_task(service.aclose())
            await eventually(closed)
            assert not call.done()
        assert (await call).result == ledger_pb2.RESULT_APPLIED
        await ends
    await root.close()
