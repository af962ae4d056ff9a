"""The processes of a load: each gets its share of the people; what they tell is added up, and shown as it comes."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections import deque
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from deploy.local.folders import ROOT
from tests.load.meter import Meter
from tests.load.plan import Plan, PlanError
from tests.load.report import Run

_SHOWN_S: Final = 5  # figures on the screen are of so many seconds
_LINE_BYTES: Final = 2**20


async def crew(plan: Plan, processes: int, console: Console) -> Run:
    """Runs the plan on so many processes; raises PlanError when one of them fails."""
    processes = min(processes, plan.people)
    started = [await _start(share) for share in _shares(plan, processes)]
    run = Run([], Meter(), processes)
    expected_s = plan.ramp_s + plan.hold_s + plan.down_s
    recent: deque[Meter] = deque(maxlen=_SHOWN_S)
    try:
        with Live(console=console, refresh_per_second=2, transient=True) as live:
            while True:
                told = [await _told(process) for process in started]
                found = [meter for meter in told if meter is not None]
                if not found:
                    break
                second = Meter(sum(meter.online for meter in found))
                for meter in found:
                    second.merge(meter)
                run.seconds.append(second)
                run.total.merge(second)
                recent.append(second)
                live.update(_view(run, recent, expected_s))
    finally:
        codes = [await _end(process) for process in started]
    if any(codes):
        raise PlanError("A process of the load has failed; what it said stands above.")
    return run


def _shares(plan: Plan, processes: int) -> list[Plan]:
    """The people dealt evenly; each process's ramp is the whole ramp."""
    bounds = [plan.people * index // processes for index in range(processes + 1)]
    return [
        replace(plan, people=after - before, first=plan.first + before) for before, after in itertools.pairwise(bounds)
    ]


async def _start(plan: Plan) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.load.worker",
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(plan.to_json().encode() + b"\n")
    await process.stdin.drain()
    return process


async def _told(process: asyncio.subprocess.Process) -> Meter | None:
    assert process.stdout is not None
    line = await process.stdout.readline()
    return Meter.from_json(json.loads(line)) if line else None


async def _end(process: asyncio.subprocess.Process) -> int:
    """Waits for a process that is done; one that is not ends with its standard input."""
    assert process.stdin is not None
    process.stdin.close()
    return await process.wait()


def _view(run: Run, recent: deque[Meter], expected_s: float) -> Table:
    last = Meter()
    for meter in recent:
        last.merge(meter)
    acts = last.times["act"].count / len(recent) if "act" in last.times else 0.0
    view = Table.grid(padding=(0, 2))
    view.add_row(f"{len(run.seconds)} s", ProgressBar(expected_s, len(run.seconds), width=40))
    view.add_row("people 在线", str(recent[-1].online))
    view.add_row("actions/s 每秒操作", f"{acts:.0f}")
    view.add_row("p50 / p99 ms", f"{last.quantile_ms('act', 0.5):.1f} / {last.quantile_ms('act', 0.99):.1f}")
    view.add_row("hands 牌局", str(run.total.counts["seat_hands"] // 3))
    errors = ", ".join(f"{name} {count}" for name, count in run.total.of("error").items())
    view.add_row("errors 错误", errors or "0")
    return view
