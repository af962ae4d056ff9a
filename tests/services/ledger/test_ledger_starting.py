"""What the ledger refuses to start with, in one sentence; and its migration."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.servers import Postgres
from tests.services.ledger.harness import MIGRATIONS


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
    nowhere = {
        "DDZ_POSTGRES_DSN": "postgresql://ddz_ledger@127.0.0.1:1/ddz",
        "DDZ_NATS_URL": nats,
        "DDZ_GRPC_ADDRESS": "127.0.0.1:0",
        "DDZ_METRICS_ADDRESS": "127.0.0.1:0",
    }
    refused = run(nowhere)
    assert refused.returncode == 1
    assert "cannot start" in refused.stderr
    assert "Traceback" not in refused.stderr
