"""Looking at processes from outside, for the tests of what starts and ends them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from deploy.local.process import state


def running(pid: int) -> bool:
    """Whether the process is there and not dead already."""
    return state(pid)[:1] not in ("", "Z")


def naming(folder: Path) -> list[str]:
    """The command lines of processes that name the folder."""
    lines = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in lines if str(folder) in line]


def eventually(condition: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
