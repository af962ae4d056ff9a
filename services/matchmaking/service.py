"""Matchmaking put together: clients, the parts, and how it stops."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from ddz.ledger.v1 import ledger_pb2_grpc
from ddz.matchmaking.v1 import matchmaking_pb2_grpc
from ddz.table.v1 import table_pb2_grpc
from servicekit import clients, errands, server
from servicekit.config import setting
from servicekit.lasting import always
from servicekit.orders import Orders
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from servicekit.tls import Inside
from services.matchmaking.balances import Balances
from services.matchmaking.desk import Desk
from services.matchmaking.matcher import Matcher
from services.matchmaking.news import News
from services.matchmaking.opening import Opener
from services.matchmaking.servicer import MatchmakingServicer
from services.matchmaking.store import Patience, connected
from services.matchmaking.watching import Watching


@dataclass(frozen=True, slots=True)
class Config:
    """What matchmaking reads besides what every process does."""

    redis_url: str = setting("DDZ_REDIS_URL", "Redis")
    nats_url: str = setting("DDZ_NATS_URL", "NATS")
    ledger_target: str = setting("DDZ_LEDGER_TARGET", "gRPC target of the ledger")
    table_target: str = setting("DDZ_TABLE_TARGET", "gRPC target of the table service")
    rooms_file: str = setting("DDZ_ROOMS_FILE", "the rooms (YAML)")
    deal_seed: str = setting("DDZ_DEAL_SEED", "for demo and tests: the same tickets then make the same match ids", "")
    bot_fill_s: float = setting(
        "DDZ_BOT_FILL_S", "wait after which bots fill a table; 0 = they wait as people", 0.0, least=0
    )
    grace_s: float = setting("DDZ_TICKET_GRACE_S", "how long a ticket outlives its last watcher", 10.0, least=0)
    lease_s: float = setting(
        "DDZ_TICKET_LEASE_S", "how long a ticket lives without any sign of its owner", 30.0, least=0.1
    )
    longest_s: float = setting("DDZ_TICKET_LONGEST_S", "how long a ticket may wait at all", 600.0, least=0.1)
    claim_s: float = setting(
        "DDZ_CLAIM_LEASE_S", "after so long the claim of a dead instance is taken over", 10.0, least=0.1
    )
    open_patience_s: float = setting(
        "DDZ_OPEN_PATIENCE_S", "how long a table's opening may be in doubt", 60.0, least=0.1
    )


class Matchmaking:
    """A running matchmaking service (servicekit.server.Service)."""

    names: Sequence[str] = ("ddz.matchmaking.v1.MatchmakingService",)

    def __init__(self, servicer: MatchmakingServicer, matcher: Matcher, watching: Watching) -> None:
        self._servicer = servicer
        self._matcher = matcher
        self._watching = watching

    def register(self, grpc_server: grpc.aio.Server) -> None:
        matchmaking_pb2_grpc.add_MatchmakingServiceServicer_to_server(self._servicer, grpc_server)

    async def drain(self) -> None:
        await self._matcher.stop()
        self._watching.close()


def _patience(config: Config) -> Patience:
    return Patience(
        lease_ms=round(config.lease_s * 1000),
        claim_ms=round(config.claim_s * 1000),
        grace_ms=round(config.grace_s * 1000),
        longest_ms=round(config.longest_s * 1000),
        fill_ms=round(config.bot_fill_s * 1000),
    )


@contextlib.asynccontextmanager
async def build(config: Config, inside: Inside | None = None) -> AsyncIterator[Matchmaking]:
    """Matchmaking on its clients; raises OSError when it cannot start."""
    rooms = Rooms(Path(config.rooms_file))
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(clients.nats_bus(config.nats_url, name="matchmaking"))
        ledger_channel = await stack.enter_async_context(server.channel(config.ledger_target, inside))
        table_channel = await stack.enter_async_context(server.channel(config.table_target, inside))
        opening = table_pb2_grpc.TableInternalServiceStub(table_channel)
        tables = table_pb2_grpc.TableServiceStub(table_channel)
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(ledger_channel)

        owner = secrets.token_hex(8)
        news = News(bus)
        epoch = "" if config.deal_seed else secrets.token_hex(4)
        # A connection sends one batch at a time: nobody who joins is to wait for looks, or for a round of readings.
        joins, looks, rounds = [
            await stack.enter_async_context(connected(config.redis_url, _patience(config), epoch=epoch))
            for _ in range(3)
        ]
        orders = Orders(looks.orders)
        await orders.refresh()
        seats = Seats(tables)
        opener = Opener(rooms, looks, news, opening, seats, orders, owner, config.open_patience_s)
        matcher = Matcher(rooms, looks, opener, news, orders, owner)
        watching = Watching(rounds, news, owner)
        bots_fill = config.bot_fill_s > 0
        desk = Desk(rooms, joins, matcher, news, Balances(ledger), seats, orders, bots_fill=bots_fill)
        await stack.enter_async_context(seats.listening(bus))
        await stack.enter_async_context(watching.running())
        await stack.enter_async_context(matcher.running())
        answer = errands.rooms_reader("matchmaking", rooms, matcher.start_loops)
        await stack.enter_async_context(
            always(
                orders=functools.partial(orders.follow, bus),
                errands=functools.partial(errands.answering, bus, answer),
                banned=desk.expelling,
            )
        )
        yield Matchmaking(MatchmakingServicer(desk, watching), matcher, watching)
