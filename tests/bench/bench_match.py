"""`make bench-match`: players matched a second on one core, and how long the third of three waits, with 10,000 waiting.

The whole service runs in this process but for gRPC: desk, matcher, opener and ticket streams, over a real Valkey and a
real NATS on other cores; the table service and the ledger answer at once. Three players suit each other when they have
the same strength; there are so many strengths that about 12,000 tickets wait all the time. Everybody is a new player.
The last line is one JSON object; PLAYERS sets how many are matched in each run.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import os
import random
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import uvloop

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import table_pb2
from deploy.local import folders, ports, servers
from deploy.local.leash import Leash
from servicekit import clients, logs
from servicekit.orders import Orders, nothing
from servicekit.rooms import Rooms
from services.matchmaking.balances import Balances
from services.matchmaking.desk import Desk
from services.matchmaking.matcher import Matcher
from services.matchmaking.news import News
from services.matchmaking.opening import Opener
from services.matchmaking.queue import LIVE, State, Window
from services.matchmaking.store import Patience, Store, connected
from services.matchmaking.watching import Watching

PLAYERS: Final = int(os.environ.get("PLAYERS", "12000"))
SLOTS: Final = 12_000
ROOM: Final = "bench"
AT_ONCE: Final = 48
GARBAGE: Final = 20_000  # as in servicekit.server
# Strengths lie 4 apart, a ticket takes others at most 1 away.
WINDOWS: Final = (Window(0, 1, 0),)
LEAST: Final = 14_000

ROOMS: Final = f"""
clocks: {{play_ms: 20000}}
rooms:
- room_id: {ROOM}
  name_zh: 测试
  name_en: Bench
  seating: by_choice
  terms: {{book: happy, base_chips: 1, initial_multiplier: 1, minimum_chips: 0}}
"""


class Neighbours:
    """The ledger and the table service as the parts call them, without a wire."""

    def __init__(self) -> None:
        self.chips: dict[str, int] = {}

    async def ListBalances(self, request: Any, timeout: float) -> ledger_pb2.ListBalancesResponse:
        balances = [ledger_pb2.Balance(player_id=player, chips=self.chips.pop(player)) for player in request.player_ids]
        return ledger_pb2.ListBalancesResponse(balances=balances)

    async def Open(self, request: Any, timeout: float, metadata: Any) -> table_pb2.OpenResponse:
        return table_pb2.OpenResponse(seq=1)


class NoSeats:
    """Nobody sits anywhere: everybody is new."""

    async def table_of(self, player: common_pb2.Player) -> str:
        return ""


class Bench:
    """A queue in a steady state: who joins is put with those of a strength drawn by chance."""

    def __init__(self, desk: Desk, watching: Watching, neighbours: Neighbours) -> None:
        self.desk = desk
        self.watching = watching
        self.neighbours = neighbours
        self.dice = random.Random(7)
        self.numbers = itertools.count(1)
        self.in_slot = [0] * SLOTS
        self.third_at: dict[int, float] = {}
        self.matched = 0
        self.waits_s: list[float] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def join(self) -> None:
        slot = self.dice.randrange(SLOTS)
        player = common_pb2.Player(player_id=f"p{next(self.numbers)}", display_name="somebody")
        self.neighbours.chips[player.player_id] = round(2 ** ((LEAST + 4 * slot) / 1000))
        self.in_slot[slot] += 1
        group = (slot, (self.in_slot[slot] - 1) // 3)
        if self.in_slot[slot] % 3 == 0:
            self.third_at[hash(group)] = time.perf_counter()
        ticket = await self.desk.join(player, ROOM)
        task = asyncio.create_task(self.watch(ticket.ticket_id, hash(group)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def watch(self, ticket_id: str, group: int) -> None:
        async for ticket in self.watching.watch(ROOM, ticket_id):
            if ticket.state not in LIVE:
                assert ticket.state is State.MATCHED, ticket
                self.matched += 1
                self.waits_s.append(time.perf_counter() - self.third_at[group])

    async def run(self, players: int, rate: float) -> dict[str, float]:
        """Joins until so many have been matched; `rate` joins a second, 0 = as many as go."""
        self.matched, self.waits_s = 0, []
        began, cpu = time.perf_counter(), _cpu_s()
        due = itertools.count(1)

        async def worker() -> None:
            while self.matched < players:
                if rate:
                    await asyncio.sleep(began + next(due) / rate - time.perf_counter())
                await self.join()

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        seconds, cpu_s = time.perf_counter() - began, _cpu_s() - cpu
        waits = sorted(self.waits_s)
        return {
            "players_per_s": round(self.matched / seconds),
            "cpu_us_per_player": round(cpu_s / self.matched * 1e6),
            "p50_ms": round(waits[len(waits) // 2] * 1000, 1),
            "p99_ms": round(waits[len(waits) * 99 // 100] * 1000, 1),
        }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextlib.asynccontextmanager
async def standing(folder: Path, redis_url: str, nats_url: str) -> AsyncIterator[tuple[Bench, Store]]:
    """The service's parts on real servers."""
    (folder / "rooms.yaml").write_text(ROOMS)
    rooms = Rooms(folder / "rooms.yaml")
    neighbours: Any = Neighbours()
    seats: Any = NoSeats()
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(clients.nats_bus(nats_url, name="bench"))
        news = News(bus)
        joins, looks, rounds = [
            await stack.enter_async_context(connected(redis_url, Patience(), epoch="", windows=WINDOWS))
            for _ in range(3)  # as in the service
        ]
        orders = Orders(nothing)
        opener = Opener(rooms, looks, news, neighbours, seats, orders, "bench", 60.0)
        matcher = Matcher(rooms, looks, opener, news, orders, "bench")
        watching = Watching(rounds, news, "bench")
        desk = Desk(rooms, joins, matcher, news, Balances(neighbours), seats, orders, bots_fill=False)
        async with watching.running(), matcher.running():
            yield Bench(desk, watching, neighbours), joins
            watching.close()


async def main(folder: Path, redis_url: str, nats_url: str) -> dict[str, Any]:
    gc.freeze()
    gc.set_threshold(GARBAGE)
    async with standing(folder, redis_url, nats_url) as (bench, store):
        print(f"filling the queue with about {SLOTS} tickets …", flush=True)
        await bench.run(SLOTS, 0)
        waiting = await store.waiting(ROOM)
        flat_out = await bench.run(PLAYERS, 0)
        print(f"flat out: {flat_out}", flush=True)
        paced = await bench.run(PLAYERS, flat_out["players_per_s"] / 2)
        print(f"at half of that: {paced}", flush=True)
        return {
            "matched_players_per_s": flat_out["players_per_s"],
            "p99_ms": flat_out["p99_ms"],
            "p50_ms": flat_out["p50_ms"],
            "cpu_us_per_player": flat_out["cpu_us_per_player"],
            "paced_players_per_s": paced["players_per_s"],
            "paced_p99_ms": paced["p99_ms"],
            "waiting": waiting,
        }


if __name__ == "__main__":
    logs.configure("bench", "ERROR")
    scratch = folders.scratch()
    with Leash(scratch) as leash, contextlib.ExitStack() as stack:
        valkey = stack.enter_context(servers.valkey(leash, scratch / "valkey", ports.free(1)[0]))
        nats = stack.enter_context(servers.nats(leash, scratch / "nats", ports.free(1)[0]))
        if hasattr(os, "sched_setaffinity") and len(cores := os.sched_getaffinity(0)) > 1:  # one is what is measured
            os.sched_setaffinity(0, {min(cores)})
            for neighbour in (valkey, nats):
                os.sched_setaffinity(neighbour.process.popen.pid, cores - {min(cores)})
        print(json.dumps(uvloop.run(main(scratch, valkey.url, nats.url))))
