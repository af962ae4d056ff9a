"""Backup and restore: hands are played, backed up, the database is lost and restored, and the audit finds nothing."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddzclient import demo
from deploy.local import backup, ports, servers, services
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import StackError
from deploy.local.stack import Stack
from servicekit import server

HANDS = 3
ACCOUNTS = "SELECT * FROM ledger.account ORDER BY 1"
TABLES = "SELECT schemaname || '.' || relname FROM pg_stat_user_tables ORDER BY 1"


def rows(postgres: servers.Cluster) -> dict[str, str]:
    """How many rows each table has, and all balances."""
    tables = postgres.psql(TABLES, "ddz").split()
    found = {name: postgres.psql(f"SELECT count(*) FROM {name}", "ddz") for name in tables}
    return found | {"all balances": postgres.psql(ACCOUNTS, "ddz")}


async def play(stack: Stack) -> None:
    async with server.channel(stack.grpc_address("ledger"), stack.fleet.operator) as channel:
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(channel)

        async def audit() -> ledger_pb2.AuditResponse:
            return await ledger.Audit(ledger_pb2.AuditRequest(), timeout=30.0)

        report = await demo.play(stack.address, hands=HANDS, seed=8, audit=audit, console=Console(quiet=True))
    assert report.ok, report.faults


@pytest.fixture
def folder(scratch: Path) -> Path:
    path = scratch / "restored"
    path.mkdir()
    return path


def audited(leash: Leash, folder: Path, postgres: servers.Postgres, nats: str) -> subprocess.CompletedProcess[str]:
    """What `ddz admin audit` says of a ledger on this database."""
    grpc_port, metrics_port = ports.free(2)
    env = servers.environment() | {
        "DDZ_POSTGRES_DSN": postgres.dsn("ddz_ledger"),
        "DDZ_NATS_URL": nats,
        "DDZ_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}",
        "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
    }
    process = servers.run(leash, "ledger", [sys.executable, "-m", "services.ledger"], folder, env=env, cwd=ROOT)
    try:
        process.wait_until(lambda: services.is_serving(grpc_port))
        command = [sys.executable, "-m", "ddzclient.cli", "admin", f"--ledger=127.0.0.1:{grpc_port}", "audit"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    finally:
        process.stop()


async def test_a_restored_database_is_what_it_was_and_its_audit_is_clean(
    stack: Stack, leash: Leash, folder: Path, nats: str
) -> None:
    await play(stack)
    file = folder / "ddz.dump"
    before, after = {"": ""}, dict[str, str]()
    while before != after:  # the news of the hands are still on their way to the statistics
        before = rows(stack.postgres)
        backup.dump(stack.postgres, file)
        after = rows(stack.postgres)
    assert int(before["ledger.hand"]) >= HANDS
    assert file.stat().st_mode & 0o077 == 0
    (folder / "valkey").mkdir()

    aside = backup.restore(folder, file)
    assert [path.name.split(".before-")[0] for path in aside] == ["valkey"]
    with servers.postgres(leash, folder / "postgres", ports.free(1)[0]) as postgres:
        services.migrate(postgres)  # knows what has run
        assert rows(postgres) == before
        done = audited(leash, folder, postgres, nats)
        for torn in (file.read_bytes()[:-10], b"no backup", gzip.compress(b"no dump")):
            (folder / "torn.dump").write_bytes(torn)
            with pytest.raises(StackError, match=r"is not whole|pg_restore failed"):
                backup.load(postgres, folder / "torn.dump")
        assert rows(postgres) == before
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Everything holds."), done.stdout + done.stderr
    again = backup.backup(folder, None)  # of a stack that does not run
    assert again.parent == folder / "backups"
    assert abs(len(gzip.decompress(again.read_bytes())) - len(gzip.decompress(file.read_bytes()))) < 10_000


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"^There is nothing to back up in "):
        backup.backup(tmp_path, None)
    with pytest.raises(StackError, match=r"none\.dump cannot be read"):
        backup.restore(tmp_path, tmp_path / "none.dump")
