"""The four services of a local stack as processes: what each is told, migrations first, healthy before it counts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.local import certificates, gateway, servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.ports import Node, Ports
from deploy.local.process import Process, StackError
from servicekit import tls

MIGRATED: Final = ("ledger", "lobby")
_MIGRATE_S: Final = 60.0
_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
)


@dataclass(frozen=True, slots=True)
class Backends:
    """What the services stand on."""

    postgres: servers.Postgres
    redis_url: str
    nats_url: str
    keys_file: Path
    rooms_file: Path
    deal_seed: str  # hex; empty = true randomness
    drain_s: float
    inside: Path | None = None  # the folder of everybody's certificates; None = no TLS between processes
    traces: gateway.Traces = field(default_factory=gateway.Traces)


def _target(nodes: list[Node]) -> str:
    """A gRPC target that takes the nodes in turn."""
    return "ipv4:" + ",".join(f"127.0.0.1:{node.grpc}" for node in nodes)


def settings(service: str, ports: Ports, backends: Backends) -> dict[str, str]:
    """The environment of a service besides its own addresses; nobody gets a secret that is not his."""
    redis = {"DDZ_REDIS_URL": backends.redis_url}
    nats = {"DDZ_NATS_URL": backends.nats_url}
    ledger = {"DDZ_LEDGER_TARGET": _target(ports.services["ledger"])}
    table = {"DDZ_TABLE_TARGET": _target(ports.services["table"])}
    rooms = {"DDZ_ROOMS_FILE": str(backends.rooms_file)}
    keys = {"DDZ_JWT_KEYS_FILE": str(backends.keys_file)}
    postgres = {role: {"DDZ_POSTGRES_DSN": backends.postgres.dsn(role)} for role in ("ddz_ledger", "ddz_lobby")}
    own: dict[str, dict[str, str]] = {
        "ledger": postgres["ddz_ledger"] | nats,
        "lobby": postgres["ddz_lobby"] | redis | nats | ledger | table | rooms | keys | {"DDZ_ACCOUNTS_PER_HOUR": "0"},
        "matchmaking": redis | nats | ledger | table | rooms | {"DDZ_DEAL_SEED": backends.deal_seed},
        "table": redis | nats | ledger | {"DDZ_DEAL_SEED": backends.deal_seed},
    }
    shown = {} if backends.inside is None else certificates.settings(backends.inside, service)
    everybody = {"DDZ_DRAIN_S": str(backends.drain_s), "DDZ_STREAMS_PER_ADDRESS": "0"}  # all have one address here
    return own[service] | shown | everybody | backends.traces.settings()


def certify(folder: Path, ports: Ports) -> Path:
    """Makes a certificate for everybody inside, in `folder`, and returns that."""
    certificates.inside(folder, [*ports.services, certificates.GATEWAY, certificates.OPERATOR])
    return folder


def _operator(folder: Path | None) -> tls.Inside | None:
    if folder is None:
        return None
    told = certificates.settings(folder, certificates.OPERATOR)
    return tls.Inside.read(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"])


def migrate(postgres: servers.Postgres) -> None:
    """Brings the schemas up to date as `python -m services.<name> migrate` does; raises StackError, which says why.

    In this process: one that imports a service takes much longer to start than the migrations take.
    """
    # `status` and `down` need not wait for Postgres' client to be imported.
    import asyncpg

    from servicekit import migrations

    async def apply() -> None:
        for service in MIGRATED:
            folder = ROOT / "services" / service / "migrations"
            async with asyncio.timeout(_MIGRATE_S):  # somebody else may hold the lock
                # The person's own PGSSLMODE and the like say nothing about this server.
                await migrations.apply(f"{postgres.dsn('ddz_owner')}?sslmode=disable", folder, service)

    with ThreadPoolExecutor(1) as beside:  # the caller may have an event loop
        try:
            beside.submit(asyncio.run, apply()).result()
        except (migrations.MigrationError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            why = " ".join(str(error).split())  # Postgres may say it in several lines
            raise StackError(f"The database could not be brought up to date: {why}") from error


def _command(service: str, *arguments: str) -> list[str | Path]:
    return [sys.executable, "-m", f"services.{service}", *arguments]


class Fleet:
    """Every process of the four services; `extra` goes into each one's environment.

    `operator` is what the person shows to them who runs them; None without TLS between processes.
    """

    def __init__(
        self, leash: Leash, folder: Path, ports: Ports, backends: Backends, extra: Mapping[str, str] | None = None
    ) -> None:
        self._leash, self._folder = leash, folder
        self._drain_s = backends.drain_s
        self.operator = _operator(backends.inside)
        self._nodes: dict[str, tuple[str, Node, dict[str, str]]] = {}  # by name: service, addresses, its environment
        self._running: dict[str, Process] = {}
        for service, nodes in ports.services.items():
            told = settings(service, ports, backends) | dict(extra or {})
            self._nodes |= {f"{service}-{number}": (service, node, told) for number, node in enumerate(nodes, 1)}

    @property
    def names(self) -> list[str]:
        """What `restart` may be told: lobby-1 and the like."""
        return list(self._nodes)

    @property
    def processes(self) -> list[Process]:
        """Those that run now."""
        return list(self._running.values())

    def start(self) -> None:
        """Starts all; returns when all are healthy."""
        for name in self._nodes:
            self._start(name)
        for name in self._nodes:
            self._wait_until_healthy(name)

    def restart(self, *names: str) -> None:
        """Ends processes as a deployment does, by SIGTERM, and starts them again; returns when they are healthy."""
        self._end(names)
        for name in names:
            self._start(name)
        for name in names:
            self._wait_until_healthy(name)

    def process(self, name: str) -> Process:
        """The one that runs under this name now."""
        return self._running[name]

    def kill(self, name: str) -> None:
        """Ends a process as a crash does, by SIGKILL, and starts it again; returns when it is healthy."""
        process = self._running.pop(name)
        process.popen.kill()
        process.popen.wait()
        self._start(name)
        self._wait_until_healthy(name)

    def stop(self) -> None:
        """Ends all. The ledger stops last: it is still asked."""
        for last in (False, True):
            self._end([name for name in self._running if name.startswith("ledger") is last])

    def _end(self, names: Iterable[str]) -> None:
        leaving = [self._running.pop(name) for name in names]
        for process in leaving:
            process.popen.terminate()
        for process in leaving:
            process.stop(grace_s=self._drain_s + 5)

    def _start(self, name: str) -> None:
        service, node, told = self._nodes[name]
        env = servers.environment() | {
            "DDZ_GRPC_ADDRESS": f"127.0.0.1:{node.grpc}",
            "DDZ_METRICS_ADDRESS": f"127.0.0.1:{node.metrics}",
            "DDZ_NODE_ID": name,
            **told,
        }
        self._running[name] = servers.run(self._leash, name, _command(service), self._folder, env=env, cwd=ROOT)

    def _wait_until_healthy(self, name: str) -> None:
        process, port = self._running[name], self._nodes[name][1].grpc
        process.wait_until(lambda: is_serving(port, self.operator))


@contextlib.contextmanager
def all_running(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, healthy; ended with the context."""
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


def is_serving(port: int, inside: tls.Inside | None = None) -> bool:
    """Whether the gRPC health service on loopback says SERVING."""
    with tls.channel(f"127.0.0.1:{port}", inside, _CHANNEL_OPTIONS) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
