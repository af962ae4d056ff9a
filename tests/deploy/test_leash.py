"""Whatever way the owner of a leash ends, its processes end and its scratch folder goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import folders
from deploy.local.leash import Leash
from tests.deploy.processes import eventually, running

OWNER = """
import os, sys
from pathlib import Path
from deploy.local.leash import Leash
scratch = Path(sys.argv[1])
leash = Leash(scratch)
children = [leash.start(["sleep", "600"], log=scratch / "log", cwd=scratch, env=os.environ) for _ in range(3)]
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""

MADE = """
import sys, time
from deploy.local import leash
leash.end_with_make()
print(flush=True)
time.sleep(600)
"""

MAKE = """
import os, subprocess, sys
os.environ["MAKELEVEL"] = "1"
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_everything_ends_with_the_owner(signum: signal.Signals | None) -> None:
    scratch = folders.scratch()
    command = [sys.executable, "-c", OWNER, str(scratch)]
    with subprocess.Popen(
        command, cwd=folders.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 3
        assert all(running(pid) for pid in pids)
        if signum is not None:
            owner.send_signal(signum)
    assert eventually(lambda: not any(running(pid) for pid in pids))
    assert eventually(lambda: not scratch.exists())


def test_a_leash_that_is_closed_leaves_nothing() -> None:
    scratch = folders.scratch()
    with Leash(scratch) as leash:
        child = leash.start(["sleep", "600"], log=scratch / "log", cwd=scratch, env=os.environ)
    assert child.returncode == -signal.SIGKILL
    assert not scratch.exists()


def test_what_make_runs_ends_when_make_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", MAKE, MADE], cwd=folders.ROOT, stdout=subprocess.PIPE) as make:
        assert make.stdout is not None
        pid = int(make.stdout.readline())
        assert running(pid)
        make.kill()
    assert eventually(lambda: not running(pid))


def test_a_program_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with Leash() as leash, pytest.raises(OSError, match="nowhere"):
        leash.start(["/nowhere/at/all"], log=tmp_path / "log", cwd=tmp_path, env={})
