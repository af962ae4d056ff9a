"""One running program of the stack: its log, its readiness, its end."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.local import interrupt

_POLL_S = 0.02
_TAIL_LINES = 12


class StackError(Exception):
    """The stack cannot do what was asked; the message is one sentence for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Process:
    """A started program."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])

    def faults(self) -> list[str]:
        """The lines of its log that tell of errors, if it is one of our services."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in lines if '"level": "error"' in line or '"level": "critical"' in line]

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Polls `ready`; raises StackError with the log's last lines when the program ends first or is too slow.

        Raises KeyboardInterrupt when a signal has asked for the end.
        """
        deadline = time.monotonic() + timeout_s
        while not ready():
            interrupt.check()
            if not self.alive():
                raise StackError(f"{self.name} ended with code {self.popen.returncode} as it started:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} was not ready after {timeout_s:.0f} s:\n{self.tail()}")
            time.sleep(_POLL_S)

    def stop(self, signum: int = signal.SIGTERM, grace_s: float = 15.0) -> None:
        """Asks it to end, and kills it when it has not after `grace_s` seconds."""
        if self.alive():
            self.popen.send_signal(signum)
        try:
            self.popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def state(pid: int) -> str:
    """What ps says of a process: empty when there is none, Z first when it is dead and its parent has not looked."""
    ps = ["ps", "-o", "stat=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()


def exchange(port: int, send: bytes, expect: bytes) -> bool:
    """Whether the server on loopback answers `send` with something that begins with `expect`."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
        connection.sendall(send)
        answer = b""
        while expect.startswith(answer) and answer != expect:
            part = connection.recv(len(expect) - len(answer))
            if not part:
                return False
            answer += part
        return answer == expect
    return False
