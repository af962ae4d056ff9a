"""Processes on a leash: whatever way their owner ends, kill -9 included, they end with it.

The owner starts a keeper (this file, run as a script), which leads a process group of its own and reads a pipe that
the owner alone can write. All other processes join that group as they start. When the owner is gone the pipe ends;
the keeper kills the group at once and removes the scratch folder. Only POSIX is asked for, so macOS will do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_REMOVED_WITHIN_S = 10.0


class Leash:
    """A group of processes that lives at most as long as the process that made it.

    `scratch` is a folder to remove once the group is gone. Use as a context manager, or call `close`.
    """

    def __init__(self, scratch: Path | None = None) -> None:
        self.scratch = scratch
        self._children: list[subprocess.Popen[bytes]] = []
        self._keeper = subprocess.Popen(
            [sys.executable, "-E", "-S", __file__, *([str(scratch)] if scratch else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            process_group=0,
        )

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path,
        env: Mapping[str, str],
        user: Mapping[str, Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program with its output appended to `log`; `user` is account.run_as of who shall run it.

        Raises OSError when the program cannot be run.
        """
        with log.open("ab") as output:
            child = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(env),
                process_group=self._keeper.pid,
                **(user or {}),
            )
        self._children.append(child)
        return child

    def close(self) -> None:
        """Kills what still runs, and returns when all of it is gone."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        for child in self._children:
            child.wait()
        self._keeper.stdout.read()  # ends when the keeper's last act is done
        self._keeper.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def end_with_make(end: Callable[[], object] = lambda: os._exit(1)) -> None:
    """Calls `end`, in a thread, when the `make` that runs this process is gone, or was before this call.

    The Makefile gives make's process number in DDZ_MAKE_PID; without it nothing happens. It is not passed on: the
    processes that this one starts have another parent.
    """
    make = os.environ.pop("DDZ_MAKE_PID", "")
    if not make:
        return

    def watch() -> None:
        while os.getppid() == int(make):
            time.sleep(0.2)
        end()

    threading.Thread(target=watch, name="end-with-make", daemon=True).start()


def _keep(scratch: str | None) -> None:
    """Waits for the owner's end, then kills the group; a fork that has left the group does it and cleans up."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    group = os.getpgrp()
    if os.fork():
        while True:
            signal.pause()
    os.setsid()
    os.killpg(group, signal.SIGKILL)
    # Postgres's backends are in sessions of their own: they end when it has, and may write until then.
    deadline = time.monotonic() + _REMOVED_WITHIN_S
    while scratch and os.path.exists(scratch) and time.monotonic() < deadline:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    _keep(sys.argv[1] if len(sys.argv) > 1 else None)
