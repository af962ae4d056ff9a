"""`make sim`: plays hands in simulated systems that fail all the time; the last line is one JSON object.

HANDS (1000) are played in runs of a hundred; run n has the seed SEED (1) + n, and is a system of its own. The first run
in which something is wrong ends it: what was found, the last events, and how to see it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.system.world import Report, simulate

HANDS_A_RUN: Final = 100


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


def main(seed: int, hands: int) -> int:
    """Runs until so many hands are over; 1 when something was wrong."""
    digest = hashlib.blake2b(digest_size=16)
    faults, books, ends = Counter[str](), Counter[str](), Counter[str]()
    played, runs, cpu_s = 0, 0, 0.0
    failed: Report | None = None
    columns = (TextColumn("hands"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("hands", total=hands)
        while played < hands and failed is None:
            asked = min(HANDS_A_RUN, hands - played)
            began_s = time.process_time()
            report = simulate(seed + runs, asked)
            cpu_s += time.process_time() - began_s
            runs, played = runs + 1, played + report.hands
            digest.update(report.digest.encode())
            faults, books, ends = faults + report.faults, books + report.books, ends + report.ends
            progress.update(bar, completed=min(played, hands))
            if report.violation is not None:
                failed = report
                show(report, asked)
    figures = {
        "seed": seed,
        "runs": runs,
        "hands": played,
        "hands_per_s": round(played / cpu_s, 1),
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
