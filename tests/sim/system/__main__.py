"""`make sim`: plays hands in simulated systems that fail all the time; the last line is one JSON object.

HANDS (1000) are played in runs of a hundred, on all cores; run n has the seed SEED (1) + n, and is a system of its own.
The first run in which something is wrong ends it: what was found, the last events, and how to see it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.system.world import Report, simulate

HANDS_A_RUN: Final = 100
CORES: Final = os.cpu_count() or 1


def show(report: Report, hands: int) -> None:
    """What was wrong, on standard output."""
    print(f"seed {report.seed}, after {report.hands} hands and {report.virtual_s:.3f} virtual seconds:")
    print(f"  {report.violation}")
    cause = report.violation.__cause__ if report.violation is not None else None
    if cause is not None:
        print(f"  because of {cause!r}")
    print("the last events (virtual seconds, what, of what):")
    for line in report.last:
        print(f"  {line}")
    print(f"see it again: make sim SEED={report.seed} HANDS={hands}")


@contextlib.contextmanager
def runs_of(seed: int, hands: int) -> Iterator[Iterator[Report]]:
    """The reports of all runs in the order of their seeds; a process for each core makes them."""
    sizes = [min(HANDS_A_RUN, hands - at) for at in range(0, hands, HANDS_A_RUN)]
    processes = min(CORES, len(sizes))
    if processes == 1:
        yield map(simulate, itertools.count(seed), sizes)
        return
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool.map(simulate, range(seed, seed + len(sizes)), sizes)
    finally:
        pool.shutdown(cancel_futures=True)


def main(seed: int, hands: int) -> int:
    """Runs until so many hands are over; 1 when something was wrong."""
    digest = hashlib.blake2b(digest_size=16)
    faults, books, ends = Counter[str](), Counter[str](), Counter[str]()
    played, runs = 0, 0
    failed: Report | None = None
    columns = (TextColumn("hands"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began_s = time.perf_counter()
    with (
        Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress,
        runs_of(seed, hands) as reports,
    ):
        bar = progress.add_task("hands", total=hands)
        for report in reports:
            runs, played = runs + 1, played + report.hands
            digest.update(report.digest.encode())
            faults, books, ends = faults + report.faults, books + report.books, ends + report.ends
            progress.update(bar, completed=min(played, hands))
            if report.violation is not None:
                failed = report
                break
    seconds = time.perf_counter() - began_s
    if failed is not None:
        asked = min(HANDS_A_RUN, hands - HANDS_A_RUN * (runs - 1))
        show(simulate(failed.seed, asked), asked)  # once more, since what caused it does not come from other processes
    figures = {
        "seed": seed,
        "runs": runs,
        "hands": played,
        "hands_per_s": round(played / seconds, 1),
        "cores": CORES,
        "digest": digest.hexdigest(),
        "books": dict(sorted(books.items())),
        "ends": dict(sorted(ends.items())),
        "faults": dict(sorted(faults.items())),
        "violation": None if failed is None else str(failed.violation),
    }
    print(json.dumps(figures))
    return 0 if failed is None else 1


if __name__ == "__main__":
    sys.exit(main(int(os.environ.get("SEED") or 1), int(os.environ.get("HANDS") or 1_000)))
