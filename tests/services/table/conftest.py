"""A ledger and two table nodes over it, for all tests of the table service."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ddz.ledger.v1 import ledger_pb2_grpc
from deploy.local import ports, servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from servicekit import server
from tests.services.table.stack import Stack, is_serving, table_node


@pytest.fixture(scope="session")
def ledger_port(leash: Leash, scratch: Path, postgres: servers.Postgres, nats: str) -> Iterator[int]:
    """The ledger as a process, with a database of its own."""
    postgres.psql("CREATE DATABASE tables OWNER ddz_owner")
    grpc_port, metrics_port = ports.free(2)
    env = servers.environment() | {
        "DDZ_POSTGRES_DSN": postgres.dsn("ddz_ledger", "tables"),
        "DDZ_POSTGRES_OWNER_DSN": postgres.dsn("ddz_owner", "tables"),
        "DDZ_NATS_URL": nats,
        "DDZ_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}",
        "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
    }
    command: list[str | Path] = [sys.executable, "-m", "services.ledger"]
    migration = servers.run(leash, "ledger-migrate", [*command, "migrate"], scratch, env=env, cwd=ROOT)
    assert migration.popen.wait() == 0, migration.tail()
    process = servers.run(leash, "ledger", command, scratch, env=env, cwd=ROOT)
    process.wait_until(lambda: is_serving(grpc_port))
    yield grpc_port
    process.stop()


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
