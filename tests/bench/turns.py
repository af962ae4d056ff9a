"""The stopwatch of both sides of a benchmark; standard library only, it runs in either interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable

TURN_S = 0.15  # long enough that each side runs in its own warm cache


def turn(run: Callable[[], None]) -> float:
    """CPU seconds of one run, the mean of as many as fit into a turn."""
    runs = 0
    begin = time.process_time()
    while True:
        run()
        runs += 1
        spent = time.process_time() - begin
        if spent >= TURN_S:
            return spent / runs
