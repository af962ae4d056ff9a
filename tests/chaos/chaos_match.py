"""`make chaos-match`: instances are killed with -9 all the time while 20,000 players join, wait and cancel.

Three instances of matchmaking share a Valkey and a NATS; the table service next to them refuses, or loses its answer,
now and then. Each player keeps asking until he knows his end. Then the books are compared: nobody sits at two tables,
who was told of a table sits there, who was told "cancelled" sits nowhere, every table has three who know of it, nobody
is lost, and no three are left waiting. The last line is JSON; the exit status is 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import uvloop
from redis.asyncio import Redis

from ddz.common.v1 import common_pb2
from ddz.matchmaking.v1 import matchmaking_pb2, matchmaking_pb2_grpc
from deploy.local import folders, ports, servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import Process
from doudizhu.refusal import Refusal
from servicekit import errors, identity, logs, server
from tests.services.lobby.doubles import Ledger, TableHouse, standing

INSTANCES: Final = 3
KILL_EVERY_S: Final = (1.0, 3.0)
AT_ONCE: Final = 400
ROOMS: Final = ("rob-beginner", "happy-beginner")
SEED: Final = 1
SETTLE_S: Final = 90.0
# A dead instance's watchers must find another one before their tickets end.
SETTINGS: Final = {"DDZ_CLAIM_LEASE_S": "2", "DDZ_TICKET_GRACE_S": "30", "DDZ_TICKET_LEASE_S": "60"}

State: Final = matchmaking_pb2.TicketState
MATCHED: Final = State.TICKET_STATE_MATCHED
CANCELLED: Final = State.TICKET_STATE_CANCELLED
EXPIRED: Final = State.TICKET_STATE_EXPIRED


@dataclass
class Instance:
    """One process, started again on its port whenever it was killed."""

    start: Callable[[], Process]
    process: Process
    stub: matchmaking_pb2_grpc.MatchmakingServiceAsyncStub

    def kill(self) -> None:
        self.process.popen.kill()
        self.process.popen.wait()
        self.process = self.start()


@dataclass
class Books:
    """What players were told."""

    matched: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    left_over: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)


class Player:
    """Asks until he knows his end, of whichever instance answers."""

    def __init__(self, number: int, instances: list[Instance], books: Books, dice: random.Random) -> None:
        self.me = common_pb2.Player(player_id=f"p{number}", display_name=f"玩家{number}")
        self.room_id = ROOMS[number % len(ROOMS)]
        self._instances = instances
        self._books = books
        self._dice = dice
        self._metadata = identity.metadata(self.me)

    async def live(self, closing: asyncio.Event) -> None:
        """Joins; a third cancels after a while; the others wait, and give up only when the house closes."""
        while True:
            ticket = (await self._ask("Join", matchmaking_pb2.JoinRequest(room_id=self.room_id))).ticket
            watching = asyncio.create_task(self._watch(ticket.ticket_id))
            cancels = self._dice.random() < 1 / 3
            after_s = self._dice.choice((0.0, 0.02, 2.0)) * self._dice.random()  # mostly while it may be in time
            leaving = asyncio.create_task(self._cancel(ticket.ticket_id, after_s)) if cancels else None
            closed = asyncio.create_task(closing.wait())
            await asyncio.wait([watching, closed], return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                await self._cancel(ticket.ticket_id, 0)
                self._books.left_over.add(self.me.player_id)
            closed.cancel()
            end = await watching
            if leaving:
                await leaving
            if end.state == EXPIRED:
                self._books.counts["expired"] += 1
                continue
            if end.state == MATCHED:
                self._books.matched[self.me.player_id] = end.table_id
            else:
                self._books.cancelled.add(self.me.player_id)
            return

    async def _cancel(self, ticket_id: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self._ask("Cancel", matchmaking_pb2.CancelRequest(ticket_id=ticket_id))
            self._books.counts["cancels"] += 1
        except Refusal as refusal:
            if refusal.reason != "TOO_LATE":
                raise
            self._books.counts["too_late"] += 1

    async def _watch(self, ticket_id: str) -> matchmaking_pb2.Ticket:
        """The ticket's end, across as many streams as it takes."""
        request = matchmaking_pb2.WatchTicketRequest(ticket_id=ticket_id)
        while True:
            stub = self._dice.choice(self._instances).stub
            try:
                async for answer in stub.WatchTicket(request, metadata=self._metadata):
                    if answer.ticket.state in (MATCHED, CANCELLED, EXPIRED):
                        return answer.ticket
            except grpc.aio.AioRpcError as error:
                self._require_passing(error)
            self._books.counts["streams_lost"] += 1
            await asyncio.sleep(0.05)

    async def _ask(self, rpc: str, request: Any) -> Any:
        while True:
            stub = self._dice.choice(self._instances).stub
            try:
                return await getattr(stub, rpc)(request, metadata=self._metadata, timeout=5.0)
            except grpc.aio.AioRpcError as error:
                self._require_passing(error)
            self._books.counts["calls_lost"] += 1
            await asyncio.sleep(0.05)

    def _require_passing(self, error: grpc.aio.AioRpcError) -> None:
        """Raises what asking again cannot help."""
        refusal = errors.from_rpc_error(error)
        if refusal is not None and refusal.reason not in ("UNAVAILABLE", "DRAINING", "OVERLOADED"):
            raise refusal
        passing = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
        if refusal is None and error.code() not in passing:
            raise error


def trouble(tables: TableHouse, dice: random.Random) -> None:
    """The table service refuses now and then, or opens the table and loses its answer."""

    def before(table_id: str) -> None:
        if dice.random() < 0.05:
            raise Refusal(dice.choice(("DRAINING", "OVERLOADED", "INVALID")), "planted")

    def after(table_id: str) -> None:
        if dice.random() < 0.05:
            raise RuntimeError("planted: the answer is lost")

    tables.fault, tables.after = before, after


def faults_of(books: Books, tables: TableHouse, players: int, waiting: dict[str, int]) -> list[str]:
    """One sentence for each thing that must not be."""
    found = []
    seats = Counter(player for three in tables.seats.values() for player in three)
    if several := [player for player, count in seats.items() if count > 1]:
        found.append(f"{len(several)} players sit at two tables, {several[0]} for one")
    for player, table_id in books.matched.items():
        if player not in tables.seats.get(table_id, ()):
            found.append(f"{player} was told of {table_id} and does not sit there")
    if strays := [player for player in seats if player not in books.matched]:
        found.append(f"{len(strays)} sit at a table that they were not told of, {strays[0]} for one")
    if torn := books.cancelled & set(books.matched):
        found.append(f"{len(torn)} were told both ends")
    if len(books.matched) + len(books.cancelled) != players:
        found.append(f"{players - len(books.matched) - len(books.cancelled)} players are lost")
    found += [f"{count} are left waiting in {room}" for room, count in waiting.items() if count >= 3]
    return found[:20]


async def waiting_in(redis: Redis) -> dict[str, int]:
    """How many tickets wait or are claimed, by room."""
    counts = {}
    for room in ROOMS:
        counts[room] = await redis.zcard(f"mm:{{{room}}}:lease") + 3 * await redis.zcard(f"mm:{{{room}}}:claims")
    return counts


async def kill_on_and_on(instances: list[Instance], dice: random.Random, books: Books) -> None:
    while True:
        await asyncio.sleep(dice.uniform(*KILL_EVERY_S))
        dice.choice(instances).kill()
        books.counts["kills"] += 1


async def settled(redis: Redis, coming: asyncio.Task[Any]) -> dict[str, int]:
    """Waits until everybody has come, and no three wait any more."""
    ends = time.monotonic() + SETTLE_S
    while True:
        waiting = await waiting_in(redis)
        if (coming.done() and max(waiting.values()) < 3) or time.monotonic() > ends:
            return waiting
        if not coming.done():
            ends = time.monotonic() + SETTLE_S
        await asyncio.sleep(0.2)


async def run(players: int, leash: Leash, folder: Path, redis_url: str, nats_url: str) -> list[str]:
    dice, books = random.Random(SEED), Books()
    ledger, tables = Ledger(), TableHouse()  # type: ignore[abstract]
    ledger.chips = {f"p{number}": round(dice.lognormvariate(7.5, 1.0)) % 49_000 + 200 for number in range(players)}
    ledger.rating = {f"p{number}": round(dice.lognormvariate(4.0, 2.0)) for number in range(players)}
    trouble(tables, dice)
    async with contextlib.AsyncExitStack() as stack:
        neighbours = {
            "DDZ_LEDGER_TARGET": await stack.enter_async_context(standing(ledger)),
            "DDZ_TABLE_TARGET": await stack.enter_async_context(standing(tables)),
            "DDZ_REDIS_URL": redis_url,
            "DDZ_NATS_URL": nats_url,
        }
        instances = [await _instance(stack, leash, folder, number, neighbours) for number in range(INSTANCES)]
        redis = await stack.enter_async_context(Redis.from_url(redis_url))
        closing, places = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
        lives: list[asyncio.Task[None]] = []

        async def come() -> None:
            for number in range(players):
                await places.acquire()
                life = asyncio.create_task(Player(number, instances, books, dice).live(closing))
                life.add_done_callback(lambda _: places.release())
                lives.append(life)

        killing = asyncio.create_task(kill_on_and_on(instances, dice, books))
        coming = asyncio.create_task(come())
        waiting = await settled(redis, coming)
        killing.cancel()
        closing.set()
        await _within(SETTLE_S, asyncio.gather(coming, *lives))
        found = faults_of(books, tables, players, waiting)
        print(json.dumps(_figures(players, books, tables, waiting, found)))
        return found


def _figures(
    players: int, books: Books, tables: TableHouse, waiting: dict[str, int], found: list[str]
) -> dict[str, Any]:
    return {
        "players": players,
        "matched": len(books.matched),
        "cancelled": len(books.cancelled - books.left_over),
        "left_over": len(books.left_over & books.cancelled),
        "tables": len(tables.seats),
        "opens_asked": len(tables.opens),
        **{key: books.counts[key] for key in ("kills", "cancels", "too_late", "expired", "streams_lost", "calls_lost")},
        "waiting_at_the_end": sum(waiting.values()),
        "faults": found,
    }


async def _within(seconds: float, work: Any) -> None:
    async with asyncio.timeout(seconds):
        await work


async def _instance(
    stack: contextlib.AsyncExitStack, leash: Leash, folder: Path, number: int, neighbours: dict[str, str]
) -> Instance:
    grpc_port, metrics_port = ports.free(2)
    environment = servers.environment() | neighbours | SETTINGS
    environment |= {
        "DDZ_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}",
        "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
        "DDZ_ROOMS_FILE": str(ROOT / "deploy" / "rooms.yaml"),
        "DDZ_LOG_LEVEL": "ERROR",
    }

    def start() -> Process:
        argv: list[str | Path] = [sys.executable, "-m", "services.matchmaking"]
        return servers.run(leash, f"matchmaking-{number}", argv, folder, env=environment, cwd=ROOT)

    channel = await stack.enter_async_context(server.channel(f"127.0.0.1:{grpc_port}"))
    return Instance(start, start(), matchmaking_pb2_grpc.MatchmakingServiceStub(channel))


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills matchmaking while people join and cancel.")
    parser.add_argument("--players", type=int, default=20_000)
    arguments = parser.parse_args()
    logs.configure("chaos", "CRITICAL")
    scratch = folders.scratch()
    with Leash(scratch) as leash, contextlib.ExitStack() as stack:
        valkey = stack.enter_context(servers.valkey(leash, scratch / "valkey", ports.free(1)[0]))
        nats = stack.enter_context(servers.nats(leash, scratch / "nats", ports.free(1)[0]))
        work: Coroutine[Any, Any, list[str]] = run(arguments.players, leash, scratch, valkey.url, nats.url)
        found = uvloop.run(work)
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
