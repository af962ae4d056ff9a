"""What `make chaos-table` plays on: two table nodes behind Envoy, and what they need."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddz.common.v1 import common_pb2
from deploy.local import folders, gateway, ports, servers
from deploy.local.leash import Leash
from deploy.local.process import Process
from tests.chaos.lobby_keys import serving_keys
from tests.chaos.table_player import Tokens
from tests.services.table.stack import is_serving

CLOCKS = common_pb2.Clocks(
    base_ms=20_000,
    agree_ms=20_000,
    auction_ms=10_000,
    show_window_ms=100,
    show_ms=5_000,
    first_lead_ms=10_000,
    play_ms=10_000,
    trustee_ms=2_000,
    countdown_ms=300,
    seed_ms=50,
)


def terms(book: str) -> common_pb2.Terms:
    """A room for the chaos; `classic` agrees on its base."""
    return common_pb2.Terms(
        room_id=f"chaos-{book}",
        book=book,
        base_min_chips=1,
        base_max_chips=10 if book == "classic" else 1,
        initial_multiplier=1,
        rake_chips=1 if book == "rob" else 0,
        minimum_chips=10,
        clocks=CLOCKS,
        matched=book == "rob",
    )


@dataclass
class Victim:
    """A program that can be killed and started again just as it was."""

    name: str
    start: Callable[[], Process]
    process: Process
    deaths_ms: list[int] = field(default_factory=list)

    def kill(self) -> None:
        self.process.popen.kill()
        self.process.popen.wait()
        self.deaths_ms.append(time.time_ns() // 1_000_000)
        self.process = self.start()


@dataclass
class Rig:
    """Everything that runs."""

    nodes: list[Victim]
    ledger: Victim
    nats: Victim
    envoy: Victim
    valkey: servers.Server
    gateway_port: int
    node_ports: list[int]
    ledger_port: int
    tokens: Tokens
    folder: Path


@contextlib.contextmanager
def rig(leash: Leash, folder: Path) -> Any:
    """Starts servers, ledger, two table nodes and the gateway."""
    with contextlib.ExitStack() as held:
        nats_port, valkey_port, postgres_port, gateway_port, tls_port, metrics_port = ports.free(6)
        valkey = held.enter_context(servers.valkey(leash, folder / "valkey", valkey_port))
        nats = held.enter_context(servers.nats(leash, folder / "nats", nats_port))
        postgres = held.enter_context(servers.postgres(leash, folder / "postgres", postgres_port))
        migrate = {"DDZ_POSTGRES_OWNER_DSN": postgres.dsn("ddz_owner")}
        done = _program(leash, folder, "ledger-migrate", "services.ledger", migrate, "migrate")
        if done.popen.wait():
            raise SystemExit(done.tail())
        ledger_port, *node_ports = ports.free(3)
        ledger_env = {"DDZ_POSTGRES_DSN": postgres.dsn("ddz_ledger"), "DDZ_NATS_URL": nats.url}
        ledger = _service(leash, folder, "ledger", ledger_port, ledger_env)
        table_env = {
            "DDZ_REDIS_URL": valkey.url,
            "DDZ_NATS_URL": nats.url,
            "DDZ_LEDGER_TARGET": f"127.0.0.1:{ledger_port}",
            "DDZ_TABLE_KEEP_S": "7200",
        }
        nodes = [_service(leash, folder, "table", port, table_env) for port in node_ports]
        for victim, port in zip((ledger, *nodes), (ledger_port, *node_ports), strict=True):
            victim.process.wait_until(lambda: is_serving(port))  # noqa: B023
        doors = gateway.Doors(gateway_port, tls_port, metrics_port)
        (lobby_port,) = ports.free(1)
        plan = {"lobby": [lobby_port], "matchmaking": [ledger_port], "ledger": [ledger_port], "table": node_ports}
        limits = gateway.Limits(player_per_s=10_000, player_burst=10_000)
        configuration = gateway.prepare(folder / "gateway", doors, plan, limits)
        held.enter_context(serving_keys(gateway.private_keys(folder / "gateway"), lobby_port))
        start_envoy = _envoy(leash, folder / "gateway", configuration)
        envoy = Victim("envoy", start_envoy, start_envoy())
        restart_nats = _again(leash, nats.process, folder / "nats")
        tokens = Tokens(gateway.private_keys(folder / "gateway"))
        yield Rig(
            nodes,
            ledger,
            Victim("nats", restart_nats, nats.process),
            envoy,
            valkey,
            gateway_port,
            node_ports,
            ledger_port,
            tokens,
            folder,
        )


def _program(leash: Leash, folder: Path, name: str, module: str, env: dict[str, str], *arguments: str) -> Process:
    argv: list[str | Path] = [sys.executable, "-m", module, *arguments]
    return servers.run(leash, name, argv, folder, env=servers.environment() | env, cwd=folders.ROOT)


def _service(leash: Leash, folder: Path, service: str, port: int, env: dict[str, str]) -> Victim:
    name = f"{service}-{port}"

    def start() -> Process:
        own = {"DDZ_GRPC_ADDRESS": f"127.0.0.1:{port}", "DDZ_METRICS_ADDRESS": "127.0.0.1:0", "DDZ_NODE_ID": name}
        return _program(leash, folder, name, f"services.{service}", {**env, **own, "DDZ_LOG_LEVEL": "WARNING"})

    return Victim(name, start, start())


def _envoy(leash: Leash, folder: Path, configuration: Path) -> Callable[[], Process]:
    argv: list[str | Path] = [servers.envoy_binary(), "-c", configuration, "--disable-hot-restart"]
    return lambda: servers.run(leash, "Envoy", [*argv, "--concurrency", "1", "-l", "error"], folder)


def _again(leash: Leash, process: Process, folder: Path) -> Callable[[], Process]:
    """Starts a program with the arguments that it was started with."""
    argv = [str(part) for part in process.popen.args] if isinstance(process.popen.args, list) else []
    own = argv[argv.index("--") + 1 :] if "--" in argv else argv
    return lambda: servers.run(leash, process.name, own, folder)
