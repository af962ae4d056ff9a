"""Ports on loopback: free ones for throw-away stacks, stated ones for a stack that stays."""

from __future__ import annotations

import random
import socket

from deploy.local.process import StackError

# Below what Linux and macOS hand out for outgoing connections, so that none of those takes a port before its server.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free(count: int) -> list[int]:
    """As many different free ports as asked for."""
    found: list[int] = []
    order = random.SystemRandom().sample(_RANGE, len(_RANGE))
    for port in order:
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise StackError(f"Fewer than {count} ports are free between {_RANGE.start} and {_RANGE.stop}.")


def claim(wanted: dict[str, int]) -> None:
    """Raises StackError that names the first port of `wanted` (purpose -> port) which another process has."""
    for purpose, port in wanted.items():
        if not is_free(port):
            raise StackError(f"Port {port}, wanted for {purpose}, is taken: stop what uses it, or choose other ports.")
