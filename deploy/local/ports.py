"""Ports on loopback: free ones for throw-away stacks, stated ones for a stack that stays."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deploy.local.process import StackError

# Below what Linux and macOS hand out for outgoing connections, so that none of those takes a port before its server.
RANGE: Final = range(20_000, 32_000)
SHARE: Final = "DDZ_PORT_SHARE"  # "2/3": of three that start stacks at the same time this is the second


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free(number: int) -> list[int]:
    """As many different free ports as asked for, of this process's share: others may be about to take what is free."""
    found: list[int] = []
    share, shares = map(int, os.environ.get(SHARE, "1/1").split("/"))
    width = len(RANGE) // shares
    mine = RANGE[width * (share - 1) : width * share]
    order = random.SystemRandom().sample(mine, len(mine))
    for port in order:
        if len(found) == number:
            return found
        if is_free(port):
            found.append(port)
    raise StackError(f"Fewer than {number} ports are free between {RANGE.start} and {RANGE.stop}.")


def claim(wanted: dict[str, int]) -> None:
    """Raises StackError that names the first port of `wanted` (purpose -> port) which another process has."""
    for purpose, port in wanted.items():
        if not is_free(port):
            raise StackError(
                f"Port {port}, wanted for {purpose}, is taken: stop what uses it, or choose others with PORT=number."
            )


@dataclass(frozen=True, slots=True)
class Node:
    """Where one process of a service listens."""

    grpc: int
    metrics: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Every port of a stack."""

    gateway: int
    gateway_tls: int
    gateway_metrics: int
    postgres: int
    valkey: int
    nats: int
    services: dict[str, list[Node]]  # by service, one Node a process
    prometheus: int

    def wanted(self) -> dict[str, int]:
        """What each port is for, in the words of a message."""
        named = {"the gateway": self.gateway, "the gateway's TLS": self.gateway_tls, "Postgres": self.postgres}
        named |= {"the gateway's metrics": self.gateway_metrics, "Valkey": self.valkey, "NATS": self.nats}
        for service, nodes in self.services.items():
            for node in nodes:
                named |= {f"the {service} service": node.grpc, f"the {service} service's metrics": node.metrics}
        return named | {"Prometheus": self.prometheus}


SERVICES: Final = ("lobby", "matchmaking", "ledger", "table")


def plan(numbers: Iterable[int], table_nodes: int) -> Ports:
    """Gives out `numbers` in one order: gateway, TLS, its metrics, Postgres, Valkey, NATS, each process's two, and
    Prometheus.
    """
    take = iter(numbers)
    first = [next(take) for _ in range(6)]
    nodes = {name: [Node(next(take), next(take))] for name in SERVICES}
    nodes["table"] += [Node(next(take), next(take)) for _ in range(table_nodes - 1)]
    gateway, tls, metrics, postgres, valkey, nats = first
    return Ports(gateway, tls, metrics, postgres, valkey, nats, nodes, next(take))


def count(table_nodes: int) -> int:
    """How many ports a stack with so many table nodes needs."""
    return 7 + 2 * (len(SERVICES) + table_nodes - 1)
