"""Checks by commands, one line each: how long it took, and what was said by those that fail."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.local.folders import ROOT

# A check's name, and what says why it fails; it says nothing when it does not.
Check = tuple[str, Callable[[], str]]


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """What a command said when it failed; empty when it did not. `env`: instead of this process's own."""
    told = None if env is None else dict(env)
    done = subprocess.run(command, cwd=ROOT, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return "" if done.returncode == 0 else done.stdout.decode(errors="replace") or f"exit {done.returncode}"


def run_all(checks: Sequence[Check]) -> None:
    """Runs all of them; exits 1 when one fails."""
    failed = []
    for name, check in checks:
        started = time.monotonic()
        said = check()
        print(f"{'FAIL' if said else 'ok':5} {name} ({time.monotonic() - started:.1f} s)", flush=True)
        if said:
            failed.append(name)
            print(said)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")
