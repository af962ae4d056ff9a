"""`ddz top`: what the processes do, live in the terminal, from their metrics alone."""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from ddzclient.cli.figures import Process, Section, processes, sections
from ddzclient.cli.scrapes import Pair, Samples, Scrape, parse

_STACK: Final = Path(".run") / "local" / "stack.json"
_METRICS_OF: Final = "metrics of "
_TIMEOUT_S: Final = 2.0
_LOOKS: Final = 6  # what is shown has happened between the first and the last of so many


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--from", dest="addresses", nargs="+", metavar="HOST:PORT", help="where processes tell metrics")
    stack = f"what `make up` wrote of its stack (default: {_STACK})"
    where.add_argument("--stack", type=Path, default=_STACK, metavar="FILE", help=stack)
    parser.add_argument("--every", type=_seconds, default=2.0, metavar="SECONDS", help="between two looks (default: 2)")
    parser.add_argument(
        "--once", action="store_true", help="look twice and print; the same when nobody is at a terminal"
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("a number of seconds from 0.1 to 3600")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """0 when it was shown, 2 when there is nothing to look at."""
    try:
        targets = _targets(arguments.addresses, arguments.stack)
    except (OSError, ValueError, KeyError, TypeError):
        print(f"{arguments.stack} tells of no stack: start one with `make up`, or give --from.", file=sys.stderr)
        return 2
    first = look(targets)
    if not first.processes:
        print(f"Nobody answers at {', '.join(targets.values())}.", file=sys.stderr)
        return 2
    console = Console()
    if arguments.once or not console.is_terminal:
        time.sleep(arguments.every)
        console.print(picture(Pair(first, look(targets)), tuple(targets)))
        return 0
    looks = deque([first], maxlen=_LOOKS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(arguments.every)
            looks.append(look(targets))
            live.update(picture(Pair(looks[0], looks[-1]), tuple(targets)), refresh=True)


def _targets(addresses: Sequence[str] | None, stack: Path) -> dict[str, str]:
    """The URL of each process by the name that it is shown under.

    Raises OSError, ValueError, KeyError or TypeError when there is no stack's file, or it is something else.
    """
    if addresses:
        return {address: f"http://{address}/metrics" for address in addresses}
    known = json.loads(stack.read_text())["addresses"]
    found = {name.removeprefix(_METRICS_OF): url for name, url in known.items() if name.startswith(_METRICS_OF)}
    if not found:
        raise ValueError("it names no process")
    return found


def look(targets: Mapping[str, str]) -> Scrape:
    """Asks all processes at once; who does not answer in two seconds, or with something else, is left out."""
    with ThreadPoolExecutor(len(targets)) as threads:
        answers = dict(zip(targets, threads.map(_ask, targets.values()), strict=True))
    return Scrape(time.monotonic(), {name: samples for name, samples in answers.items() if samples is not None})


def _ask(url: str) -> Samples | None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return parse(answer.read().decode())
    except (OSError, ValueError):
        return None


def picture(pair: Pair, expected: tuple[str, ...]) -> RenderableType:
    """The whole screen."""
    boxes = Columns([_box(section) for section in sections(pair)], equal=False, expand=False)
    return Group(_list(processes(pair, expected)), boxes)


def _list(lines: Sequence[Process]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("process", "CPU", "memory", "calls", "failed", "late, p99"):
        table.add_column(column, justify="left" if column == "process" else "right", no_wrap=True)
    table.add_column("stands on")
    for line in lines:
        texts = (line.name, line.cpu, line.memory, line.calls, line.failed, line.late, line.behind)
        table.add_row(*texts, style=None if line.well else "bold red")
    return table


def _box(section: Section) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    for name, value in section.rows:
        grid.add_row(name, value)
    return Panel(grid, title=section.title, title_align="left", expand=False)
