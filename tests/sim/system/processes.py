"""The processes: each service put together from its real parts, on the simulated ports.

As `build` and `running` of each service's service.py do it; where they open a connection, here is a simulated one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, cast

import nats.errors

from servicekit.clients import AWAY
from servicekit.lasting import lasting
from servicekit.orders import Orders, nothing
from servicekit.seats import Seats
from services.ledger.batcher import Batcher, Limits
from services.ledger.grants import ReliefTerms
from services.ledger.relay import Relay
from services.ledger.servicer import LedgerInternalServicer, LedgerServicer, Relief
from services.lobby.board import Board
from services.lobby.entry import Entry, EntryTerms
from services.lobby.scorekeeper import Scorekeeper
from services.lobby.seating import Seating
from services.lobby.tables import Tables
from services.matchmaking.balances import Balances
from services.matchmaking.desk import Desk
from services.matchmaking.matcher import Matcher
from services.matchmaking.news import News
from services.matchmaking.opening import Opener
from services.matchmaking.store import Patience
from services.matchmaking.store import Store as QueueStore
from services.matchmaking.watching import Watching
from services.table.effects import Ledger, Seeds
from services.table.node import Node
from services.table.servicer import TableInternalServicer, TableServicer
from services.table.settings import Settings
from services.table.steward import Steward
from services.table.store import Store as TableStore
from tests.sim.system.bus import Client
from tests.sim.system.lobby_store import LobbyStore, NoLimits, PlainTokens, StatisticsPool
from tests.sim.system.loop import EPOCH_MS, Process
from tests.sim.system.redis import RedisClient, SimPipe
from tests.sim.system.rooms import SIGNUP_CHIPS

if TYPE_CHECKING:
    from tests.sim.system.world import World

# How many instances of each service run.
INSTANCES: Final = {"table": 2, "ledger": 2, "matchmaking": 2, "lobby": 1}
SHARDS: Final = 2
_AGAIN_S: Final = 0.5
_CUT_EVENTS: Final = 120  # so that logs are cut often


class Instance:
    """One instance of a service: its process, and the parts that are called. Parts are there once it is ready."""

    node: Node
    internal: TableInternalServicer | LedgerInternalServicer
    public: TableServicer | LedgerServicer
    entry: Entry
    seating: Seating
    board: Board
    desk: Desk
    watching: Watching

    def __init__(self, service: str, number: int) -> None:
        self.service = service
        self.number = number
        self.process = Process(f"{service}-{number}")
        self.ready = False
        self.pipe: SimPipe | None = None


async def run(world: World, instance: Instance) -> None:
    """The main task of a process. One that cannot start, since a server is away, is started again by who started it."""
    parts: dict[str, Callable[[World, Instance], AbstractAsyncContextManager[None]]] = {
        "table": _table,
        "ledger": _ledger,
        "matchmaking": _matchmaking,
        "lobby": _lobby,
    }
    try:
        async with parts[instance.service](world, instance):
            instance.ready = True
            await asyncio.get_running_loop().create_future()
    except (*AWAY, nats.errors.Error):
        if instance.process.alive:
            world.chance.faults["process not started"] += 1
            world.loop.call_later(_AGAIN_S, world.restart, instance, context=world.context)


@contextlib.asynccontextmanager
async def _table(world: World, instance: Instance) -> AsyncIterator[None]:
    instance.pipe = SimPipe(world)
    store = TableStore(cast(Any, instance.pipe), SHARDS)
    ledger = Ledger(cast(Any, world.net.stub("ledger", "internal")), cast(Any, world.net.stub("ledger", "public")))
    settings = Settings(
        node_id=f"table-{instance.number}",
        shards=SHARDS,
        idle_ms=8_000,
        keep_ms=20_000,
        cut_events=_CUT_EVENTS,
        heartbeat_s=5.0,
        poll_s=1.0,
        review_s=20.0,
        retire_s=10.0,
        drain_s=3.0,
        lost_s=3.0,
        lost_sweep_s=2.0,
        commands_per_s=1_000.0,
    )
    orders, bus = Orders(nothing), cast(Any, Client(world))
    node = Node(settings, store, ledger, bus, Seeds(world.deal_seed), orders)
    loop, process = world.loop, instance.process
    node.now_ms = lambda: EPOCH_MS + process.skew_ms + int(loop.time() * 1000)  # type: ignore[method-assign]
    internal = TableInternalServicer(node, Steward(node, orders, ledger, bus))
    instance.node, instance.internal, instance.public = node, internal, TableServicer(node)
    async with node.running():
        yield


@contextlib.asynccontextmanager
async def _ledger(world: World, instance: Instance) -> AsyncIterator[None]:
    relay = Relay("", "", poll_s=1.0)
    batcher = Batcher("", Limits(), relay.wake)
    works = [lasting("relay", relay.work), *(lasting("batcher", batcher.work) for _ in range(2))]
    tasks = [asyncio.create_task(work) for work in works]
    relief = Relief(ReliefTerms(0, 0, 0), 0.0)
    reads = cast(Any, None)  # in the place of `queries` stands something that needs none
    instance.internal, instance.public = LedgerInternalServicer(reads, batcher), LedgerServicer(reads, batcher, relief)
    yield
    await asyncio.gather(*tasks)


@contextlib.asynccontextmanager
async def _matchmaking(world: World, instance: Instance) -> AsyncIterator[None]:
    rooms, owner = cast(Any, world.rooms.matched()), f"{instance.process.name}.{world.births}"
    instance.pipe = SimPipe(world)
    bus = cast(Any, Client(world))
    patience = Patience(lease_ms=8_000, claim_ms=3_000, grace_ms=2_000, longest_ms=60_000, rematch_ms=500)
    store = QueueStore(cast(Any, instance.pipe), patience, epoch="sim")
    news = News(bus)
    orders = Orders(nothing)
    opening = cast(Any, world.net.stub("table", "internal"))
    seats = Seats(cast(Any, world.net.stub("table", "public")))
    opener = Opener(rooms, store, news, opening, seats, orders, owner, patience_s=10.0)
    matcher = Matcher(rooms, store, opener, news, orders, owner)
    instance.watching = Watching(store, news, owner)
    balances = Balances(cast(Any, world.net.stub("ledger", "internal")))
    instance.desk = Desk(rooms, store, matcher, news, balances, seats, orders, bots_fill=False)
    async with seats.listening(bus), instance.watching.running(), matcher.running():
        yield


@contextlib.asynccontextmanager
async def _lobby(world: World, instance: Instance) -> AsyncIterator[None]:
    rooms, bus = cast(Any, world.rooms), cast(Any, Client(world))
    instance.pipe = SimPipe(world)
    tables = Tables(cast(Any, RedisClient(instance.pipe)))
    ledger, table = cast(Any, world.net.stub("ledger", "internal")), cast(Any, world.net.stub("table", "internal"))
    seats = Seats(cast(Any, world.net.stub("table", "public")))
    limits = cast(Any, NoLimits())
    terms = EntryTerms(
        signup_chips=SIGNUP_CHIPS, refresh_s=3600, refresh_grace_s=10.0, allow_bots=False, accounts_per_hour=0
    )
    instance.entry = Entry(terms, cast(Any, LobbyStore(world)), limits, cast(Any, PlainTokens()), ledger)
    orders = Orders(nothing)
    instance.board = Board(rooms, tables, cast(Any, _NobodyWatches()), seats, orders, bus)
    instance.seating = Seating(rooms, tables, instance.board, limits, seats, orders, table, ledger)
    scores = Scorekeeper(cast(Any, StatisticsPool(world)), bus)
    async with instance.board.running(), scores.running():
        yield


class _NobodyWatches:
    """In the place of Presence: nobody watches the lobby."""

    online = 0

    async def beat(self, _player_ids: list[str]) -> None:
        """Nothing to renew."""


__all__ = ["INSTANCES", "Instance", "run"]
