"""Matchmaking on real Valkey and NATS, next to stand-ins for the table service and the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis

from ddz.common.v1 import common_pb2
from ddz.matchmaking.v1 import matchmaking_pb2, matchmaking_pb2_grpc
from servicekit import clients, identity, server
from services.matchmaking import service
from tests.services.lobby.doubles import Ledger, TableHouse, standing

ROOMS_FILE = Path(__file__).parents[3] / "deploy" / "rooms.yaml"
ROOM = "rob-beginner"
WAITING = matchmaking_pb2.TICKET_STATE_WAITING
CLAIMED = matchmaking_pb2.TICKET_STATE_CLAIMED
MATCHED = matchmaking_pb2.TICKET_STATE_MATCHED
CANCELLED = matchmaking_pb2.TICKET_STATE_CANCELLED
EXPIRED = matchmaking_pb2.TICKET_STATE_EXPIRED

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Hall:
    """A running matchmaking service and its neighbours."""

    config: service.Config
    stub: matchmaking_pb2_grpc.MatchmakingServiceAsyncStub
    ledger: Ledger
    tables: TableHouse
    redis: Redis

    def player(self, chips: int = 1_000, rating: int = 0, *, bot: bool = False) -> Person:
        player_id = f"p{next(_numbers)}"
        self.ledger.chips[player_id] = chips
        self.ledger.rating[player_id] = rating
        return Person(self, common_pb2.Player(player_id=player_id, display_name=f"玩家{player_id}", bot=bot))

    def players(self, count: int, **kind: Any) -> list[Person]:
        return [self.player(**kind) for _ in range(count)]

    def tables_of(self, player_id: str) -> list[str]:
        return [table for table, seats in self.tables.seats.items() if player_id in seats]


@dataclass(frozen=True)
class Person:
    """A player, called as the gateway would call for him."""

    hall: Hall
    player: common_pb2.Player

    @property
    def id(self) -> str:
        return self.player.player_id

    async def join(self, room_id: str = ROOM, hall: Hall | None = None) -> matchmaking_pb2.Ticket:
        request = matchmaking_pb2.JoinRequest(room_id=room_id)
        answer: matchmaking_pb2.JoinResponse = await (hall or self.hall).stub.Join(
            request, metadata=identity.metadata(self.player)
        )
        return answer.ticket

    async def cancel(self, ticket_id: str, hall: Hall | None = None) -> matchmaking_pb2.Ticket:
        request = matchmaking_pb2.CancelRequest(ticket_id=ticket_id)
        answer: matchmaking_pb2.CancelResponse = await (hall or self.hall).stub.Cancel(
            request, metadata=identity.metadata(self.player)
        )
        return answer.ticket

    def watch(self, ticket_id: str, hall: Hall | None = None) -> Any:
        request = matchmaking_pb2.WatchTicketRequest(ticket_id=ticket_id)
        return (hall or self.hall).stub.WatchTicket(request, metadata=identity.metadata(self.player))

    async def end_of(self, ticket_id: str, hall: Hall | None = None) -> matchmaking_pb2.Ticket:
        """The last state that the ticket's stream tells."""
        last = None
        async for answer in self.watch(ticket_id, hall):
            last = answer.ticket
        assert isinstance(last, matchmaking_pb2.Ticket)
        return last


@pytest.fixture(scope="session")
def config(nats: str) -> service.Config:
    return service.Config(
        redis_url="", nats_url=nats, ledger_target="", table_target="", rooms_file=str(ROOMS_FILE), deal_seed="test"
    )


Open = Callable[..., contextlib.AbstractAsyncContextManager[Hall]]


@pytest.fixture(scope="session")
def opened(config: service.Config, valkey: str) -> Open:
    """Makes a matchmaking service with settings of its own on an empty Valkey: `async with opened(grace_s=0.1)`.

    `beside` gives another instance of it: the same queue, the same neighbours.
    """

    @contextlib.asynccontextmanager
    async def make(beside: Hall | None = None, **changes: Any) -> AsyncIterator[Hall]:
        async with contextlib.AsyncExitStack() as stack:
            redis = await stack.enter_async_context(clients.redis(f"{valkey.rsplit('/', 1)[0]}/9"))
            if beside is None:
                await redis.flushdb()
                ledger, tables = Ledger(), TableHouse()  # type: ignore[abstract]
                ledger_target = await stack.enter_async_context(standing(ledger))
                table_target = await stack.enter_async_context(standing(tables))
                found = {"redis_url": f"{valkey.rsplit('/', 1)[0]}/9"}
                found |= {"ledger_target": ledger_target, "table_target": table_target}
                own = replace(config, **(found | changes))
            else:
                ledger, tables = beside.ledger, beside.tables
                own = replace(beside.config, **changes)
            running = await stack.enter_async_context(service.build(own))
            target = await stack.enter_async_context(standing(running))
            channel = await stack.enter_async_context(server.channel(target))
            yield Hall(own, matchmaking_pb2_grpc.MatchmakingServiceStub(channel), ledger, tables, redis)

    return make


@pytest.fixture
async def hall(opened: Open) -> AsyncIterator[Hall]:
    """Matchmaking with an empty queue."""
    async with opened() as hall:
        yield hall


def rooms_file(path: Path, *, without: str = "") -> str:
    """Writes the usual rooms to a file, without one of them; its name."""
    content = yaml.safe_load(ROOMS_FILE.read_text())
    content["rooms"] = [room for room in content["rooms"] if room["room_id"] != without]
    path.write_text(json.dumps(content))
    return str(path)


def failing(count: int, fault: Exception) -> Callable[[str], None]:
    """For a stand-in's table: fails so many times."""
    left = [count]

    def fail(table_id: str) -> None:
        if left[0]:
            left[0] -= 1
            raise fault

    return fail


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 20.0) -> None:
    """Waits until the condition holds; fails when it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110, what is waited for is in another process
            await asyncio.sleep(0.01)
