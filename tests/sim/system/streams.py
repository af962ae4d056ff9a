"""A person's stream: the real frames of services/table/fanout.py over a simulated connection.

Frames come late but in order, as on one HTTP/2 stream, until the connection breaks. Either end learns of that later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from services.table.fanout import Stream
from tests.sim.system.frames import Frame, read
from tests.sim.system.loop import PROCESS

if TYPE_CHECKING:
    from services.table.actor import Actor
    from services.table.node import Node
    from tests.sim.system.processes import Instance
    from tests.sim.system.world import World


class SimStream(Stream):
    """The real stream; who waits for its frames is a connection instead of a coroutine."""

    wake: Callable[[], None] | None = None

    def __hash__(self) -> int:
        """By its number: sets of streams are then walked in the same order in every run."""
        return int(self.connection.rpartition(":")[2])

    def __eq__(self, other: object) -> bool:
        return self is other

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake()

    @property
    def waiting(self) -> bool:
        """Whether there are frames to send."""
        return bool(self._waiting)

    def take(self) -> bytes:
        """The next frame."""
        return self._next()


class Link:
    """One connection of a person to a node. `heard(link, frame)` and `lost(link)` are called at the person's end."""

    def __init__(
        self,
        world: World,
        instance: Instance,
        player_id: str,
        heard: Callable[[Link, Frame], None],
        lost: Callable[[Link], None],
    ) -> None:
        self.instance = instance
        self.player_id = player_id
        self.table_id = ""
        self.open = True
        self.stream: SimStream | None = None
        self.closed_s = 0.0  # when it ended
        self.seq = 0  # the last event that came, of which table and epoch
        self._world = world
        self._heard = heard
        self._lost = lost
        self._actor: Actor | None = None
        self._sending = False

    async def attach(self, node: Node, table_id: str, after_seq: int, epoch: int) -> None:
        """On the node: begins the stream. Raises what the node raises."""
        actor, stream = await node.attach(table_id, self.player_id, after_seq, epoch)
        assert isinstance(stream, SimStream)
        self._actor, self.stream = actor, stream
        self._world.audit.links[stream.connection] = self
        self.table_id = table_id
        if not self.open:
            self._detach()
            return
        stream.wake = self._send
        self._send()

    def _send(self) -> None:
        if not self._sending and self.stream is not None and self.stream.waiting:
            self._sending = True
            world = self._world
            world.loop.call_later(world.chance.delay_s(), self._arrive, context=world.context)

    def _arrive(self) -> None:
        self._sending = False
        stream = self.stream
        assert stream is not None
        process = self.instance.process
        if not self.open or not process.alive:
            return
        while stream.waiting and self.open:
            raw = stream.take()
            frame = read(raw)
            self._world.audit.told(self, raw, frame)
            self._heard(self, frame)
        if stream.said_goodbye and self.open:
            self._end()
            self._world.loop.call_later(0.001, self._detach, context=process.context)

    def close(self) -> None:
        """At the person's end: the node learns of it a little later."""
        if self.open:
            self._end()
            process = self.instance.process
            self._world.loop.call_later(self._world.chance.delay_s() + 0.05, self._detach, context=process.context)

    def _end(self) -> None:
        self.open = False
        self.closed_s = self._world.loop.time()

    def break_off(self) -> None:
        """Neither end has wanted it: both learn of it, each in its time."""
        if self.open:
            self.close()
            self._world.loop.call_later(0.1, self._lost, self, context=self._world.context)

    def _detach(self) -> None:
        process = PROCESS.get()
        if process is not None and process.alive and self._actor is not None and self.stream is not None:
            self.instance.node.detach(self._actor, self.stream)
            self._actor = None
