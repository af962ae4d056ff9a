"""`make check`: every check that needs no server, one line each; shows the output of those that fail."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deploy.local.folders import ROOT

BIN = Path(sys.executable).parent
CHECKED = ("libs", "services", "deploy", "tests", "proto")
IMAGE = ROOT / "build" / "ddz.binpb"


def _run(*command: str | Path) -> str:
    """What the command said when it failed; empty when it did not."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout or f"exit {done.returncode}"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def _base() -> str | None:
    """The commit to compare the protos with: the last one, or the one before when nothing is uncommitted."""
    try:
        dirty = _git("status", "--porcelain", "--", "proto/ddz").stdout
        base = "HEAD" if dirty else "HEAD~1"
        return base if _git("rev-parse", "--verify", "-q", f"{base}^{{commit}}").returncode == 0 else None
    except OSError:
        return None


def _breaking() -> str:
    """buf's verdict on the change of the protos since the base."""
    base = _base()
    if base is None:
        print("      (no history here: buf breaking has nothing to compare with)")
        return ""
    with tempfile.TemporaryDirectory() as folder:
        archive = _git("archive", base, "proto")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        before = Path(folder) / "before.binpb"
        said = _run(sys.executable, "proto/generate.py", "--image", before, "--source", Path(folder) / "proto")
        return said or _run(BIN / "buf", "breaking", IMAGE, "--against", before, "--config", "proto/buf.yaml")


CHECKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("ruff check", lambda: _run(BIN / "ruff", "check", "-q", ".")),
    ("ruff format", lambda: _run(BIN / "ruff", "format", "--check", "-q", ".")),
    ("mypy --strict", lambda: _run(BIN / "mypy", "--strict", "--no-error-summary", *CHECKED)),
    ("generated code", lambda: _run(sys.executable, "proto/generate.py", "--check")),
    ("API reference", lambda: _run(sys.executable, "-m", "deploy.reference", "--check")),
    ("dashboards", lambda: _run(sys.executable, "-m", "deploy.grafana", "--check")),
    ("documented metrics", lambda: _run(sys.executable, "-m", "deploy.local.measured", "--check")),
    ("documented variables", lambda: _run(sys.executable, "-m", "deploy.local.variables", "--check")),
    ("scaling", lambda: _run(sys.executable, "docs/scaling.py", "--check")),
    ("buf lint", lambda: _run(BIN / "buf", "lint", IMAGE, "--config", "proto/buf.yaml")),
    ("buf breaking", _breaking),
    ("import contracts", lambda: _run(BIN / "lint-imports", "--no-cache")),
    ("tidy", lambda: _run(sys.executable, "-m", "pytest", "-q", "tests/test_tidy.py")),
)


def main() -> None:
    """Runs all checks; exits 1 when one fails."""
    failed = []
    for name, check in CHECKS:
        started = time.monotonic()
        said = check()
        print(f"{'FAIL' if said else 'ok':5} {name} ({time.monotonic() - started:.1f} s)", flush=True)
        if said:
            failed.append(name)
            print(said)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
