"""`make bench-lifecycle`: 10,000 tables opened, played by bots and closed; memory, Redis and NATS are as before.

The first tables warm the node up, so many that the collector of garbage, whose youngest generation holds 100,000
objects, has had its turns; what the node holds then is the baseline. The last line is one JSON object; the exit
status is 1 when anything is not back at the baseline, give or take a twentieth. ARGS="1000" for as many tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
from redis.asyncio import Redis

from ddz.table.v1 import table_pb2_grpc
from deploy.local import folders, ports, servers
from deploy.local.leash import Leash
from deploy.local.process import exchange
from servicekit import server
from tests.bench.bench_table import ROOT, TableProcess, table_process
from tests.bench.table_life import live
from tests.bench.table_script import DEAL_SEED

TABLES: Final = 10_000
WARM_UP: Final = 6_000
IN_A_ROW: Final = 500
AT_ONCE: Final = 60
SHARE: Final = 0.05
QUIET_S: Final = 60.0


@dataclass(frozen=True)
class Held:
    """What a node and the servers behind it hold."""

    tables: int
    redis_keys: int
    subscriptions: int
    rss_bytes: int


@dataclass(frozen=True)
class Place:
    """A table node, and where to look at what it holds."""

    table: TableProcess
    metrics_port: int
    redis_url: str
    nats_port: int

    async def held(self) -> Held:
        metrics = await asyncio.to_thread(_read, self.metrics_port, "metrics")
        tables = sum(float(value) for value in re.findall(r"^ddz_tables\{.*\} (\S+)$", metrics, re.MULTILINE))
        nats = json.loads(await asyncio.to_thread(_read, self.nats_port, "varz"))
        async with Redis.from_url(self.redis_url) as redis:
            keys = await redis.dbsize()
        return Held(int(tables), keys, nats["subscriptions"], self.table.rss_bytes())

    async def calm(self, before: Held) -> Held:
        """What is held once every table has gone, and its log with it; or after a while, whatever it is."""
        until = time.monotonic() + QUIET_S
        while True:
            held = await self.held()
            if (not held.tables and held.redis_keys <= before.redis_keys) or time.monotonic() > until:
                return held
            await asyncio.sleep(0.5)


def _read(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        return str(answer.read(), "utf-8")


@contextlib.contextmanager
def nats(leash: Leash, folder: Path, port: int, monitoring_port: int) -> Iterator[str]:
    """A NATS that tells of its subscriptions."""
    argv: list[str | Path] = [Path(sysconfig.get_path("scripts")) / "nats-server", "-a", "127.0.0.1"]
    process = servers.run(leash, "NATS", [*argv, "-p", str(port), "-m", str(monitoring_port)], folder)
    process.wait_until(lambda: exchange(port, b"", b"INFO {"))
    yield f"nats://127.0.0.1:{port}"
    process.stop()


async def lives(target: str, name: str, count: int) -> int:
    """So many tables, some at once; the number of actions."""
    actions = 0
    numbers = iter(range(count))
    async with server.channel(target) as channel:
        stub, internal = (
            table_pb2_grpc.TableServiceStub(channel),
            table_pb2_grpc.TableInternalServiceStub(channel),
        )

        async def some() -> None:
            nonlocal actions
            for number in numbers:
                table_id = f"{name}{number}"
                done = await live(stub, internal, table_id, [f"{table_id}-{seat}" for seat in range(3)])
                actions += done

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return actions


async def many(place: Place, name: str, count: int) -> int:
    """So many tables, and what is held in between; the number of actions."""
    actions = 0
    for done in range(0, count, IN_A_ROW):
        actions += await lives(place.table.target, f"{name}{done}-", min(IN_A_ROW, count - done))
        print(f"{name}{done + IN_A_ROW}", await place.held(), file=sys.stderr, flush=True)
    return actions


async def run(place: Place, count: int) -> dict[str, Any]:
    at_start = await place.held()
    await many(place, "w", min(WARM_UP, count))
    baseline = await place.calm(at_start)
    begun = time.perf_counter()
    actions = await many(place, "t", count)
    seconds = time.perf_counter() - begun
    after = await place.calm(at_start)
    names = ("tables", "redis_keys", "subscriptions", "rss_bytes")
    grown = [name for name in names if getattr(after, name) > (1 + SHARE) * getattr(baseline, name)]
    return {
        "tables": count,
        "actions": actions,
        "seconds": round(seconds, 1),
        "at_start": asdict(at_start),
        "baseline": asdict(baseline),
        "after": asdict(after),
        "rss_growth": round(after.rss_bytes / baseline.rss_bytes - 1, 4),
        "grown": grown,
    }


def main() -> None:
    folder = folders.scratch()
    valkey_port, nats_port, monitoring_port, ledger_port = ports.free(4)
    with (
        Leash(folder) as leash,
        servers.valkey(leash, folder / "valkey", valkey_port) as valkey,
        nats(leash, folder, nats_port, monitoring_port) as nats_url,
    ):
        ledger = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.table_stand_ins", "ledger", str(ledger_port)], cwd=ROOT
        )
        env = {
            "DDZ_REDIS_URL": valkey.url,
            "DDZ_NATS_URL": nats_url,
            "DDZ_LEDGER_TARGET": f"127.0.0.1:{ledger_port}",
            "DDZ_DEAL_SEED": DEAL_SEED.hex(),
            "DDZ_TABLE_COMMANDS_PER_S": "1000000",
            "DDZ_TABLE_COMMANDS_BURST": "1000000",
            "DDZ_TABLE_KEEP_S": "2",
        }
        try:
            with table_process(env, ["services.table"]) as table:
                place = Place(table, table.metrics_port, valkey.url, monitoring_port)
                result = uvloop.run(run(place, int(sys.argv[1]) if sys.argv[1:] else TABLES))
        finally:
            ledger.kill()
            ledger.wait()
    print(json.dumps(result))
    raise SystemExit(1 if result["grown"] else 0)


if __name__ == "__main__":
    main()
