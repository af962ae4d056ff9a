"""Simulated people: they log in, queue or sit down, play all three books, and do to the system what people do.

They act on what they have been told, on time or too late; they repeat commands, act on old versions and out of turn,
leave in every phase, lose connections and come back on another node, watch others, and hand over to the trustee. Every
choice is drawn from the run's chance.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from doudizhu import Refusal
from services.table.table import Stage, Table
from tests.sim.system.audit import Violation
from tests.sim.system.choices import Action, choose, nonsense
from tests.sim.system.doors import Doors
from tests.sim.system.frames import Frame
from tests.sim.system.loop import Process
from tests.sim.system.streams import Link

if TYPE_CHECKING:
    from services.table.node import Node
    from tests.sim.system.processes import Instance
    from tests.sim.system.world import World

_TURNS: Final = frozenset(
    (
        events_pb2.PHASE_BID,
        events_pb2.PHASE_CALL,
        events_pb2.PHASE_ROB,
        events_pb2.PHASE_SHOW,
        events_pb2.PHASE_PLAY,
    )
)
# What asks seats outside of turns; a base is set, and agreed to, by who has not yet.
_ASKED: Final = frozenset(
    (
        events_pb2.PHASE_SEATING,
        events_pb2.PHASE_BASE,
        events_pb2.PHASE_AGREE,
        events_pb2.PHASE_READY,
        events_pb2.PHASE_SEED,
        events_pb2.PHASE_SHOW_WINDOW,
        events_pb2.PHASE_COUNTDOWN,
    )
)
_SILENCE_S: Final = 8.0  # without a frame, and a connection counts as broken
_TOMORROW_S: Final = 60.0
_TEND_S: Final = 2.0


class Person:
    """One account. `live` goes on for ever."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._rng = world.chance.rng
        self._doors = Doors(world, number)
        self.player_id = ""
        self._table_id = ""
        self._link: Link | None = None
        self._epoch = 0
        self._seat = -1
        self._observing = False
        self._ended = asyncio.Event()
        self._why = ""
        self._commands = 0
        self._passes = 0.3 + 0.6 * self._rng.random()
        self._sent: tuple[str, Action] | None = None
        self._heard_s = 0.0

    # ---- a life -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Comes, plays, goes, and comes again."""
        await asyncio.sleep(self._rng.random())
        await self._doors.log_in()
        self.player_id = self._doors.player_id
        while True:
            await asyncio.sleep(0.2 * self._rng.random())
            try:
                self._table_id = await self._doors.find_table()
                if self._table_id:
                    await self._stay()
            except Refusal:
                await asyncio.sleep(self._rng.random())
            self._table_id = ""

    # ---- at a table -------------------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        """Connected, until the table lets him go; comes back whenever the connection is lost."""
        self._seat, self._observing, self._epoch = -1, False, 0
        seq = 0
        for _ in range(30):
            self._ended.clear()
            try:
                link = await self._connect(seq)
            except Refusal as refusal:
                if refusal.reason not in ("UNAVAILABLE", "DRAINING", "OVERLOADED"):
                    return
                await asyncio.sleep(0.3 * self._rng.random())
                continue
            self._link = link
            self._tend(link)
            await self._ended.wait()
            why = self._why
            seq = link.seq if self._rng.random() < 0.8 else 0
            link.close()
            self._link = None
            if why in ("left", "closed"):
                return
            if self._rng.random() < 0.12:  # he lets it be for today, and comes back tomorrow
                await asyncio.sleep(_TOMORROW_S)
            await asyncio.sleep(0.2 * self._rng.random())

    async def _connect(self, seq: int) -> Link:
        table_id, epoch = self._table_id, self._epoch
        self._heard_s = self._world.loop.time()

        async def attach(at: Instance) -> Link:
            link = Link(self._world, at, self.player_id, self._heard, self._lost)
            link.seq = seq
            links.append(link)
            await link.attach(at.node, table_id, seq, epoch)
            return link

        links: list[Link] = []
        try:
            anywhere = seq > 0 and self._rng.random() < 0.2  # who comes back may come to any node
            link: Link = await self._doors.ask("table", attach, key="" if anywhere else table_id)
        except Refusal:
            for one in links:
                one.close()
            raise
        for one in links:
            if one is not link:
                one.close()
        return link

    def _tend(self, link: Link) -> None:
        """Looks after a connection now and then: it breaks, it is silent, he has had enough."""
        if link is not self._link or not link.open:
            return
        loop, rng = self._world.loop, self._rng
        if loop.time() - self._heard_s > _SILENCE_S:
            self._lost(link)
            return
        if self._world.chance.strikes("connection of a person broken", 0.012):
            link.break_off()
        table = self._table(link)
        waits = table is not None and table.stage is Stage.WAITING
        if (self._observing and rng.random() < 0.5) or (waits and rng.random() < 0.1):
            self._send(link, {"leave": table_pb2.Leave()})
        if rng.random() < 0.03:
            loop.create_task(self._doors.sit_elsewhere())
        loop.call_later(_TEND_S * (0.5 + rng.random()), self._tend, link)

    def _lost(self, link: Link) -> None:
        if link is self._link:
            self._why = "lost"
            self._ended.set()

    def process_died(self, process: Process) -> None:
        """The other end is gone: the connection is reset."""
        if self._link is not None and self._link.instance.process is process:
            self._link.break_off()

    def is_up_to_date(self) -> None:
        """When nothing fails, who is connected has been told all but what is on its way. Raises Violation."""
        link = self._link
        if link is None or not link.open:
            return
        table = self._world.audit.tables[link.table_id].table
        behind_s = self._world.loop.time() - self._world.audit.tables[link.table_id].appended_s
        if table is not None and link.seq < table.seq and behind_s > 6.0:
            raise Violation(f"{self.player_id} has been told {link.seq} of {table.seq} events of {link.table_id}")

    # ---- what comes -------------------------------------------------------------------------------------------------

    def _heard(self, link: Link, frame: Frame) -> None:
        """A frame has come; older connections are not listened to."""
        if link is not self._link and self._link is not None and self._link.open:
            return
        self._heard_s = self._world.loop.time()
        if frame.kind == "goodbye":
            self._why = frame.why
            self._ended.set()
            return
        if frame.snapshot is not None:
            self._seat = -1 if frame.snapshot.observing else frame.snapshot.you
            self._observing = frame.snapshot.observing
            self._epoch = frame.snapshot.epoch
        if frame.clock is not None:
            self._react(link, frame.clock)

    def _react(self, link: Link, clock: tuple[int, int, int]) -> None:
        """Draws what to do about it: mostly what the table waits for, sometimes something else."""
        rng, loop = self._rng, self._world.loop
        phase, seat, _ = clock
        drawn = rng.random()
        if phase in _TURNS:
            if seat == self._seat:
                think_s = 0.02 + 0.15 * rng.random() if drawn < 0.985 else 4.0
                loop.call_later(think_s, self._act, link)
                return
        elif self._seat >= 0 and drawn < 0.9 and phase in _ASKED:
            loop.call_later(0.02 + 0.1 * rng.random(), self._answer, link)
        if drawn > 0.99:
            loop.call_later(0.1 * rng.random(), self._misbehave, link)

    def _table(self, link: Link) -> Table | None:
        """The table as it now is, for who is still there."""
        if link is not self._link or not link.open:
            return None
        known = self._world.audit.tables.get(link.table_id)
        return known.table if known is not None else None

    def _act(self, link: Link) -> None:
        """It is his turn, or was when he was told."""
        table = self._table(link)
        if table is None or table.hand is None or table.stage is not Stage.HAND or table.hand.turn != self._seat:
            return
        if self._rng.random() < 0.012:
            self._send(link, {"leave": table_pb2.Leave()})
            return
        self._send(link, choose(table.hand, self._seat, self._rng, self._passes))

    def _answer(self, link: Link) -> None:
        """What the table asks of a seat outside of turns."""
        table = self._table(link)
        if table is None or self._seat < 0:
            return
        rng, phase = self._rng, table.phase.value
        mine = table.seats[self._seat]
        if phase == "BASE" and table.base_setter == self._seat:
            self._send(link, {"set_base": table_pb2.SetBase(base_chips=rng.randint(1, 40))})
        elif phase == "AGREE" and not mine.agreed and table.base_setter != self._seat:
            self._send(link, {"answer_base": table_pb2.AnswerBase(agree=rng.random() < 0.95)})
        elif phase in ("READY", "SEATING", "COUNTDOWN") and table.book.ready_to_start and not mine.ready:
            self._send(link, {"ready": table_pb2.Ready(ready=True)})
        elif phase == "SEED" and rng.random() < 0.5:
            self._send(link, {"give_seed": table_pb2.GiveSeed(seed=rng.randbytes(8))})
        elif phase == "SHOW_WINDOW" and rng.random() < 0.05:
            self._send(link, {"show": hand_pb2.Show(show=True)})
        elif phase == "COUNTDOWN" and rng.random() < 0.03:
            self._send(link, {"leave": table_pb2.Leave()})

    def _misbehave(self, link: Link) -> None:
        """Something that nobody asked for."""
        if self._table(link) is None:
            return
        rng = self._rng
        drawn = rng.random()
        if drawn < 0.35:
            self._send(link, nonsense(rng))
        elif drawn < 0.6 and self._sent is not None:  # an old action under a new name
            self._send(link, self._sent[1])
        elif drawn < 0.75:
            self._send(link, {"leave": table_pb2.Leave()})
        elif drawn < 0.85:
            self._send(link, {"trustee": table_pb2.Trustee(on=rng.random() < 0.5)})
        elif drawn < 0.95:
            self._send(link, {"allow_observers": table_pb2.AllowObservers(allow=rng.random() < 0.6)})
        else:
            link.break_off()

    # ---- what goes --------------------------------------------------------------------------------------------------

    def _send(self, link: Link, action: Action) -> None:
        """Sends a command on the stream; now and then it comes twice, the second time to any node."""
        self._commands += 1
        command = table_pb2.Command(command_id=f"c{self._commands}", **action)
        self._sent = command.command_id, action
        (body,) = action.values()
        self._world.audit.sent[self.player_id, command.command_id] = body.DESCRIPTOR.name
        world, rng = self._world, self._rng
        world.loop.call_later(world.chance.delay_s(), self._arrive, link, command)
        if world.chance.strikes("command sent twice", 0.03):
            world.loop.call_later(0.5 * rng.random(), self._repeat, link.table_id, command)

    def _arrive(self, link: Link, command: table_pb2.Command) -> None:
        process = link.instance.process
        if link.open and process.alive and link.stream is not None:
            self._world.loop.spawn(process, _command(link.instance.node, link, command))

    def _repeat(self, table_id: str, command: table_pb2.Command) -> None:
        """The same command by Act, without waiting for what becomes of it."""
        player_id = self.player_id

        async def act() -> None:
            with contextlib.suppress(Refusal):
                seq = await self._doors.ask("table", lambda at: at.node.act(table_id, player_id, command))
                self._world.audit.answered(table_id, player_id, command.command_id, seq)

        self._world.loop.create_task(act())


async def _command(node: Node, link: Link, command: table_pb2.Command) -> None:
    """On the node: as the servicer does a command of a stream."""
    stream = link.stream
    assert stream is not None
    try:
        seq = await node.act(link.table_id, link.player_id, command)
    except Refusal:
        stream.push("refused", table_pb2.Refused(command_id=command.command_id))
    else:
        stream.push_accepted(table_pb2.Accepted(command_id=command.command_id, seq=seq))
