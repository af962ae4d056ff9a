"""One shape of process: `run(name, config, build)` makes the event loop, the server, health, reflection and the drain.

SIGTERM and SIGINT drain: health turns NOT_SERVING, the service's own `drain` runs (it may refuse new work and finish
the old), calls in flight get `drain_s` seconds, then the process ends. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from servicekit import logs, metrics, traces
from servicekit.config import ConfigError, is_address, setting
from servicekit.crowd import Crowd
from servicekit.interceptor import Guard
from servicekit.remote import Caller
from servicekit.tls import NAME, Inside, aio_channel

log = logs.get("server")

_ADDRESS: Final = (is_address, "host:port")
_MAYBE: Final = (lambda text: not text or is_address(text), "host:port or empty")
_SHARE: Final = (lambda text: 0 <= float(text) <= 1, "from 0 to 1")
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What every process reads."""

    grpc_address: str = setting("DDZ_GRPC_ADDRESS", "host:port on which gRPC listens", form=_ADDRESS)
    metrics_address: str = setting("DDZ_METRICS_ADDRESS", "host:port on which /metrics is served", form=_ADDRESS)
    log_level: str = setting("DDZ_LOG_LEVEL", "how much is logged", "INFO", choices=_LEVELS)
    drain_s: float = setting("DDZ_DRAIN_S", "seconds that calls in flight get after SIGTERM", 10.0, least=0)
    streams_per_address: int = setting(
        "DDZ_STREAMS_PER_ADDRESS", "streams that one address may hold open; 0 = any number", 1_000, least=0
    )
    streams_per_player: int = setting(
        "DDZ_STREAMS_PER_PLAYER", "streams that one player may hold open; 0 = any number", 32, least=0
    )
    otlp_endpoint: str = setting(
        "DDZ_OTLP_ENDPOINT", "host:port of the OTLP collector (gRPC) for traces; empty = no traces", "", form=_MAYBE
    )
    trace_ratio: float = setting("DDZ_TRACE_RATIO", "share of the traces begun here that are told", 1.0, form=_SHARE)
    node_id: str = setting("DDZ_NODE_ID", "the name of this process in traces; of a table node everywhere", "")
    tls_cert: str = setting("DDZ_TLS_CERT", "certificate for mTLS between processes (PEM); empty = no TLS", "")
    tls_key: str = setting("DDZ_TLS_KEY", "its private key (PEM)", "")
    tls_ca: str = setting("DDZ_TLS_CA", "the authority whose certificates are believed, and no other's (PEM)", "")
    tls_name: str = setting("DDZ_TLS_NAME", "the name in the certificate of every process", NAME)

    def inside(self) -> Inside | None:
        """What goes between processes; None = no TLS. Raises ConfigError."""
        return Inside.read(self.tls_cert, self.tls_key, self.tls_ca, self.tls_name)


class Service(Protocol):
    """What a process serves: add to the server, and how it stops."""

    @property
    def names(self) -> Sequence[str]:
        """Full names of its gRPC services, for health and reflection."""

    def register(self, server: grpc.aio.Server) -> None: ...

    async def drain(self) -> None: ...


@runtime_checkable
class Pausing(Protocol):
    """A service that may stop taking calls for a while, without ending."""

    def watched_by(self, say_healthy: Callable[[bool], Awaitable[None]]) -> None:
        """Learns what to call with False, and with True when it takes calls again."""


Build = Callable[[], contextlib.AbstractAsyncContextManager[Service]]

ALIVE: Final = "alive"  # the name under which health says that the process is, though it may take no calls for a while
_GARBAGE = 100_000  # objects made since the last look

# Pings keep NAT and proxies from dropping a quiet stream; a client that pings more often than that is closed.
_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_receive_message_length", 256 * 1024),
    ("grpc.so_reuseport", 0),
)


@contextlib.asynccontextmanager
async def serving(config: ServerConfig, service: Service) -> AsyncIterator[int]:
    """A started server; yields the port. On exit it drains."""
    server = grpc.aio.server(
        interceptors=(Guard(Crowd(config.streams_per_address, config.streams_per_player)),), options=_OPTIONS
    )
    service.register(server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((*service.names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    inside = config.inside()
    try:
        if inside is None:
            port = server.add_insecure_port(config.grpc_address)
        else:
            port = server.add_secure_port(config.grpc_address, inside.server_credentials())
    except RuntimeError:
        raise OSError(f"{config.grpc_address} cannot be listened on: another process has it.") from None
    await server.start()

    async def say_healthy(healthy: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *service.names):
            await checks.set(name, status)

    await checks.set(ALIVE, health_pb2.HealthCheckResponse.SERVING)  # whoever ends the others would undo a pause
    await say_healthy(True)
    if isinstance(service, Pausing):
        service.watched_by(say_healthy)
    try:
        yield port
    finally:
        await checks.enter_graceful_shutdown()
        await service.drain()
        await server.stop(config.drain_s)


async def _main(config: ServerConfig, build: Build) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    host, _, port = config.metrics_address.rpartition(":")
    metrics.serve(int(port), host)
    lag = asyncio.create_task(metrics.watch_loop_lag())
    async with build() as service, serving(config, service) as grpc_port:
        # What start-up made stays for ever, and a call makes hundreds of objects that die with it. A look goes through
        # all that has lived since the last one: after every 700 it took a fourteenth of a busy service's time, and with
        # a thousand tables in play each is 50 ms in which nobody is answered.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        log.info("serving", extra={"port": grpc_port, "names": list(service.names)})
        await stop.wait()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(signum)
        log.info("draining")
    lag.cancel()
    log.info("stopped")


@contextlib.contextmanager
def one_sentence(name: str, *also: type[Exception]) -> Iterator[None]:
    """Ends the process with 1 and one sentence for what an operator can mend: ConfigError, OSError and `also`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (ConfigError, OSError, *also)):
            raise
        sys.stderr.write(f"{name}: {error}\n")
        raise SystemExit(1) from None


def run(name: str, config: ServerConfig, build: Build) -> None:
    """Runs the service until it is told to stop; exits 1 with one sentence when it cannot start."""
    logs.configure(name, config.log_level)
    try:
        with traces.told(name, config.node_id, config.otlp_endpoint, config.trace_ratio):
            uvloop.run(_main(config, build))
    except (OSError, ConfigError) as error:
        log.critical("cannot start", extra={"why": str(error)})
        raise SystemExit(1) from error


def channel(target: str, inside: Inside | None = None, **options: Any) -> grpc.aio.Channel:
    """A channel to another service; `target` may list several addresses ("ipv4:a:1,b:2"), taken in turn.

    With `inside` (ServerConfig.inside) both sides show their certificates.
    """
    policy = '{"loadBalancingConfig": [{"round_robin": {}}]}'
    base = (
        ("grpc.service_config", policy),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    )
    return aio_channel(target, inside, (*base, *options.items()), (Caller(),))
