"""One simulated system: servers, processes, people, faults and the auditor, all driven by one seed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final

from tests.sim.system import shims
from tests.sim.system.audit import Audit, Violation
from tests.sim.system.bus import Bus
from tests.sim.system.chance import Chance, Trace
from tests.sim.system.faults import Faults
from tests.sim.system.loop import Deadlock, VirtualLoop
from tests.sim.system.net import Net
from tests.sim.system.people import Person
from tests.sim.system.postgres import Postgres
from tests.sim.system.processes import INSTANCES, Instance, run
from tests.sim.system.redis import Redis
from tests.sim.system.rooms import rooms_of

_PEOPLE: Final = ((4, 5), (20, 8), (60, 26), (1_000_000, 54))  # in runs of fewer hands than that; coming costs as well
_CALM_S: Final = 10.0
_STEP_S: Final = 0.25
_GREATEST_S: Final = 3_600.0  # of virtual time, in which the hands asked for must have been played


@dataclass
class Report:
    """What came of a run."""

    seed: int
    hands: int = 0
    digest: str = ""
    events: int = 0
    virtual_s: float = 0.0
    books: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None
    last: list[str] = field(default_factory=list)


class World:
    """Everything of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.trace = Trace()
        self.loop = VirtualLoop()
        self.context = copy_context()
        self.deal_seed = self.chance.rng.randbytes(32)
        self.rooms = rooms_of(self.chance.rng)
        self.audit = Audit(self)
        self.redis = Redis(self)
        self.redis.queues.matched = self.audit.matched
        self.postgres = Postgres(self)
        self.bus = Bus(self)
        self.brought: dict[int, float] = {}  # by the durable consumer: message and when
        self.net = Net(self)
        self.instances: dict[str, list[Instance]] = {}
        self.people: list[Person] = []
        self.births = 0

    # ---- processes ------------------------------------------------------------------------------------------------

    def start(self, service: str, number: int) -> None:
        """Starts a process; one that was killed comes back under its name."""
        self.births += 1
        instance = Instance(service, number)
        instance.process.skew_ms = self.chance.rng.randint(-50, 50)
        self.instances[service][number] = instance
        self.loop.spawn(instance.process, run(self, instance))

    def kill(self, instance: Instance) -> None:
        """As kill -9 does it."""
        process = instance.process
        if process.paused:
            self.loop.resume(process)
        process.kill()
        self.bus.forget(process)
        self.postgres.forget(process)
        for person in self.people:
            person.process_died(process)

    def restart(self, instance: Instance) -> None:
        """Another process in its place, unless there is one already."""
        if self.instances[instance.service][instance.number] is instance:
            self.kill(instance)
            self.start(instance.service, instance.number)

    def running(self) -> list[Instance]:
        """Every instance whose process lives."""
        return [one for some in self.instances.values() for one in some if one.process.alive]

    # ---- a run ----------------------------------------------------------------------------------------------------

    async def play(self, hands: int) -> None:
        """Until so many hands are over; then a while without faults, after which all must be well."""
        for service, count in INSTANCES.items():
            self.instances[service] = [Instance(service, number) for number in range(count)]
            for number in range(count):
                self.start(service, number)
        self.people = [Person(self, number) for number in range(next(few for below, few in _PEOPLE if hands < below))]
        for person in self.people:
            self.loop.create_task(person.live())
        self.loop.create_task(Faults(self).run())
        while self.audit.hands < hands:
            await asyncio.sleep(_STEP_S)
            self._check()
            assert self.loop.time() < _GREATEST_S, "too few hands are played"
        self.chance.level = 0.0
        until_s = self.loop.time() + _CALM_S
        while self.loop.time() < until_s:
            await asyncio.sleep(_STEP_S)
            self._check()
        self.audit.at_rest()

    def _check(self) -> None:
        """What has no place of its own to be raised."""
        if self.loop.broken:
            raise Violation("an exception that nobody caught") from self.loop.broken[0]
        self.audit.check()

    def close(self) -> None:
        """Ends every task, so that nothing is left to the garbage collector."""
        for instance in self.running():
            self.kill(instance)
        while tasks := [task for task in asyncio.all_tasks(self.loop) if not task.done()]:
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        with contextlib.suppress(Deadlock):
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


def simulate(seed: int, hands: int) -> Report:
    """One run of a seed until `hands` hands are over; its report says what was found wrong, if anything was."""
    world = World(seed)
    report = Report(seed)
    gc.disable()
    try:
        with shims.in_place(world):
            try:
                world.loop.run_until_complete(world.play(hands))
            except Violation as violation:
                report.violation = violation
            except Exception as error:
                report.violation = Violation(f"the run has broken off: {error!r}")
                report.violation.__cause__ = error
            report.last = world.trace.last()
            report.digest, report.events = world.trace.digest, world.trace.count
            report.virtual_s = world.loop.time()
            world.audit.closing = True
            world.close()
    finally:
        gc.enable()
    report.hands, report.books, report.ends = world.audit.hands, world.audit.books, world.audit.ends
    report.faults = world.chance.faults
    return report
