"""`make sim-matchmaking`: a day of 100,000 arrivals through the real queue, on a clock of its own.

People come to one rated room as a Poisson process with a peak at noon and a higher one in the evening; ratings and
chips are skewed as they are in life, and a few lose patience. The queue is the real one: its scripts in a real Valkey.
It prints waiting times, how far apart those at a table are, and that nobody starved: no ticket was passed over for a
later one that fitted no better, and nobody waited past the last window while two others did. Then the cost of a match
with 100 to 100,000 tickets waiting. The last line is one JSON object, the plot is build/sim-matchmaking.png.

PLAYERS and SEED change the day.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvloop
from redis.asyncio import Redis

from deploy.local import folders, ports, servers
from deploy.local.leash import Leash
from services.matchmaking import store as stores
from services.matchmaking.queue import WINDOWS, Strength, Window, fits, strength
from services.matchmaking.store import Claim, Entry, Patience, Pointer, Store
from tests.sim.picture import COLOURS, Axis, Panel, Picture

PLAYERS: Final = int(os.environ.get("PLAYERS") or "100000")
SEED: Final = int(os.environ.get("SEED") or "1")  # make hands on an empty SEED
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
TICK_MS: Final = 1_000
ROOM: Final = "day"
BATCH: Final = 32
DEPTHS: Final = (100, 1_000, 10_000, 100_000)
ROUNDS: Final = 8
BATCHES_A_ROUND: Final = 6
PLOT: Final = Path("build") / "sim-matchmaking.png"
FOREVER: Final = Patience(lease_ms=10**12, longest_ms=10**12, claim_ms=10**12)


@dataclass(frozen=True)
class Arrival:
    """Somebody comes at `at_ms`, and goes again at `leaves_ms` unless he is matched before."""

    at_ms: int
    player: str
    strength: Strength
    leaves_ms: int


def traffic(at_ms: int) -> float:
    """Arrivals at this time of day, as a share of the busiest moment."""
    hour = at_ms / HOUR_MS
    noon = math.exp(-(((hour - 12.5) / 1.5) ** 2))
    evening = math.exp(-(((hour - 20.5) / 2.0) ** 2))
    return 0.04 + 0.4 * noon + 0.56 * evening


def arrivals(count: int, dice: random.Random) -> list[Arrival]:
    """A Poisson process given how many come: times by the rate of the day, ratings and chips skewed."""
    times: list[int] = []
    while len(times) < count:
        at_ms = dice.randrange(DAY_MS)
        if dice.random() < traffic(at_ms):
            times.append(at_ms)
    found = []
    for number, at_ms in enumerate(sorted(times)):
        rating = 0 if dice.random() < 0.3 else round(dice.lognormvariate(5.5, 1.8))
        chips = min(max(round(dice.lognormvariate(9.0, 1.2)), 200), 50_000)
        patience_ms = round(dice.expovariate(1 / 45_000)) if dice.random() < 0.1 else DAY_MS
        found.append(Arrival(at_ms, f"p{number}", strength(chips, rating, rated=True), at_ms + patience_ms))
    return found


@dataclass
class Day:
    """What came of it."""

    matched: int = 0
    left: int = 0
    starved: int = 0  # passed over, or left waiting past the last window while two others waited
    greatest_waiting: int = 0
    waits_ms: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # by hour
    spreads: list[int] = field(default_factory=list)

    def wait_ms(self, share: float, hours: Sequence[int] = range(24)) -> int:
        waits = sorted(wait for hour in hours for wait in self.waits_ms[hour])
        return waits[min(int(len(waits) * share), len(waits) - 1)] if waits else 0


class Simulation:
    """The day, event by event."""

    def __init__(self, store: Store, day: Sequence[Arrival]) -> None:
        self.store = store
        self.coming = day
        self.waiting: dict[str, Arrival] = {}
        self.result = Day()

    async def run(self) -> Day:
        coming, leaving = iter(self.coming), list[tuple[int, str]]()
        following = next(coming, None)
        now = 0
        while following or len(self.waiting) >= 3 or leaving:
            steps = [following.at_ms if following else DAY_MS * 2, leaving[0][0] if leaving else DAY_MS * 2]
            if len(self.waiting) >= 3:
                steps.append(now + TICK_MS)
            now = min(steps)
            if now >= DAY_MS * 2:
                break
            while following and following.at_ms <= now:
                await self._join(following)
                if following.leaves_ms < DAY_MS:
                    heapq.heappush(leaving, (following.leaves_ms, following.player))
                following = next(coming, None)
            while leaving and leaving[0][0] <= now:
                await self._leave(heapq.heappop(leaving)[1], now)
            await self._match(now)
        return self.result

    async def _join(self, who: Arrival) -> None:
        pointer = Pointer(f"{who.player}-1", ROOM, who.at_ms)
        await self.store.enter(pointer, Entry(b"", who.strength, reserve=False), who.at_ms, create=True)
        self.waiting[pointer.ticket_id] = who
        self.result.greatest_waiting = max(self.result.greatest_waiting, len(self.waiting))

    async def _leave(self, player: str, now: int) -> None:
        ticket = f"{player}-1"
        if ticket in self.waiting:
            done, _ = await self.store.cancel(ROOM, ticket, now)
            assert done
            del self.waiting[ticket]
            self.result.left += 1

    async def _match(self, now: int) -> None:
        due, claims = BATCH, list[Claim]()
        while claims or due == BATCH:
            due, claims = await self.store.look(ROOM, now, "sim", BATCH)
            for claim in claims:
                await self.store.matched(ROOM, claim, claim.claim_id, b"", now)
                self._note(claim, now)
        oldest = min((who.at_ms for who in self.waiting.values()), default=now)
        if len(self.waiting) >= 3 and now - oldest > WINDOWS[-1].age_ms + TICK_MS:
            self.result.starved += 1

    def _note(self, claim: Claim, now: int) -> None:
        three = [self.waiting.pop(ticket) for ticket in claim.ticket_ids]
        youngest = max(three, key=lambda who: who.at_ms)
        stay = [who.strength for who in three if who is not youngest]
        age = now - min(who.at_ms for who in three)
        passed_over = any(
            other.at_ms < youngest.at_ms and fits([*stay, other.strength], age) for other in self.waiting.values()
        )
        self.result.starved += passed_over
        self.result.matched += 3
        near = [who.strength.near for who in three]
        self.result.spreads.append(max(near) - min(near))
        for who in three:
            self.result.waits_ms[who.at_ms // HOUR_MS].append(now - who.at_ms)


# ---- cost -----------------------------------------------------------------------------------------------------------


async def cpu_us(redis: Redis) -> float:
    """What Valkey has spent so far."""
    info: dict[str, Any] = await redis.info("cpu")
    return (float(info["used_cpu_user"]) + float(info["used_cpu_sys"])) * 1e6


class Depth:
    """A queue in which `depth` tickets wait for a third that suits them."""

    def __init__(self, pipe: Any, redis: Redis, depth: int) -> None:
        self.depth = depth
        self._store = Store(pipe, FOREVER, epoch="", windows=(Window(0, 1, 0),))
        self._redis = redis
        self._room = f"depth{depth}"
        self._numbers = itertools.count(1)
        self._dice = random.Random(depth)

    async def fill(self) -> None:
        """Two tickets of each strength."""
        for start in range(0, self.depth // 2, 500):
            slots = range(start, min(start + 500, self.depth // 2))
            await asyncio.gather(*(self._join(slot) for slot in slots for _ in range(2)))
            await self._look()

    async def cost_us(self) -> float:
        """CPU microseconds of Valkey for three joins, their looks and their match, on average over a round."""
        before = await cpu_us(self._redis)
        matches = 0
        for _ in range(BATCHES_A_ROUND):
            slots = self._dice.sample(range(self.depth // 2), BATCH)
            await asyncio.gather(*(self._join(slot) for slot in slots))
            claims = await self._look()
            assert len(claims) == BATCH
            await asyncio.gather(*(self._store.matched(self._room, one, one.claim_id, b"", 0) for one in claims))
            await asyncio.gather(*(self._join(slot) for slot in slots for _ in range(2)))
            await self._look()
            matches += BATCH
        return (await cpu_us(self._redis) - before) / matches

    async def _join(self, slot: int) -> None:
        player = f"d{self.depth}.{next(self._numbers)}"
        entry = Entry(b"", Strength(slot * 4, 0), reserve=False)
        await self._store.enter(Pointer(f"{player}-1", self._room, 0), entry, 0, create=True)

    async def _look(self) -> list[Claim]:
        found = []
        while True:
            due, claims = await self._store.look(self._room, 0, "sim", BATCH)
            found += claims
            if not claims and due < BATCH:
                return found


async def costs_us(pipe: Any, redis: Redis) -> dict[int, float]:
    """The cost of a match at each depth: rounds in turn, the one that was disturbed least counts."""
    await redis.flushdb()
    depths = [Depth(pipe, redis, depth) for depth in DEPTHS]
    for depth in depths:
        await depth.fill()
    rounds = [{depth.depth: await depth.cost_us() for depth in depths} for _ in range(ROUNDS)]
    return {depth: min(found[depth] for found in rounds) for depth in DEPTHS}


# ---- the report -----------------------------------------------------------------------------------------------------


def ticks(greatest: float, count: int = 5) -> list[float]:
    """Round marks from 0 to at least `greatest`."""
    step = 10 ** math.floor(math.log10(max(greatest, 1e-9) / count))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * count >= greatest)
    return [step * index for index in range(count + 1)]


def plot(day: Day, coming: Sequence[Arrival], costs: dict[int, float]) -> None:
    """Three panels, one below the other."""
    picture = Picture(900, 960)
    hours = [hour / 24 * 24 for hour in range(24)]
    waits = {share: [(hour, day.wait_ms(share, [int(hour)]) / 1000) for hour in hours] for share in (0.5, 0.9, 0.99)}
    y = ticks(max(wait for points in waits.values() for _, wait in points))
    x = Axis(0, 24, range(0, 25, 3), "hour of the day")
    title = f"waiting time by percentile, {len(coming)} arrivals in grey"
    panel = Panel(picture, (0, 0, 900, 320), title, x, Axis(0, y[-1], y, "s"))
    by_hour = [sum(1 for who in coming if who.at_ms // HOUR_MS == hour) for hour in range(24)]
    scale = y[-1] / max(by_hour)
    panel.bars([(hour + 0.5, count * scale) for hour, count in enumerate(by_hour)], (210, 210, 210))
    for colour, (share, points) in zip(COLOURS, waits.items(), strict=False):
        panel.lines([(hour + 0.5, wait) for hour, wait in points], colour, f"p{share * 100:g}")
    bins = [0.0] * 20
    for spread in day.spreads:
        bins[min(spread // 250, 19)] += 100 / len(day.spreads)
    y = ticks(max(bins))
    x = Axis(0, 5, range(6), "doublings of (rating + 100) between the strongest and the weakest")
    panel = Panel(picture, (0, 320, 900, 320), "spread of rating at a table", x, Axis(0, y[-1], y, "%"))
    panel.bars([((index + 0.5) / 4, share) for index, share in enumerate(bins)], COLOURS[0])
    y = ticks(max(costs.values()))
    x = Axis(min(costs), max(costs), list(costs), "tickets waiting", math.log10)
    panel = Panel(picture, (0, 640, 900, 320), "valkey cpu for a match of three", x, Axis(0, y[-1], y, "us"))
    panel.lines(list(costs.items()), COLOURS[1])
    picture.save(PLOT)


def percentiles(values: Sequence[int]) -> Iterator[tuple[str, int]]:
    ordered = sorted(values)
    for share in (50, 90, 99):
        yield f"p{share}", ordered[min(len(ordered) * share // 100, len(ordered) - 1)]


async def main(url: str) -> bool:
    coming = arrivals(PLAYERS, random.Random(SEED))
    pipe, redis = stores.pipe(url), Redis.from_url(url)
    async with pipe.running():
        day = await Simulation(Store(pipe, FOREVER, epoch=""), coming).run()
        waits = [wait for hour in day.waits_ms.values() for wait in hour]
        print(f"{PLAYERS} arrivals: {day.matched} matched, {day.left} lost patience, {day.starved} starved")
        for name, values, unit in (("waited", waits, "ms"), ("spread", day.spreads, "/1000 doublings of rating + 100")):
            print(f"{name:8}", ", ".join(f"{key} {value}" for key, value in percentiles(values)), unit)
        costs = await costs_us(pipe, redis)
        for depth, cost in costs.items():
            print(f"{depth:8} waiting: {cost:.0f} us of Valkey for a match")
    await redis.aclose()
    plot(day, coming, costs)
    ratio = max(costs.values()) / min(costs.values())
    figures = {
        "players": PLAYERS,
        "matched": day.matched,
        "left": day.left,
        "starved": day.starved,
        "greatest_waiting": day.greatest_waiting,
        **{f"wait_{key}_ms": value for key, value in percentiles(waits)},
        "wait_greatest_ms": max(waits),
        **{f"spread_{key}": value for key, value in percentiles(day.spreads)},
        "cost_us": {str(depth): round(cost) for depth, cost in costs.items()},
        "cost_ratio": round(ratio, 2),
        "plot": str(PLOT),
    }
    print(json.dumps(figures))
    return day.starved == 0 and ratio <= 2


if __name__ == "__main__":
    scratch = folders.scratch()
    with Leash(scratch) as leash, contextlib.ExitStack() as stack:
        valkey = stack.enter_context(servers.valkey(leash, scratch / "valkey", ports.free(1)[0], appendfsync="no"))
        good = uvloop.run(main(valkey.url))
    raise SystemExit(0 if good else 1)
