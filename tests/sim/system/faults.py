"""What is done to the system: processes are killed, paused and drained, servers go away, clocks go wrong.

A schedule of its own, drawn from the run's chance. Messages that are lost, late or doubled are the ports' own doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tests.sim.system.loop import GREATEST_SKEW_MS
from tests.sim.system.processes import INSTANCES, Instance

if TYPE_CHECKING:
    from tests.sim.system.world import World

_MEAN_S: Final = 4.0  # between two faults


class Faults:
    """`run` does one thing after the other until the run's level of faults is 0; `heal` undoes all of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kinds: tuple[tuple[str, int, Callable[[], Awaitable[None]]], ...] = (
            ("process killed", 5, self._kill),
            ("process paused", 4, self._pause),
            ("table node drained", 2, self._drain),
            ("clock skewed", 3, self._skew),
            ("redis restarted", 1, self._redis),
            ("redis connection cut", 4, self._cut),
            ("postgres restarted", 1, self._postgres),
            ("nats away", 2, self._nats),
        )

    async def run(self) -> None:
        """For ever."""
        world, rng = self._world, self._world.chance.rng
        weights = [weight for _, weight, _ in self._kinds]
        while True:
            await asyncio.sleep(rng.expovariate(1 / _MEAN_S))
            if not world.chance.level:
                return
            ((name, _, strike),) = rng.choices(self._kinds, weights)
            world.chance.faults[name] += 1
            world.trace.add(world.loop.time(), "fault", name)
            await strike()

    def _any(self, service: str = "") -> Instance:
        """An instance that lives and is not paused."""
        rng = self._world.chance.rng
        names = [service] if service else ["table"] * 3 + [name for name in INSTANCES if name != "table"]
        return rng.choice(self._world.instances[rng.choice(names)])

    async def _kill(self) -> None:
        instance = self._any()
        if instance.process.alive:
            self._world.kill(instance)
            self._later(0.2, 3.0, lambda: self._world.restart(instance))

    async def _pause(self) -> None:
        process = self._any().process
        if process.alive and not process.paused:
            process.paused = True
            self._later(0.2, 4.0, lambda: self._world.loop.resume(process))

    async def _drain(self) -> None:
        instance = self._any("table")
        if instance.ready and instance.process.alive and not instance.process.paused:
            self._world.loop.spawn(instance.process, instance.node.drain())
            self._later(3.0, 3.5, lambda: self._world.restart(instance))

    async def _skew(self) -> None:
        self._any("table").process.skew_ms = self._world.chance.rng.randint(-GREATEST_SKEW_MS, GREATEST_SKEW_MS)

    async def _redis(self) -> None:
        self._world.redis.up = False
        for instance in self._world.running():
            if instance.pipe is not None:
                instance.pipe.cut()
        self._later(0.1, 1.5, self._redis_again)

    def _redis_again(self) -> None:
        self._world.redis.restart()
        self._world.redis.up = True
        for instance in self._world.running():
            if instance.pipe is not None:
                instance.pipe.cut()

    async def _cut(self) -> None:
        pipe = self._any("table").pipe
        if pipe is not None:
            pipe.cut()

    async def _postgres(self) -> None:
        self._world.postgres.up = False
        self._world.postgres.restart()
        self._later(0.1, 2.0, lambda: setattr(self._world.postgres, "up", True))

    async def _nats(self) -> None:
        self._world.bus.up = False
        self._later(0.2, 5.0, lambda: setattr(self._world.bus, "up", True))

    def _later(self, least_s: float, most_s: float, undo: Callable[[], object]) -> None:
        delay_s = self._world.chance.rng.uniform(least_s, most_s)
        self._world.loop.call_later(delay_s, undo, context=self._world.context)
