"""What breaks in a whole system, by a seeded schedule: kills, pauses, cut connections, a full disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
from redis.asyncio import Redis
from redis.exceptions import RedisError

from deploy.local import account, ports, servers, stack
from deploy.local.leash import Leash
from deploy.local.process import Process, StackError
from tests.e2e.proxy import Proxy

EVERY_S: Final = (2.0, 5.0)
PAUSE_S: Final = (0.3, 2.5)
FULL_S: Final = 3.0
_BACK_WITHIN_S: Final = 60.0
DISK_BYTES: Final = 512 * 2**20


@dataclass
class Server:
    """A server of the stack, which can be started again just as it was."""

    process: Process
    environment: Mapping[str, str]
    user: account.Account | None
    ready: Callable[[], bool]

    def again(self, leash: Leash) -> None:
        """Kills it, and returns when it answers anew."""
        assert isinstance(self.process.popen.args, list)
        argv = [str(part) for part in self.process.popen.args]
        self.process.popen.kill()
        self.process.popen.wait()
        until = time.monotonic() + _BACK_WITHIN_S
        while True:
            folder = self.process.log.parent
            self.process = servers.run(leash, self.process.name, argv, folder, env=self.environment, user=self.user)
            try:
                self.process.wait_until(self.ready, _BACK_WITHIN_S)
                return
            except StackError:  # Postgres will not start while a backend of the killed one still ends
                if time.monotonic() > until:
                    raise


class Wreck:
    """Breaks one thing after the other, each sort in turn and in an order of its own, until it is cancelled.

    `clients` is what clients come through. `calm` afterwards sees that all runs.
    """

    def __init__(self, leash: Leash, running: stack.Stack, clients: Proxy, disk: Path | None, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._leash, self._running, self._clients, self._disk = leash, running, clients, disk
        self._rng = random.Random(seed)
        self._servers = {name: self._server(name) for name in ("Postgres", "Valkey", "NATS", "Envoy")}
        self._paused: Process | None = None

    def _server(self, name: str) -> Server:
        process = next(one for one in self._running.processes if one.name == name)
        ready = {
            "Postgres": lambda: self._answers(self._running.postgres.port),
            "Valkey": lambda: self._answers(self._running.ports.valkey),
            "NATS": lambda: self._answers(self._running.ports.nats),
            "Envoy": lambda: self._answers(self._running.ports.gateway),
        }[name]
        user = None if name != "Postgres" else account.unprivileged()
        return Server(process, servers.environment("C" if name == "Postgres" else "C.UTF-8"), user, ready)

    @staticmethod
    def _answers(port: int) -> bool:
        return not ports.is_free(port)

    @property
    def names(self) -> list[str]:
        """Everything that can be killed and paused."""
        return [*self._running.fleet.names, *self._servers]

    async def work(self) -> None:
        """Breaks and mends until cancelled."""
        works: list[Callable[[], Awaitable[None]]] = []
        while True:
            if not works:
                works = self._round()
            await asyncio.sleep(self._rng.uniform(*EVERY_S))
            await works.pop()()

    def _round(self) -> list[Callable[[], Awaitable[None]]]:
        """Each component killed once and paused once, each connection cut, the disk full once; shuffled."""
        works: list[Callable[[], Awaitable[None]]] = [self._cut_clients, self._cut_redis, self._cut_postgres]
        works += [lambda name=name: self._kill(name) for name in self.names]  # type: ignore[misc]
        works += [lambda name=name: self._pause(name) for name in self.names]  # type: ignore[misc]
        if self._disk is not None:
            works.append(self._fill)
        self._rng.shuffle(works)
        return works

    async def _kill(self, name: str) -> None:
        self.counts[f"killed_{name}"] += 1
        if name in self._servers:
            await asyncio.to_thread(self._servers[name].again, self._leash)
        else:
            await asyncio.to_thread(self._running.fleet.kill, name)
        if name == "Valkey":
            await keep_the_log_whole(self._running.redis_url)

    async def _pause(self, name: str) -> None:
        self.counts[f"paused_{name}"] += 1
        self._paused = self._servers[name].process if name in self._servers else self._running.fleet.process(name)
        self._paused.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(*PAUSE_S))
        self._paused.popen.send_signal(signal.SIGCONT)

    async def _cut_clients(self) -> None:
        self.counts["cut_clients"] += 1
        self._clients.cut()

    async def _cut_redis(self) -> None:
        self.counts["cut_Valkey"] += 1
        with contextlib.suppress(RedisError):
            async with Redis.from_url(self._running.redis_url) as redis:
                await redis.client_kill_filter(_type="normal", skipme=True)

    async def _cut_postgres(self) -> None:
        self.counts["cut_Postgres"] += 1
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            connection = await asyncpg.connect(self._running.postgres.superuser_dsn, timeout=5)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('ddz_ledger', 'ddz_lobby')"
            )
            await connection.close()

    async def _fill(self) -> None:
        """Fills the disk that Valkey's log is on, and frees it again."""
        assert self._disk is not None
        self.counts["disk_full_Valkey"] += 1
        hog = self._disk / "hog"
        await asyncio.to_thread(_fill, hog)
        await asyncio.sleep(FULL_S)
        hog.unlink()

    async def calm(self) -> None:
        """Lets everything run again."""
        if self._paused is not None:
            self._paused.popen.send_signal(signal.SIGCONT)
        if self._disk is not None:
            (self._disk / "hog").unlink(missing_ok=True)


async def keep_the_log_whole(redis_url: str) -> None:
    """Tells Valkey not to rewrite its append-only file: the audit reads everything that was ever appended."""
    async with Redis.from_url(redis_url) as redis:
        await redis.config_set("auto-aof-rewrite-percentage", 0)


def _fill(hog: Path) -> None:
    with contextlib.suppress(OSError), hog.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """`folder` as a disk of its own of half a gigabyte; None where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
