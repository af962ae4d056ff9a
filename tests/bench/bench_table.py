"""`make bench-table`: durable actions a second of one table node on one core, its latencies, and what people cost.

The node is pinned to one core; Valkey, NATS, the driver and a ledger that answers from memory have the others. On a
machine of few cores the driver is what saturates first: the node's own CPU time for an action says what a core of it
carries. `bare` sends the same frames with nothing behind them: what gRPC alone costs here and now is the floor under
all other figures. The last line is one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import services  # noqa: F401 - `bare`, which inherits our environment, is to poll as services do
from deploy.local import folders, ports, servers
from deploy.local.leash import Leash
from tests.bench.table_script import DEAL_SEED

ROOT: Final = Path(__file__).parents[2]
TICKS: Final = os.sysconf("SC_CLK_TCK")
SECONDS: Final = float(os.environ.get("SECONDS_A_RUN", "8"))
HUMAN_TABLES: Final = 1_000
HUMAN_PAUSE_S: Final = 4.0
MEMORY_TABLES: Final = 500


@dataclass(frozen=True)
class TableProcess:
    """The process that is measured."""

    pid: int
    target: str
    metrics_port: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def wait_until_idle(self) -> None:
        """Returns once the process has used less than a tenth of a core for half a second."""
        used = -1.0
        while self.cpu_s() - used > 0.05:
            used = self.cpu_s()
            time.sleep(0.5)

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def table_process(env: dict[str, str], module: list[str], *, pinned: bool = True) -> Iterator[TableProcess]:
    """A table node, `pinned` to the first core."""
    grpc_port, metrics_port = ports.free(2)
    own = {"DDZ_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}", "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}"}
    cores = {min(os.sched_getaffinity(0))} if pinned else os.sched_getaffinity(0)
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env={**os.environ, **env, **own, "DDZ_LOG_LEVEL": "ERROR"},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    try:
        wait_until_serving(f"127.0.0.1:{grpc_port}", process)
        yield TableProcess(process.pid, f"127.0.0.1:{grpc_port}", metrics_port)
    finally:
        process.kill()
        process.wait()


def wait_until_serving(target: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(target) as channel:
            if health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1).status == 1:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the table node did not start")


class Driver:
    """A driver process that has opened its streams."""

    def __init__(self, plan: dict[str, Any], *, pinned: bool = True) -> None:
        cores = sorted(os.sched_getaffinity(0))
        others = cores[1:] if pinned and len(cores) > 1 else cores
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.table_driver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, others),
        )
        self._tell(json.dumps(plan))
        if self._hear() != "ready":
            raise SystemExit("the driver did not open its streams")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go(self) -> None:
        self._tell("go")

    def result(self) -> dict[str, Any]:
        line = self._hear()
        if not line:
            raise SystemExit("the driver failed")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def run(table: TableProcess, name: str, tables: int, *, unary: bool = False, pause_s: float = 0.0) -> dict[str, Any]:
    """One run: opens the tables, then measures."""
    plan = {
        "targets": [table.target],
        "name": name,
        "tables": tables,
        "unary": unary,
        "watched": True,
        "pause_s": pause_s,
        "seconds": SECONDS * (2 if pause_s else 1),
    }
    driver = Driver(plan)
    try:
        cpu_s = table.cpu_s()
        driver.go()
        seen = driver.result()
        cpu_s = table.cpu_s() - cpu_s
    finally:
        driver.end()
    latencies = seen["latencies_ms"]
    quantiles = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
    cpu_us = 1e6 * cpu_s / max(seen["actions"], 1)
    return {
        "tables": tables,
        "actions_per_s": round(seen["actions"] / seen["seconds"]),
        "cpu_us_per_action": round(cpu_us, 1),
        "actions_per_core_s": round(1e6 / cpu_us),
        "core_busy": round(cpu_s / seen["seconds"], 2),
        "driver_cpu_us_per_action": round(1e6 * seen["driver_cpu_s"] / max(seen["actions"], 1), 1),
        "frames_per_action": round(seen["frames"] / max(seen["actions"], 1), 2),
        "p50_ms": quantiles[49],
        "p99_ms": quantiles[98],
    }


def memory(table: TableProcess) -> dict[str, int]:
    """Bytes for a table whose hand is dealt, and for each of the streams that watch one."""
    at_start = table.rss_bytes()
    plan = {"targets": [table.target], "tables": MEMORY_TABLES, "unary": False, "pause_s": 0, "seconds": 0}
    grown, drivers = {}, []
    for name, watched in (("first", False), ("table", False), ("watched", True)):  # the first ones warm it up
        before = table.rss_bytes()
        drivers.append(Driver({**plan, "name": name, "watched": watched}))
        table.wait_until_idle()  # the hands of the last tables are dealt
        grown[name] = (table.rss_bytes() - before) // MEMORY_TABLES
    for driver in drivers:
        driver.end()
    return {
        "rss_bytes_per_table": grown["table"],
        "rss_bytes_per_idle_connection": (grown["watched"] - grown["table"]) // 3,
        "rss_bytes_at_start": at_start,
    }


def main() -> None:
    scratch = folders.scratch()
    with (
        Leash(scratch) as leash,
        servers.valkey(leash, scratch / "valkey", ports.free(1)[0]) as valkey,
        servers.nats(leash, scratch / "nats", ports.free(1)[0]) as nats,
    ):
        ledger_port = ports.free(1)[0]
        ledger = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.table_stand_ins", "ledger", str(ledger_port)], cwd=ROOT
        )
        env = {
            "DDZ_REDIS_URL": valkey.url,
            "DDZ_NATS_URL": nats.url,
            "DDZ_LEDGER_TARGET": f"127.0.0.1:{ledger_port}",
            "DDZ_DEAL_SEED": DEAL_SEED.hex(),
            "DDZ_TABLE_COMMANDS_PER_S": "1000000",
            "DDZ_TABLE_COMMANDS_BURST": "1000000",
        }
        try:
            print(json.dumps(measure(env, sys.argv[1:])))
        finally:
            ledger.kill()
            ledger.wait()


def measure(env: dict[str, str], only: list[str]) -> dict[str, Any]:
    """All runs, or those that are named."""
    results: dict[str, Any] = {}
    wanted = only or ["bare", "bidi", "unary", "human", "memory", "not_durable"]
    if "bare" in wanted:
        with table_process(env, ["tests.bench.table_bare"]) as table:
            results["bare"] = show("bare", run(table, "bare", 100))
    with table_process(env, ["services.table"]) as table:
        if "memory" in wanted:
            results |= memory(table)
        if "bidi" in wanted:
            results["bidi"] = [show("bidi", run(table, f"b{tables}-", tables)) for tables in (10, 100, 300)]
        if "unary" in wanted:
            results["unary"] = [show("unary", run(table, f"u{tables}-", tables, unary=True)) for tables in (10, 100)]
        if "human" in wanted:
            human = run(table, "h", HUMAN_TABLES, pause_s=HUMAN_PAUSE_S)
            results["human"] = show("human", human)
    if "not_durable" in wanted:
        with table_process(env, ["tests.bench.table_stand_ins", "table"]) as table:
            results["bidi_not_durable"] = show("bidi, not durable", run(table, "n", 100))
    return results


def show(name: str, result: dict[str, Any]) -> dict[str, Any]:
    print(name, result, file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
