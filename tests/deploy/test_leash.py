"""Whatever way the owner of a leash ends, its processes end and its scratch folder goes."""

from __future__ import annotations

import os
import shutil
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
os.environ["DDZ_MAKE_PID"] = str(os.getpid())
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


SETUP = """
from pathlib import Path
from deploy.local import setup
setup.PYTHON = Path({pip!r})
setup.end_in_time()
print(flush=True)
setup.pip("everything")
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


def test_what_make_runs_ends_when_make_was_killed_before_it_looked() -> None:
    with subprocess.Popen(["true"]) as make:
        make.wait()
    done = subprocess.run(
        [sys.executable, "-c", MADE],
        cwd=folders.ROOT,
        env=os.environ | {"DDZ_MAKE_PID": str(make.pid)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1


@pytest.mark.parametrize("target", ["demo", "up", "test"])
def test_the_makefile_names_its_make_to_what_it_runs(tmp_path: Path, target: str) -> None:
    told = tmp_path / "told"
    told.write_text("#!/bin/sh\necho $DDZ_MAKE_PID $PPID\n")
    told.chmod(0o755)
    command = ["make", "-s", target, f"PYTHON={shutil.which('true')}", f"PY={told}"]
    with subprocess.Popen(command, cwd=folders.ROOT, stdout=subprocess.PIPE, text=True) as make:
        assert make.communicate(timeout=60)[0].split() == [str(make.pid)] * 2


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, None])
def test_an_installation_ends_with_its_setup_and_its_make(tmp_path: Path, signum: signal.Signals | None) -> None:
    pip = tmp_path / "python"
    pip.write_text('#!/bin/sh\necho $$ > "$(dirname "$0")/pid"\nexec sleep 600\n')
    pip.chmod(0o755)
    code = SETUP.format(pip=str(pip))
    with subprocess.Popen([sys.executable, "-c", MAKE, code], cwd=folders.ROOT, stdout=subprocess.PIPE) as make:
        assert make.stdout is not None
        setup = int(make.stdout.readline())
        assert eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        installing = int((tmp_path / "pid").read_text())
        if signum is None:
            make.kill()
        else:
            os.kill(setup, signum)
        assert eventually(lambda: not running(installing) and not running(setup))


def test_a_program_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with Leash() as leash, pytest.raises(OSError, match="nowhere"):
        leash.start(["/nowhere/at/all"], log=tmp_path / "log", cwd=tmp_path, env={})
