"""A Postgres to measure beside its own benchmark: set as an operator would, with pgbench's tables in it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import account, ports, servers
from deploy.local.leash import Leash

TPCB_CLIENTS, TPCB_SCALE, TPCB_S = 8, 10, 4

# What an operator sets on a machine that is the ledger's own; pgbench gets the same server. Everything that makes a
# commit durable stays as Postgres ships it.
SETTINGS = ("shared_buffers=1GB", "min_wal_size=2GB", "max_wal_size=8GB", "checkpoint_timeout=30min")
WAL_MB = 1_500
_START_S = 60.0


@dataclass
class Postgres:
    """The server under test."""

    local: servers.Postgres
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds of all the server's processes, those that have ended among them."""
        ticks = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if self.pid in (int(entry.name), int(fields[1])):
                        ticks += int(fields[11]) + int(fields[12])
                        if int(entry.name) == self.pid:
                            ticks += int(fields[13]) + int(fields[14])  # of children that it has waited for
        return ticks / os.sysconf("SC_CLK_TCK")

    def pgbench(self, *arguments: str) -> str:
        """Runs pgbench as the superuser in the database `tpcb`."""
        environment = servers.environment() | {"PGPASSWORD": self.local.passwords["postgres"]}
        command = [str(self.local.bin / "pgbench"), "-h", "127.0.0.1", "-p", str(self.local.port), "-U", "postgres"]
        command += [*arguments, "tpcb"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def postgres(leash: Leash, folder: Path) -> Iterator[Postgres]:
    """The stack's own Postgres, started again with SETTINGS."""
    with servers.postgres(leash, folder, ports.free(1)[0]) as local:
        local.process.stop(signal.SIGINT)
        argv: Any = local.process.popen.args
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        user = account.run_as(account.unprivileged())
        log = folder / "bench.log"
        child = leash.start([*argv, *options], log=log, cwd=folder, env=servers.environment(), user=user)
        asking = [str(local.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(local.port)]
        deadline = time.monotonic() + _START_S
        while subprocess.run(asking, check=False).returncode:
            if child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"Postgres did not start with {', '.join(SETTINGS)}:\n{log.read_text()}")
            time.sleep(0.05)  # pg_isready asks once
        yield Postgres(local, child.pid)
        child.send_signal(signal.SIGINT)
        child.wait()


def have_written(pg: Postgres) -> None:
    """Fills WAL and checkpoints, which leaves WAL_MB of segments to be used again, as a server has that has run.

    One that has just begun makes and syncs a new segment every 16 MB: everybody waits some 60 ms, twice a second.
    """
    pg.local.psql(f"SELECT pg_logical_emit_message(false, '', repeat(' ', 1000000)) FROM generate_series(1, {WAL_MB})")
    pg.local.psql("CHECKPOINT")


def prepare(pg: Postgres) -> None:
    """Makes the tables of TPC-B."""
    pg.local.psql("CREATE DATABASE tpcb")
    pg.pgbench("-i", "-q", "-s", str(TPCB_SCALE))
    have_written(pg)


def tpcb(pg: Postgres) -> float:
    """Transactions a second of pgbench's TPC-B."""
    printed = pg.pgbench("-c", str(TPCB_CLIENTS), "-j", "2", "-T", str(TPCB_S), "-n")
    found = re.search(r"tps = ([0-9.]+)", printed)
    assert found, printed
    return float(found[1])
