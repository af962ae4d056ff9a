"""`make up`: a stack that stays. A keeper process of its own session holds it; a lock file says that it lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.local import interrupt, ports, prometheus, stack
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import StackError, state

_STOP_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stack that stays shall be."""

    port: int  # the first of its ports
    table_nodes: int
    bots: int  # of the house, who wait in each room that new players may enter; 0 = people alone fill tables
    tls_inside: bool  # mTLS between the processes
    certificate: Path | None  # the gateway's, and its key; None = one for development
    certificate_key: Path | None

    def arguments(self) -> list[str]:
        """The command line of `serve` for it; raises StackError when a certificate cannot be read."""
        found = [f"--port={self.port}", f"--table-nodes={self.table_nodes}", f"--bots={self.bots}"]
        found.append(f"--tls-inside={int(self.tls_inside)}")
        if (self.certificate is None) != (self.certificate_key is None):
            raise StackError("A certificate and its key go together: give both CERT and CERT_KEY, or neither.")
        for name, path in (("certificate", self.certificate), ("certificate-key", self.certificate_key)):
            if path is not None:
                if not os.access(path, os.R_OK):
                    raise StackError(f"{path} cannot be read: CERT and CERT_KEY name PEM files.")
                found.append(f"--{name}={path.absolute()}")
        return found


def up(folder: Path, wanted: Wanted) -> None:
    """Starts the stack and prints its addresses; says so when it runs already."""
    if _holder(folder) is not None:
        print(f"The stack runs already; its data is in {folder}.")
        _print_addresses(folder)
        return
    arguments = wanted.arguments()
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "deploy.local", "serve", f"--folder={folder}", f"--report={writing}"]
    with (folder / "stack.log").open("wb") as log:
        keeper = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    try:
        _follow(reading, folder)
    except BaseException:
        keeper.terminate()
        keeper.wait()
        raise
    print(f"The stack runs; its data and logs are in {folder}. `make down` stops it.")
    print(f"What it does, live: .venv/bin/ddz top --stack {shlex.quote(str(folder / 'stack.json'))}")
    _print_addresses(folder)


def _follow(reading: int, folder: Path) -> None:
    """Prints what the keeper reports until it is ready; raises StackError when it says so, or ends without a word."""
    with os.fdopen(reading) as reports:
        for line in reports:
            interrupt.check()
            kind, text = json.loads(line)
            if kind == "ready":
                return
            if kind == "error":
                raise StackError(text)
            print(f"starting {text} …", flush=True)
    raise StackError(f"The stack ended as it started; see {folder / 'stack.log'}.")


def serve(folder: Path, report: int, wanted: Wanted) -> None:
    """Holds the stack until SIGTERM. `report` is the descriptor on which `up` reads how it goes."""
    with os.fdopen(report, "w") as reports:

        def tell(kind: str, text: str = "") -> None:
            reports.write(json.dumps((kind, text)) + "\n")
            reports.flush()

        interrupt.heed(signal.SIGTERM)
        try:
            with contextlib.ExitStack() as held:
                held.enter_context(_lock(folder))
                leash = held.enter_context(Leash())
                options = stack.Options(
                    prometheus=prometheus.binary(),
                    bots=wanted.bots,
                    tls_inside=wanted.tls_inside,
                    chain=wanted.certificate,
                    key=wanted.certificate_key,
                )
                numbers = range(wanted.port, wanted.port + ports.count(wanted.table_nodes))
                plan = ports.plan(numbers, wanted.table_nodes)
                running = held.enter_context(
                    stack.running(leash, folder, plan, options, lambda step: tell("step", step))
                )
                _write_state(folder, running)
                tell("ready")
                while True:
                    interrupt.check()
                    signal.pause()
        except StackError as error:
            tell("error", str(error))
            sys.exit(1)


def down(folder: Path) -> None:
    """Stops the stack, and returns when nothing of it runs; its data stays."""
    holder = _holder(folder)
    if holder is None:
        print("No stack runs.")
        return
    os.kill(holder, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_WITHIN_S
    while _holder(folder) is not None:
        if time.monotonic() > deadline:
            os.kill(holder, signal.SIGKILL)  # its leash takes the rest along
            raise StackError(f"The stack did not stop within {_STOP_WITHIN_S:.0f} s and was killed.")
        time.sleep(0.05)
    print(f"The stack is stopped; its data is kept in {folder}.")


def status(folder: Path) -> None:
    """Prints each process and the addresses; raises StackError when no stack runs, or not all of it."""
    if _holder(folder) is None:
        raise StackError("No stack runs: `make up` starts one.")
    ended = []
    for name, pid in _state(folder)["processes"].items():
        alive = state(pid)[:1] not in ("", "Z")
        ended += [] if alive else [name]
        print(f"{name:16} {'runs' if alive else 'ENDED'}  pid {pid}")
    _print_addresses(folder)
    if ended:
        raise StackError(f"Not all of the stack runs: {', '.join(ended)} ended; the logs are in {folder}.")


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, with our pid in it; raises StackError when another process does."""
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError("Another `make up` is starting the stack.") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def runs(folder: Path) -> bool:
    """Whether a stack runs in the folder."""
    return _holder(folder) is not None


def _holder(folder: Path) -> int | None:
    """The pid that holds the lock; None when the stack does not run."""
    try:
        with (folder / "lock").open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
    except FileNotFoundError:
        pass
    return None


def _write_state(folder: Path, running: stack.Stack) -> None:
    processes = {process.name: process.popen.pid for process in running.processes}
    state = {"processes": processes, "addresses": running.addresses()}
    (folder / "stack.json").write_text(json.dumps(state, indent=1))


def _state(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "stack.json").read_text())
    return state


def _print_addresses(folder: Path) -> None:
    for name, address in _state(folder)["addresses"].items():
        print(f"  {name:24} {address}")
