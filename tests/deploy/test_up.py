"""`make up`, `down`, `status` and `demo` as a person meets them: what they say, and what they leave."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import folders, ports, prometheus
from tests.deploy.processes import eventually, naming, running


def local(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `python -m deploy.local` to its end."""
    command = [sys.executable, "-m", "deploy.local", *arguments]
    return subprocess.run(
        command,
        cwd=folders.ROOT,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def port_row() -> int:
    """The first of as many free ports in a row as a stack needs."""
    for port in ports.free(50):
        if all(ports.is_free(port + step) for step in range(ports.count(1))):
            return port
    raise AssertionError("no row of free ports")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a stack that stays; the stack is stopped at the end."""
    path = folders.scratch() / "local"
    yield path
    local("down", f"--folder={path}")
    subprocess.run(["rm", "-rf", str(path.parent)], check=True)


def pids(folder: Path) -> dict[str, int]:
    """The processes of a stack by their names."""
    found: dict[str, int] = json.loads((folder / "stack.json").read_text())["processes"]
    return found


@pytest.mark.timeout(300)
def test_a_stack_that_stays_says_what_it_does_and_leaves_nothing_but_its_data(folder: Path) -> None:
    port = port_row()
    person = {"TLS_INSIDE": "1", "PGSSLMODE": "verify-full"}  # what he told Postgres' clients says nothing of this one
    first = local("up", f"--folder={folder}", f"--port={port}", "--bots=1", env=person)
    assert first.returncode == 0, first.stderr
    assert f"http://127.0.0.1:{port}" in first.stdout
    assert str(folder) in first.stdout
    assert (folder / "inside" / "ca.pem").exists()
    again = local("up", f"--folder={folder}", f"--port={port}")
    assert (again.returncode, again.stdout.split(";")[0]) == (0, "The stack runs already")
    assert local("status", f"--folder={folder}").returncode == 0
    backup = folder.parent / "ddz.dump.gz"
    assert local("backup", f"--folder={folder}", str(backup)).stdout == f"The database is in {backup}.\n"
    refused = local("restore", f"--folder={folder}", str(backup))
    assert (refused.returncode, refused.stderr) == (1, "The stack runs: `make down` first.\n")
    nobody = local("operator", f"--folder={folder}", "nobody-yet")
    assert (nobody.returncode, nobody.stderr.count("\n")) == (1, 1)

    started = pids(folder)
    assert len(started) == (10 if prometheus.binary() else 9)
    os.kill(started["lobby-1"], signal.SIGKILL)
    status = local("status", f"--folder={folder}")
    assert status.returncode == 1
    assert "lobby-1 ended" in status.stderr
    os.kill(int((folder / "lock").read_text()), signal.SIGKILL)  # its keeper
    assert eventually(lambda: not any(running(pid) for pid in started.values()))
    assert eventually(lambda: naming(folder) == [])
    assert "No stack runs." in local("down", f"--folder={folder}").stdout

    afresh = local("up", f"--folder={folder}", f"--port={port_row()}")
    assert afresh.returncode == 0, afresh.stderr
    started = pids(folder)
    down = local("down", f"--folder={folder}")
    assert down.returncode == 0, down.stderr
    assert not any(running(pid) for pid in started.values())
    assert naming(folder) == []
    assert (folder / "postgres" / "data").is_dir()
    after = local("status", f"--folder={folder}")
    assert (after.returncode, after.stderr) == (1, "No stack runs: `make up` starts one.\n")


def test_a_taken_port_is_one_sentence_and_nothing_runs(folder: Path) -> None:
    port = port_row()
    with socket.create_server(("127.0.0.1", port + 3)):
        done = local("up", f"--folder={folder}", f"--port={port}")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"Port {port + 3}, wanted for Postgres, is taken: stop what uses it, or choose others with PORT=number."
    )
    assert naming(folder) == []


def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = local("up", f"--folder={tmp_path / 'file'}")
    assert (done.returncode, done.stderr) == (1, f"{tmp_path / 'file'} cannot be used: File exists.\n")


@pytest.mark.parametrize(
    ("command", "name", "values", "wanted"),
    [
        ("demo", "HANDS", ["many", "0", "-1", "1.5", "1_0", "٣"], "how many hands to play: a whole number from 1 to "),
        ("demo", "SEED", ["x"], "which deals: a whole number"),
        ("up", "PORT", ["99999999", "0", "65530", "-1", "x"], "the first of the stack's ports: a whole number from "),
        ("up", "TABLE_NODES", ["0", "-1", "1000", "two"], "how many table processes to start: a whole number from 1 "),
    ],
)
def test_a_number_out_of_range_is_one_sentence_that_names_it(
    command: str, name: str, values: list[str], wanted: str
) -> None:
    for value in values:
        done = local(command, env={name: value})
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"{name} is {wanted}"), done.stderr
        assert done.stderr.endswith(f", not '{value}'.\n"), done.stderr


@pytest.mark.parametrize(
    ("moment", "signum"),
    [
        ("servers", signal.SIGKILL),
        ("services", signal.SIGINT),
        ("play", signal.SIGTERM),
    ],
)
def test_a_demo_that_is_killed_leaves_nothing(scratch: Path, moment: str, signum: signal.Signals) -> None:
    temp = scratch / f"demo-{moment}-{signum}"
    temp.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.local", "demo", "--hands=60"],  # more than it can play before it is killed
        cwd=folders.ROOT,
        env=os.environ | {"TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as demo:
        assert demo.stdout is not None
        for _ in range({"servers": 1, "services": 3, "play": 4}[moment]):
            assert demo.stdout.readline()
        assert moment != "play" or eventually(lambda: bots_play(temp))
        assert naming(temp)
        demo.send_signal(signum)
        assert demo.wait(60) != 0
    assert eventually(lambda: naming(temp) == [])
    assert eventually(lambda: list(temp.iterdir()) == [])


def bots_play(temp: Path) -> bool:
    """Whether a table has been opened, by the log that Valkey appends to."""
    return any(b":t:m" in log.read_bytes() for log in temp.glob("*/valkey/appendonlydir/*.incr.aof"))
