"""The whole system as processes on this machine: servers, migrations, services, gateway."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local import bots, gateway, ports, prometheus, servers, services
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.ports import Ports
from deploy.local.process import Process, exchange
from servicekit.tls import Inside


@dataclass(frozen=True, slots=True)
class Options:
    """What may differ between stacks."""

    rooms_file: Path = ROOT / "deploy" / "rooms.yaml"
    deal_seed: str = ""  # hex, for demo and tests only; empty = true randomness
    drain_s: float = 10.0
    tls_inside: bool = False  # mTLS between the processes
    chain: Path | None = None  # the gateway's certificate and its key (PEM); None = one for development
    key: Path | None = None
    limits: gateway.Limits = field(default_factory=gateway.Limits)
    traces: gateway.Traces = field(default_factory=gateway.Traces)
    extra: Mapping[str, str] = field(default_factory=dict)  # more settings for the services
    bots: int = 0  # of the house, in each room
    prometheus: Path | None = None  # its program, when it shall run too


@dataclass(frozen=True, slots=True)
class Stack:
    """A running system."""

    folder: Path
    ports: Ports
    processes: list[Process]  # as they were started
    fleet: services.Fleet
    postgres: servers.Postgres
    redis_url: str
    nats_url: str

    @property
    def address(self) -> str:
        """host:port of the gateway without TLS."""
        return f"127.0.0.1:{self.ports.gateway}"

    @property
    def tls_address(self) -> str:
        """host:port of the gateway with TLS."""
        return f"127.0.0.1:{self.ports.gateway_tls}"

    @property
    def certificate(self) -> bytes:
        """The gateway's certificate as PEM; it is its own authority."""
        return (self.folder / "gateway" / "certificate.pem").read_bytes()

    @property
    def inside(self) -> Inside | None:
        """What an operator shows to the services; None without TLS between processes."""
        return self.fleet.operator

    def grpc_address(self, service: str, number: int = 1) -> str:
        """host:port of a service's process, numbered from 1."""
        return f"127.0.0.1:{self.ports.services[service][number - 1].grpc}"

    def addresses(self) -> dict[str, str]:
        """What a person may want to open, by name."""
        host = "127.0.0.1"
        found = {"page to play on": f"http://{self.address}/"}
        found |= {"gateway (gRPC, REST)": f"http://{self.address}", "gateway with TLS": f"https://{self.tls_address}"}
        found |= {"REST": f"http://{self.address}/v1/", "health": f"http://{self.address}/healthz"}
        found |= {"metrics of gateway": f"http://{host}:{self.ports.gateway_metrics}/metrics"}
        for service, nodes in self.ports.services.items():
            for number, node in enumerate(nodes, 1):
                found |= {f"metrics of {service}-{number}": f"http://{host}:{node.metrics}/metrics"}
        if any(process.name == "Prometheus" for process in self.processes):
            found |= {"Prometheus": f"http://{host}:{self.ports.prometheus}/"}
        return found


def _quiet(_: str) -> None:
    pass


@contextlib.contextmanager
def running(
    leash: Leash, folder: Path, plan: Ports, options: Options, say: Callable[[str], None] = _quiet
) -> Iterator[Stack]:
    """Starts everything, each as soon as what it stands on answers; stops everything at the end.

    `folder` keeps data and logs. `say` is told of each step. Raises StackError when a part cannot start.
    """
    ports.claim(plan.wanted())
    logs = folder / "services"
    logs.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        say("Postgres, Valkey, NATS")
        nats = held.enter_context(servers.nats(leash, folder / "nats", plan.nats))
        valkey = held.enter_context(servers.valkey(leash, folder / "valkey", plan.valkey))
        postgres = held.enter_context(servers.postgres(leash, folder / "postgres", plan.postgres))
        say("migrations")
        services.migrate(postgres)
        say(", ".join(plan.services))
        door = folder / "gateway"
        inside = services.certify(folder / "inside", plan) if options.tls_inside else None
        trust = gateway.Trust(options.chain, options.key, inside)
        doors = gateway.Doors(plan.gateway, plan.gateway_tls, plan.gateway_metrics, trust, options.traces)
        nodes = {service: [node.grpc for node in found] for service, found in plan.services.items()}
        configuration = gateway.prepare(door, doors, nodes, options.limits)
        backends = services.Backends(
            postgres, valkey.url, nats.url, gateway.private_keys(door), options.rooms_file, options.deal_seed,
            options.drain_s, inside, options.traces,
        )  # fmt: skip
        extra = (bots.SETTINGS if options.bots else {}) | dict(options.extra)
        fleet = services.Fleet(leash, logs, plan, backends, extra)
        held.enter_context(services.all_running(fleet))
        say("gateway")
        envoy = held.enter_context(servers.gateway(leash, door, configuration, plan.gateway_metrics))
        ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        envoy.wait_until(lambda: exchange(plan.gateway, ask, b"HTTP/1.1 200"))
        everything = [postgres.process, valkey.process, nats.process, *fleet.processes, envoy]
        if options.bots:
            say("bots")
            everything.append(held.enter_context(bots.running(leash, logs, plan.gateway, options.bots)))
        if options.prometheus:
            say("Prometheus")
            store, found = folder / "prometheus", prometheus.targets(plan)
            looking = prometheus.running(leash, options.prometheus, store, plan.prometheus, found)
            everything.append(held.enter_context(looking))
        yield Stack(folder, plan, everything, fleet, postgres, valkey.url, nats.url)
