"""Makes an account of the local stack an operator's, next to its database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.local import lasting, servers
from deploy.local.folders import ROOT
from deploy.local.process import StackError


def appoint(folder: Path, name: str) -> str:
    """What the lobby's own command says of the account that logs in by `name`; raises StackError when it cannot."""
    if not lasting.runs(folder):
        raise StackError("No stack runs: `make up` starts one.")
    owner = servers.running_postgres(folder / "postgres").superuser_dsn
    command = [sys.executable, "-m", "services.lobby", "appoint", name]
    env = os.environ | {"DDZ_POSTGRES_OWNER_DSN": owner}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(done.stderr.strip())
    return done.stdout.strip()
