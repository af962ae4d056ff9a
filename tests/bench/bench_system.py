"""`make bench-system`: tables of three people by the number, direct and through the gateway, one table node and two.

The work is that of the figures for peers: a table of three clients, one action in flight, 17 cards each; an action is
an accepted command, its latency ends at the actor's own push. The ledger answers from memory: this is about tables.
CPU is told of the table processes alone and of everything that serves. A plot goes to build/bench-system.png, the last
line is one JSON object. `--only=direct,gateway,not_durable,human,growth` runs some of it, each for `SECONDS_A_RUN` (8).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from deploy.local import folders, gateway, ports, servers
from deploy.local.leash import Leash
from tests.bench.bench_table import (
    HUMAN_PAUSE_S,
    HUMAN_TABLES,
    ROOT,
    SECONDS,
    TICKS,
    Driver,
    TableProcess,
    table_process,
)
from tests.bench.table_script import DEAL_SEED
from tests.edge.fort import NO_LIMITS
from tests.sim.picture import COLOURS, Axis, Panel, Picture

FLAT_OUT: Final = (10, 100, 300)
GROWTH: Final = (10, 30, 100, 300, 1_000, 3_000)
NODES: Final = (1, 2)
PICTURE: Final = ROOT / "build" / "bench-system.png"
_ALL: Final = ("direct", "gateway", "not_durable", "human", "growth")


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass
class Backends:
    """What table nodes need, and the environment that tells them; `pids` of all that serves besides them."""

    leash: Leash
    folder: Path
    env: dict[str, str]
    stand_in_port: int
    pids: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def backends() -> Iterator[Backends]:
    """Valkey that writes its log to disk, NATS, and a process that stands in for ledger and lobby."""
    folder = folders.scratch()
    keys = gateway.private_keys(folder / "gateway")
    with (
        Leash(folder) as leash,
        servers.valkey(leash, folder / "valkey", ports.free(1)[0]) as valkey,
        servers.nats(leash, folder / "nats", ports.free(1)[0]) as nats,
    ):
        port = ports.free(1)[0]
        stand_in = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.table_stand_ins", "ledger", str(port), str(keys)], cwd=ROOT
        )
        env = {
            "DDZ_REDIS_URL": valkey.url,
            "DDZ_NATS_URL": nats.url,
            "DDZ_LEDGER_TARGET": f"127.0.0.1:{port}",
            "DDZ_DEAL_SEED": DEAL_SEED.hex(),
            "DDZ_STREAMS_PER_ADDRESS": "0",
            "DDZ_TABLE_COMMANDS_PER_S": "1000000",
            "DDZ_TABLE_COMMANDS_BURST": "1000000",
        }
        pids = {"redis": valkey.process.popen.pid, "nats": nats.process.popen.pid, "ledger": stand_in.pid}
        try:
            yield Backends(leash, folder, env, port, pids)
        finally:
            stand_in.kill()
            stand_in.wait()


@contextlib.contextmanager
def nodes(held: Backends, count: int, module: Sequence[str] = ("services.table",)) -> Iterator[list[TableProcess]]:
    """Table processes, on whatever core is free."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(table_process(held.env | {"DDZ_NODE_ID": f"n{number}"}, list(module), pinned=False))
            for number in range(count)
        ]


@contextlib.contextmanager
def door(held: Backends, tables: Sequence[TableProcess]) -> Iterator[tuple[str, int]]:
    """The gateway before the nodes: its address, and its process."""
    plain, tls, metrics = ports.free(3)
    doors = gateway.Doors(plain, tls, metrics)
    stand_in = [held.stand_in_port]
    services = {
        "lobby": stand_in, "matchmaking": stand_in, "ledger": stand_in,
        "table": [int(table.target.rpartition(":")[2]) for table in tables],
    }  # fmt: skip
    path = gateway.prepare(held.folder / "gateway", doors, services, NO_LIMITS)
    with servers.gateway(held.leash, held.folder / "gateway", path, doors.metrics) as process:
        yield f"127.0.0.1:{doors.plain}", process.popen.pid


def run(
    held: Backends,
    name: str,
    serving: Sequence[TableProcess],
    tables: int,
    through: tuple[str, int] | None = None,
    pause_s: float = 0.0,
) -> dict[str, Any]:
    """One run: opens the tables, drives them, and says what was seen and what it cost."""
    inside = [table.target for table in serving]
    unique = f"r{len(held.rows)}-"  # no two runs share a table
    seconds = SECONDS * (2 if pause_s else 1)
    plan: dict[str, Any] = {"name": unique, "tables": tables, "unary": False, "watched": True, "pause_s": pause_s}
    plan |= {"targets": inside, "seconds": seconds}
    if through is not None:
        plan |= {"targets": [through[0]], "inside": inside}
        plan["keys"] = str(gateway.private_keys(held.folder / "gateway"))
    others = dict(held.pids) | ({"gateway": through[1]} if through else {})
    driver = Driver(plan, pinned=False)
    try:
        before = {part: cpu_s(pid) for part, pid in others.items()}
        table_s = sum(table.cpu_s() for table in serving)
        driver.go()
        seen = driver.result()
        table_s = sum(table.cpu_s() for table in serving) - table_s
        used = {part: cpu_s(pid) - before[part] for part, pid in others.items()}
        rss = sum(table.rss_bytes() for table in serving)
    finally:
        driver.end()
    actions = max(seen["actions"], 1)
    cuts = statistics.quantiles(seen["latencies_ms"], n=100) if len(seen["latencies_ms"]) > 1 else [0.0] * 99
    row = {
        "run": name, "tables": tables, "nodes": len(serving),
        "actions_per_s": round(seen["actions"] / seen["seconds"]),
        "actions_per_table_cpu_s": round(actions / max(table_s, 1e-9)),
        "actions_per_server_cpu_s": round(actions / max(table_s + sum(used.values()), 1e-9)),
        "us_per_action": {"table": round(1e6 * table_s / actions)}
        | {part: round(1e6 * s / actions) for part, s in used.items()},
        "driver_us_per_action": round(1e6 * seen["driver_cpu_s"] / actions),
        "p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "tables_rss_mb": round(rss / 1e6),
    }  # fmt: skip
    held.rows.append(row)
    print(row, file=sys.stderr, flush=True)
    return row


def measure(held: Backends, only: Sequence[str]) -> None:
    """The runs that are wanted; each adds its row. Node processes are new for each kind: memory is compared."""
    for kind in ("direct", "gateway"):
        if kind in only:
            with nodes(held, 1) as serving, door(held, serving) as through:
                for tables in FLAT_OUT:
                    run(held, kind, serving, tables, through if kind == "gateway" else None)
    if "not_durable" in only:
        with nodes(held, 1, ("tests.bench.table_stand_ins", "table")) as serving, door(held, serving) as through:
            for tables in FLAT_OUT:
                run(held, "not durable", serving, tables)
            run(held, "not durable, gateway", serving, FLAT_OUT[1], through)
    if "human" in only:
        for name, direct in (("human", True), ("human, gateway", False)):
            with nodes(held, 1) as serving, door(held, serving) as through:
                run(held, name, serving, HUMAN_TABLES, None if direct else through, HUMAN_PAUSE_S)
    if "growth" in only:
        for count in NODES:
            for tables in GROWTH:
                with nodes(held, count) as serving:
                    run(held, "growth", serving, tables)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a table for people."""
    columns = {
        "run": "run", "tables": "tables", "nodes": "nodes", "actions_per_s": "actions/s",
        "actions_per_table_cpu_s": "per table CPU s", "actions_per_server_cpu_s": "per server CPU s",
        "p50_ms": "p50 ms", "p99_ms": "p99 ms", "tables_rss_mb": "RSS MB",
    }  # fmt: skip
    table = Table(*columns.values(), title="Tables of three, one action in flight each")
    for row in rows:
        table.add_row(*[str(row[name]) for name in columns])
    Console(width=120).print(table)


def draw(rows: Sequence[dict[str, Any]]) -> None:
    """How the figures grow with tables, a line for each number of nodes."""
    growth = [row for row in rows if row["run"] == "growth"]
    if not growth:
        return
    picture = Picture(1240, 420)
    x = Axis(GROWTH[0], GROWTH[-1], GROWTH, "tables", math.log10)
    panels = (("actions_per_s", "actions/s", "a second"), ("p99_ms", "p99 ms", "ms"), ("tables_rss_mb", "RSS", "MB"))
    for number, (name, title, unit) in enumerate(panels):
        top = max(float(row[name]) for row in growth) or 1.0
        y = Axis(0, top, [round(top * part / 4, 1) for part in range(5)], unit)
        panel = Panel(picture, (10 + 410 * number, 10, 400, 400), title, x, y)
        for count, colour in zip(NODES, COLOURS, strict=False):
            points = [(row["tables"], float(row[name])) for row in growth if row["nodes"] == count]
            panel.lines(points, colour, f"{count} node{'s' if count > 1 else ''}")
    picture.save(PICTURE)
    print(f"plot: {PICTURE}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=os.environ.get("ONLY") or ",".join(_ALL), help="some of the kinds of runs")
    only = parser.parse_args().only.split(",")
    if unknown := set(only) - set(_ALL):
        raise SystemExit(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(_ALL)}")
    with backends() as held:
        measure(held, only)
    show(held.rows)
    draw(held.rows)
    print(json.dumps({"runs": held.rows, "seconds_a_run": SECONDS}))


if __name__ == "__main__":
    main()
