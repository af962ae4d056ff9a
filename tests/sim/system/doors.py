"""The ways in: how simulated people get an account and a place at a table, by the lobby and by matchmaking."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ddz.common.v1 import common_pb2
from doudizhu import Refusal
from servicekit.remote import Silence
from services.matchmaking.queue import LIVE, State, Ticket
from services.table.table import Stage
from tests.sim.system.rooms import CLASSIC, HAPPY, ROB

if TYPE_CHECKING:
    from tests.sim.system.processes import Instance
    from tests.sim.system.world import World

_TIMEOUT_S: Final = 3.0


class Doors:
    """The calls of one person; `player_id` is known once he has logged in."""

    def __init__(self, world: World, number: int) -> None:
        self.player_id = ""
        self._world = world
        self._rng = world.chance.rng
        self._number = number
        self._requests = 0

    async def log_in(self) -> None:
        """Until it is answered; now and then once more, though it was."""
        if self._rng.random() < 0.2:  # with a double click
            self._world.loop.create_task(self._log_in_once())
        answered = False
        while not answered or self._rng.random() < 0.1:
            answered = await self._log_in_once()
            await asyncio.sleep(0.3 * self._rng.random())

    async def _log_in_once(self) -> bool:
        """Whether it was answered."""
        try:
            account, _, _ = await self.ask("lobby", lambda at: at.entry.guest(f"device {self._number}", ""))
        except Refusal:
            return False
        self.player_id = account.player_id
        return True

    def ask(self, service: str, work: Any, timeout_s: float = _TIMEOUT_S, key: str = "") -> Any:
        return self._world.net.ask(service, work, timeout_s, key)

    @property
    def _player(self) -> common_pb2.Player:
        return common_pb2.Player(player_id=self.player_id, display_name=f"{self._number}")

    # ---- finding a table --------------------------------------------------------------------------------------------

    async def find_table(self) -> str:
        """A table where this person has a place; empty when there is none now. Raises Refusal."""
        drawn = self._rng.random()
        try:
            if drawn < 0.10:
                return await self._observe()
            if drawn < 0.34:
                return await self._queue()
            return await self._sit(self._rng.choice((CLASSIC, HAPPY)))
        except Refusal as refusal:
            if refusal.reason == "ALREADY_SEATED" and refusal.data.get("table_id"):
                return str(refusal.data["table_id"])
            raise

    async def _queue(self) -> str:
        """Joins the queue and waits for a table; may lose patience."""
        player = self._player
        ticket: Ticket = await self.ask("matchmaking", lambda at: at.desk.join(player, ROB))
        patient = self._rng.random() < 0.9
        for _ in range(4):
            if ticket.state is State.MATCHED:
                return ticket.table_id
            if ticket.state not in LIVE:
                return ""
            if not patient:
                cancel = partial(_cancel, self.player_id, ticket.ticket_id)
                await self.ask("matchmaking", cancel)
                return ""
            with contextlib.suppress(Silence):
                ticket = await self._watch(ticket.ticket_id)
        return ""

    async def _watch(self, ticket_id: str) -> Ticket:
        """The ticket once it has ended. When nobody waits for it any more the stream ends."""
        wanted = [True]

        async def follow(at: Instance) -> Ticket:
            last: Ticket | None = None
            async with contextlib.aclosing(at.watching.watch(ROB, ticket_id)) as tickets:
                async for ticket in tickets:
                    last = ticket
                    if not wanted[0]:
                        break
            if last is None:
                raise Silence("matchmaking")
            return last

        try:
            found: Ticket = await self.ask("matchmaking", follow, timeout_s=6.0)
        finally:
            wanted[0] = False
        return found

    async def _sit(self, room_id: str) -> str:
        """Sits down where a seat is free, or opens a table."""
        player = self._player
        tables = await self.ask("lobby", lambda at: _page(at, room_id))
        seats = {one.table_id: sum(bool(seat.player_id) for seat in one.players) for one in tables}
        free = [table_id for table_id, taken in seats.items() if taken < 3]
        if free and self._rng.random() < 0.97:
            table_id = str(
                max(free, key=lambda one: seats[one]) if self._rng.random() < 0.8 else self._rng.choice(free)
            )
            await self.ask("lobby", lambda at: at.seating.sit(player, table_id, None, ""))
            return table_id
        self._requests += 1
        request = f"r{self._requests}"
        with contextlib.suppress(Silence):
            return await self._create(room_id, request)
        return await self._create(room_id, request)

    async def _create(self, room_id: str, request: str) -> str:
        player = self._player
        opened, _ = await self.ask("lobby", lambda at: at.seating.create(player, room_id, request, private=False))
        return str(opened.table_id)

    async def _observe(self) -> str:
        """Watches somebody's seat at a table that is in use."""
        busy = [
            one.table_id for one in self._world.audit.tables.values() if one.table and one.table.stage is Stage.HAND
        ]
        if not busy:
            return ""
        table_id, seat, player = self._rng.choice(busy), self._rng.randrange(3), self._player
        await self.ask("lobby", lambda at: at.seating.observe(player, table_id, seat, ""))
        return table_id

    async def sit_elsewhere(self) -> None:
        """Tries to sit at a second table, or to queue, while he has a seat: he must not be in two hands."""
        with contextlib.suppress(Refusal):
            if self._rng.random() < 0.5:
                player = self._player
                await self.ask("matchmaking", lambda at: at.desk.join(player, ROB))
            else:
                await self._sit(self._rng.choice((CLASSIC, HAPPY)))


async def _cancel(player_id: str, ticket_id: str, at: Instance) -> Ticket:
    return await at.desk.cancel(player_id, ticket_id)


async def _page(at: Instance, room_id: str) -> list[Any]:
    return list(at.board.page(room_id, "", 30)[0])
