"""One node of the table service: its actors, the poll of deadlines that any node may take up, and the drain."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Final

from nats.aio.client import Client

from ddz.table.v1 import table_pb2
from doudizhu import Refusal
from servicekit import ids, logs, metrics
from servicekit.errors import Trouble
from servicekit.lasting import end, lasting, spread
from servicekit.orders import Orders
from servicekit.pipe import StoreLost
from services.table import commands, counts, life, log, wire_commands
from services.table.actor import Actor
from services.table.budget import Budget
from services.table.effects import Ledger, Seeds
from services.table.fanout import Stream
from services.table.news import PUT_ASIDE, News
from services.table.record import record_of
from services.table.settings import UNNAMED, Settings
from services.table.store import Store
from services.table.table import Connection, Stage, Table
from services.table.terms import Person, Reason, Terms

_log = logs.get("node")

_RESUME_EVENTS: Final = 512  # more than so many missed events, and a snapshot is shorter


class Node:
    """Everything that the servicers ask for."""

    def __init__(
        self, settings: Settings, store: Store, ledger: Ledger, bus: Client, seeds: Seeds, orders: Orders
    ) -> None:
        self.settings = settings
        self.store = store
        self.seeds = seeds
        self.orders = orders
        # A node that comes back under its old name is another one.
        self._id = settings.new_id()
        self.news = News(bus, self._id, self.background)
        self._ledger = ledger
        self._actors: dict[str, Actor] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = (f"{self._id}:{number}" for number in itertools.count(1))
        self.draining = False
        self._ended = False

    @staticmethod
    def now_ms() -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that nobody waits for; nothing any more once the node ends."""
        if self._ended:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics.FAULTS.labels("background").inc()
            _log.error("unexpected exception", exc_info=error)

    # ---- what the servicers ask -----------------------------------------------------------------------------------

    async def open(self, table_id: str, terms: Terms, persons: tuple[Person, ...]) -> int:
        """Makes a table; the number of its last event. The same id again finds the table that is there, also in
        maintenance: whoever asks has had no answer, and a hand may be played at it.

        Raises DRAINING, MAINTENANCE, Malformed for terms that cannot be, KEY_CONFLICT when the id is another room's or
        players'.
        """
        if self.draining:
            raise Refusal(Trouble.DRAINING, "this node takes no new tables; try again")
        if self.orders.closed and not await self.store.exists(table_id):
            self.orders.require_open()
        decision = life.open_table(
            table_id,
            terms,
            persons,
            idle_ms=self.settings.idle_ms,
            now_ms=self.now_ms(),
            draw=random.getrandbits(32),
        )
        actor = self.actor(table_id)
        await actor.open(decision)
        table = actor.table
        assert table is not None
        if table.terms.room_id != terms.room_id or not {person.player_id for person in persons} <= table.known:
            raise Refusal(Reason.KEY_CONFLICT, "this table id was opened for others", field="table_id")
        return table.seq

    async def sit(self, table_id: str, person: Person, seat: int | None) -> int:
        """The seat of this person. Raises what the domain raises."""
        actor = self.actor(table_id)
        await actor.ask(lambda _: commands.Sit(person, seat))
        assert actor.table is not None
        found = actor.table.seat_of(person.player_id)
        if found is None:
            raise Refusal(Reason.ROOM_FULL, "the seat was lost again")
        return found

    async def observe(self, table_id: str, person: Person, seat: int) -> int:
        """The number of the event that lets him observe."""
        return await self.actor(table_id).ask(lambda _: commands.Observe(person, seat))

    async def act(self, table_id: str, player_id: str, command: table_pb2.Command) -> int:
        """Does a person's command once; the number of its last event. Raises BANNED, and what the domain raises."""
        self.orders.require_welcome(player_id)
        actor = self.actor(table_id)
        ids.bind(hand="" if actor.table is None else actor.table.hand_id)
        return await actor.ask(
            lambda table: wire_commands.command_from(table, player_id, command), (player_id, command.command_id)
        )

    async def attach(
        self,
        table_id: str,
        player_id: str,
        after_seq: int,
        epoch: int,
        response: type[table_pb2.PlayResponse | table_pb2.WatchResponse] = table_pb2.PlayResponse,
    ) -> tuple[Actor, Stream]:
        """A new stream of a person, his newest; its frames are `response`. Raises NOT_FOUND, NOT_A_PLAYER, DRAINING,
        BANNED.
        """
        if self.draining:
            raise Refusal(Trouble.DRAINING, "this node serves no new streams; try again")
        self.orders.require_welcome(player_id)
        actor = self.actor(table_id)
        budget = Budget(self.settings.commands_per_s, self.settings.commands_burst)
        stream = Stream(player_id, next(self._connections), self.settings.stream_limit, budget, response)

        def connect(table: Table) -> commands.Command:
            self._require_watcher(table, player_id)
            return commands.Connect(player_id, stream.connection)

        async def begin(table: Table) -> None:
            if stream.said_goodbye:  # the call has ended meanwhile
                return
            missed = None
            if after_seq and epoch == actor.epoch and 0 <= table.seq - after_seq <= _RESUME_EVENTS:
                missed = [log.decode(table_id, entry) for entry in await self.store.read(table_id, after_seq)]
                if table.seq > after_seq and not (missed and missed[0].stamped):
                    missed = None  # it has been cut
                if stream.said_goodbye:
                    return
            actor.audience.attach(stream, table, actor.epoch, self.now_ms(), missed, after_seq)
            if self.orders.closed or after_seq:  # who comes back may have been told of one that is over
                stream.push("notice", self.orders.notice)
            self.news.listen(table_id, lambda seq: self._heard(actor, seq))

        try:
            await actor.ask(connect, then=begin)
        except BaseException as error:
            stream.goodbye("gone", reconnect=True)
            if not isinstance(error, Refusal) or error.reason == Trouble.UNAVAILABLE:  # it may be in the log
                self.detach(actor, stream)
            raise
        return actor, stream

    def detach(self, actor: Actor, stream: Stream) -> None:
        """A stream has ended. A drain is not the person's doing: he is on his way to another node."""
        actor.audience.detach(stream)
        counts.ended(stream.said_goodbye)
        if not actor.audience.streams:
            self.news.unlisten(actor.table_id)
        if not self.draining and stream.said_goodbye not in ("replaced", "closed", "left"):
            actor.tell(commands.Disconnect(stream.player_id, stream.connection))

    async def look(self, table_id: str, player_id: str) -> Table:
        """The table as the log has it now, for somebody who may watch it."""
        table = await self.actor(table_id).refresh()
        self._require_watcher(table, player_id)
        return table

    @staticmethod
    def _require_watcher(table: Table, player_id: str) -> None:
        if not life.may_watch(table, player_id):
            raise Refusal(Reason.NOT_A_PLAYER, "sit down or observe first", field="table_id")

    # ---- what the actors ask --------------------------------------------------------------------------------------

    async def bring_about(self, effect: life.Effect, actor: Actor) -> commands.Command:
        """Does what is pending outside; the answer is a command for the table."""
        table = actor.table
        assert table is not None
        match effect:
            case life.OpenHand():
                return await self._ledger.open(effect, table)
            case life.SettleHand():
                entries = await self.store.read(actor.table_id, effect.first_seq - 1)
                messages = (message for entry in entries for message in log.messages(entry))
                # Another node may have settled it meanwhile, and the next hand may have begun.
                record = record_of(table, (one for one in messages if effect.first_seq <= one.seq <= table.seq))
                return await self._ledger.settle(effect.hand_id, record)
            case life.VoidHand():
                return await self._ledger.void(effect.hand_id, "void at the table")
            case life.DrawSeed():
                return commands.Commit(effect.deal_id, self.seeds.draw(effect.deal_id))

    async def dead(self, streams: Iterable[Connection]) -> tuple[Connection, ...]:
        """Those whose node is not at work. Raises StoreLost."""
        return await self.store.dead(streams, self._id)

    async def put_aside(self, actor: Actor) -> None:
        """Has a table that cannot be read be there no more, here and on all nodes. Raises StoreLost."""
        await self.store.put_aside(actor.table_id, self.settings.keep_ms)
        self.news.put_aside(actor.table_id)
        await actor.read_anew()

    def _heard(self, actor: Actor, seq: int) -> None:
        if seq == PUT_ASIDE:
            self.background(actor.read_anew())
        elif actor.table is not None and seq > actor.table.seq:
            actor.tell(commands.Tick())

    # ---- the registry ---------------------------------------------------------------------------------------------

    def actor(self, table_id: str) -> Actor:
        """The actor of a table on this node."""
        actor = self._actors.get(table_id)
        if actor is None:
            actor = self._actors[table_id] = Actor(self, table_id)
        return actor

    def actors(self) -> list[Actor]:
        """Those of all tables that this node holds in memory."""
        return list(self._actors.values())

    def seats_here(self) -> int:
        """How many seated players have their stream here."""
        return counts.seats(self.actors(), f"{self._id}:")

    def _retire(self) -> None:
        """Lets go of actors that nobody needs; closed tables and unknown ids at once."""
        now = time.monotonic()
        for table_id, actor in list(self._actors.items()):
            over = actor.table is None or actor.table.stage is Stage.CLOSED
            if actor.idle and (over or now - actor.used_at > self.settings.retire_s):
                actor.close()
                del self._actors[table_id]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Polls the deadlines and sweeps until left."""
        await self._take_name()
        works = {"poll": self._poll, "sweep": self._sweep, "heartbeats": self._heartbeats, "lost": self._void_lost}
        tasks = [asyncio.create_task(lasting(where, work)) for where, work in works.items()]
        try:
            yield
        finally:
            self._ended = True
            await end(*tasks, *self._tasks)
            for actor in self._actors.values():
                actor.close()

    async def _poll(self) -> None:
        """Takes up tables whose deadline has passed without anybody noticing: their node has died."""
        while True:
            await asyncio.sleep(self.settings.poll_s * random.uniform(0.8, 1.2))
            now_ms = self.now_ms()
            try:
                due = await self.store.claim_due(now_ms - self.settings.grace_ms, now_ms)
            except StoreLost:
                continue
            for table_id in due:
                self.background(self._take_up(table_id))

    async def _take_up(self, table_id: str) -> None:
        counts.TAKEN_UP.inc()
        with contextlib.suppress(StoreLost):  # it is due again in a second
            try:
                await self.actor(table_id).take_up()
            except Refusal as refusal:
                if refusal.reason == Reason.NOT_FOUND:
                    await self.store.set_deadline(table_id, 0, None)

    async def _heartbeats(self) -> None:
        """Sends a heartbeat on every stream that has been silent."""
        while True:
            stock = counts.Stock(f"{self._id}:")
            async for actor in spread(self.actors(), self.settings.heartbeat_s / 4):
                actor.audience.beat(actor.table, time.monotonic() - self.settings.heartbeat_s * 3 / 4, self.now_ms())
                stock.take(actor)
            stock.tell()

    async def _take_name(self) -> None:
        """Says which id runs under the node's name from now on: the one before counts as dead."""
        if self.settings.node_id != UNNAMED:
            with contextlib.suppress(StoreLost):  # then it does so a little later
                await self.store.succeed(self.settings.node_id, self._id)

    async def _say_alive(self) -> None:
        await self.store.say_alive(self._id, int(3 * self.settings.report_s) + 1)

    async def _sweep(self) -> None:
        """Says that the node lives, reports tables to the lobby, heals lost news, lets go of what nobody needs."""
        while True:
            with contextlib.suppress(StoreLost):
                await self._say_alive()
            self._retire()
            elsewhere: dict[Actor, list[Connection]] = {}
            async for actor in spread(self.actors(), self.settings.report_s):
                if (table := actor.table) is None or table.stage is Stage.CLOSED:
                    continue
                self.news.report(table)
                if actor.audience.streams and time.monotonic() - actor.used_at > self.settings.report_s:
                    actor.tell(commands.Tick())
                await actor.cut()
                if others := [one for one in table.connections if not one[1].startswith(f"{self._id}:")]:
                    elsewhere[actor] = others
            with contextlib.suppress(StoreLost):
                await self._bury(elsewhere)

    async def _bury(self, streams: dict[Actor, list[Connection]]) -> None:
        """Tells tables of streams that ended with their nodes: who has not come back to another is away."""
        dead = set(await self.dead(itertools.chain(*streams.values())))
        for actor, ended in streams.items():
            if gone := [stream for stream in ended if stream in dead]:
                self.background(actor.bury(gone))

    async def _void_lost(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lost_sweep_s * random.uniform(0.8, 1.2))
            try:
                await self.void_lost()
            except (StoreLost, Refusal) as error:
                _log.info("lost hands not looked for", extra={"why": str(error)})

    async def void_lost(self) -> None:
        """Voids old open hands that no table plays: nobody else can end them, and they hold their players.

        The log of the table is gone; or the ledger has opened the hand late, when the table had given it up already.
        The hand of a table that cannot be read for a fault of ours is an operator's to void.
        Raises StoreLost, UNAVAILABLE.
        """
        older_than_ms = int(1000 * self.settings.lost_s)
        lost = [hand for hand in await self._ledger.open_hands(older_than_ms) if not await self._plays(*hand)]
        # One that its table has just settled is over by now.
        still_open = set(await self._ledger.open_hands(older_than_ms)) if lost else set()
        for hand_id, table_id in (hand for hand in lost if hand in still_open):
            _log.warning("hand lost", extra={"table": table_id, "hand": hand_id})
            await self._ledger.void(hand_id, "lost: no table plays it")

    async def _plays(self, hand_id: str, table_id: str) -> bool:
        """Whether a table may still bring this hand to its end."""
        try:
            table = await self.actor(table_id).refresh()
        except Refusal as refusal:
            return refusal.reason != Reason.NOT_FOUND
        except Exception:  # whatever it is, the actor has told of it; nobody can say what the table does
            return True
        return table.hand_id == hand_id and table.stage in (Stage.OPENING, Stage.HAND, Stage.SETTLING)

    async def stand_down(self) -> None:
        """Takes no new tables and streams until told otherwise, and sends everybody to another node; it lives on.

        From now on it has another id: streams that do not come back are those of a node that is dead.
        """
        self._send_away()
        self._id = self.settings.new_id()
        self.news.rename(self._id)
        with contextlib.suppress(StoreLost):  # it is said again soon
            await self._say_alive()

    async def stand_up(self) -> None:
        """Takes tables and streams again, under its new id."""
        self.draining = False
        await self._take_name()

    def _send_away(self) -> None:
        self.draining = True
        for actor in self._actors.values():
            actor.audience.drain()

    async def drain(self) -> None:
        """Takes no new tables, sends everybody to another node, and waits until what was asked is done."""
        self._send_away()
        try:
            async with asyncio.timeout(self.settings.drain_s):
                # A table that fails must not cut short what is under way at the others.
                await asyncio.gather(*(one.finish() for one in self.actors()), return_exceptions=True)
        except TimeoutError:
            _log.warning("drained too slowly")
