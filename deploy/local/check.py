"""`make check`: every check that needs no server."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.local import checks
from deploy.local.checks import run
from deploy.local.folders import ROOT

BIN = Path(sys.executable).parent
CHECKED = ("libs", "services", "deploy", "tests", "proto")
IMAGE = ROOT / "build" / "ddz.binpb"


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
        said = run(sys.executable, "proto/generate.py", "--image", before, "--source", Path(folder) / "proto")
        return said or run(BIN / "buf", "breaking", IMAGE, "--against", before, "--config", "proto/buf.yaml")


CHECKS: tuple[checks.Check, ...] = (
    ("ruff check", lambda: run(BIN / "ruff", "check", "-q", ".")),
    ("ruff format", lambda: run(BIN / "ruff", "format", "--check", "-q", ".")),
    ("mypy --strict", lambda: run(BIN / "mypy", "--strict", "--no-error-summary", *CHECKED)),
    ("generated code", lambda: run(sys.executable, "proto/generate.py", "--check")),
    ("API reference", lambda: run(sys.executable, "-m", "deploy.reference", "--check")),
    ("dashboards", lambda: run(sys.executable, "-m", "deploy.grafana", "--check")),
    ("documented metrics", lambda: run(sys.executable, "-m", "deploy.local.measured", "--check")),
    ("documented variables", lambda: run(sys.executable, "-m", "deploy.local.variables", "--check")),
    ("scaling", lambda: run(sys.executable, "docs/scaling.py", "--check")),
    ("buf lint", lambda: run(BIN / "buf", "lint", IMAGE, "--config", "proto/buf.yaml")),
    ("buf breaking", _breaking),
    ("import contracts", lambda: run(BIN / "lint-imports", "--no-cache")),
    ("tidy", lambda: run(sys.executable, "-m", "pytest", "-q", "tests/test_tidy.py")),
)


if __name__ == "__main__":
    checks.run_all(CHECKS)
