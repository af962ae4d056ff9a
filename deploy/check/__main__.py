"""`make check-deploy`: the deployment's files by the tools that read them, none of which needs an engine or a cluster.

Compose reads docker-compose.yml, hadolint the Dockerfile; kubectl builds each overlay, and what it builds is held
strictly against the schemas of Kubernetes; the image's folders are made as the Dockerfile says, from its own packages
alone, and its programs answer. The tools live in an environment of their own below .run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.check import image
from deploy.local import checks
from deploy.local.checks import run
from deploy.local.folders import ROOT
from deploy.local.setup import digest

LOCK: Final = ROOT / "deploy" / "check" / "requirements.lock"
TOOLS: Final = ROOT / ".run" / "deploy-tools"
OVERLAYS: Final = ("dev", "production", "migrate")
_KUBERNETES: Final = "1.34"  # the oldest that is meant to run this


def make_tools() -> str:
    """Installs the tools unless they are there."""
    stamp, wanted = TOOLS / "installed", digest([LOCK], sys.version)
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    failed = run(sys.executable, "-m", "venv", "--clear", TOOLS)
    failed = failed or run(TOOLS / "bin" / "python", "-m", "pip", "install", "-q", "--require-hashes", "-r", LOCK)
    if not failed:
        stamp.write_text(wanted)
    return failed


def compose() -> str:
    """Compose's own reading of the file, with the demo and with none of the variables set."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return run(TOOLS / "bin" / "docker-compose", "--profile", "demo", "config", "-q", env=env)


def hadolint() -> str:
    """Every rule of hadolint."""
    return run(TOOLS / "bin" / "hadolint", "--failure-threshold", "style", image.DOCKERFILE)


def overlay(name: str) -> str:
    """Builds one overlay and validates all of it."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / f"{name}.yaml"
        failed = run(TOOLS / "bin" / "kubectl", "kustomize", f"deploy/k8s/{name}", "-o", built)
        return failed or run(
            TOOLS / "bin" / "kubernetes-validate", "--strict", "--kubernetes-version", _KUBERNETES, built
        )


CHECKS: Final[tuple[checks.Check, ...]] = (
    ("the tools", make_tools),
    ("Compose reads docker-compose.yml", compose),
    ("hadolint reads the Dockerfile", hadolint),
    *((f"Kubernetes: {name}", lambda name=name: overlay(name)) for name in OVERLAYS),
    ("the image's folders and programs", image.check),
)


if __name__ == "__main__":
    checks.run_all(CHECKS)
