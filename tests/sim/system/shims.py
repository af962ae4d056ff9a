"""What the real code takes from outside, replaced while a run lasts: clocks, chance, secrets, drivers.

A list of (module, name, what stands there instead). Nothing else of the services is changed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import asyncpg

import servicekit.metrics
import servicekit.seats
import services.ledger.batcher
import services.ledger.relay
import services.ledger.servicer
import services.ledger.transaction
import services.ledger.trouble
import services.lobby.board
import services.lobby.entry
import services.lobby.tables
import services.lobby.tokens
import services.matchmaking.matcher
import services.matchmaking.opening
import services.matchmaking.watching
import services.table.actor
import services.table.fanout
import services.table.node
import services.table.settings
from tests.sim.system.bus import bus_of
from tests.sim.system.ledger_store import LedgerQueries, LedgerStore
from tests.sim.system.lobby_store import NoPasswords
from tests.sim.system.loop import EPOCH_MS, PROCESS
from tests.sim.system.streams import SimStream

if TYPE_CHECKING:
    from tests.sim.system.world import World

_CLOCKED: Final = (
    servicekit.seats,
    services.lobby.board,
    services.lobby.entry,
    services.matchmaking.matcher,
    services.matchmaking.opening,
    services.matchmaking.watching,
    services.table.actor,
    services.table.fanout,
    services.table.node,
)
_CHANCED: Final = (services.table.actor, services.table.node, services.ledger.trouble)
_SECRET: Final = (services.table.settings, services.lobby.tables, services.lobby.tokens)


class Clock:
    """In the place of the module `time`: virtual, and off by the skew of the process that looks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return 1_000.0 + self._world.loop.time()

    def perf_counter(self) -> float:
        """The same, here."""
        return self.monotonic()

    def monotonic_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self.monotonic() * 1_000_000_000)

    def time_ns(self) -> int:
        """The wall clock in nanoseconds since the epoch."""
        process = PROCESS.get()
        skew_ms = 0 if process is None else process.skew_ms
        return (EPOCH_MS + skew_ms) * 1_000_000 + int(self._world.loop.time() * 1_000) * 1_000_000

    def time(self) -> float:
        """The wall clock in seconds."""
        return self.time_ns() / 1_000_000_000


class Secrets:
    """In the place of the module `secrets`: repeatable."""

    def __init__(self, world: World) -> None:
        self._rng = world.chance.rng

    def token_bytes(self, count: int) -> bytes:
        """So many bytes."""
        return self._rng.randbytes(count)

    def token_hex(self, count: int) -> str:
        """So many bytes, spelled."""
        return self._rng.randbytes(count).hex()

    def token_urlsafe(self, count: int) -> str:
        """The same, as good."""
        return self.token_hex(count)

    def choice(self, options: Any) -> Any:
        """One of them."""
        return self._rng.choice(options)


class _Driver:
    """In the place of the module `asyncpg`: its errors, and connections to the simulated server."""

    def __init__(self, world: World) -> None:
        self.connect = world.postgres.connect

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncpg, name)


class Faults:
    """In the place of the counter of our own faults: in a simulation none may be."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._where = ""

    def labels(self, where: str) -> Faults:
        """Where it is."""
        self._where = where
        return self

    def inc(self) -> None:
        """A fault of ours has been caught somewhere."""
        process = PROCESS.get()
        if process is None or process.alive:
            self._world.audit.fault(self._where, sys.exc_info()[1])


class _Errors(logging.Handler):
    """Keeps the last exception that was logged, to be shown with the fault that is counted beside it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Prints nothing."""
        if record.exc_info:
            self._world.audit.logged = record.exc_info[1]


def _replacements(world: World) -> Iterator[tuple[Any, str, Any]]:
    clock, secrets = Clock(world), Secrets(world)
    for module in _CLOCKED:
        yield module, "time", clock
    for module in _CHANCED:
        yield module, "random", world.chance.rng
    for module in _SECRET:
        yield module, "secrets", secrets
    yield services.ledger.batcher, "asyncpg", _Driver(world)
    yield services.ledger.relay, "asyncpg", _Driver(world)
    yield services.ledger.relay, "clients", SimpleNamespace(nats_bus=lambda *_, **__: bus_of(world))
    yield services.ledger.transaction, "store", LedgerStore(world.postgres)
    yield services.ledger.servicer, "queries", LedgerQueries(world)
    yield services.lobby.entry, "Passwords", NoPasswords
    # Looks that find nobody cost as much as those that do; who joins wakes the matcher anyway.
    yield services.matchmaking.matcher, "_TICK_S", 1.0
    yield services.matchmaking.matcher, "_RELAY_S", 1.5
    yield services.table.node, "Stream", SimStream
    yield servicekit.metrics, "FAULTS", Faults(world)


@contextlib.contextmanager
def in_place(world: World) -> Iterator[None]:
    """While it lasts the real code runs on the world's clocks, chance and servers; and is silent."""
    before = [(module, name, getattr(module, name), value) for module, name, value in _replacements(world)]
    logger, disabled = logging.getLogger("ddz"), logging.root.manager.disable
    propagate, handler = logger.propagate, _Errors(world)
    logging.disable(logging.WARNING)
    logger.propagate = False
    logger.addHandler(handler)
    for module, name, _, value in before:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, original, _ in before:
            setattr(module, name, original)
        logging.disable(disabled)
        logger.propagate = propagate
        logger.removeHandler(handler)
