"""One person of a load: logs in, does what people of his kind do, again and again, and goes when his time is over."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import grpc

from ddz.common.v1 import hand_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.table.v1 import events_pb2
from ddz.table.v1.table_pb2 import Leave
from ddzclient import Gateway, Player, Refusal, Session
from ddzclient.errors import ClientError, TableGone, TicketEnded, translate
from ddzclient.policy import in_hand
from ddzclient.table import Action, TableView
from tests.load.meter import Meter
from tests.load.plan import Kind, Mix, Pace

_THOUGHT: Final = (hand_pb2.Bid, hand_pb2.Call, hand_pb2.Rob, hand_pb2.Show, hand_pb2.PlayCards, hand_pb2.Pass)
_BEFORE_A_HAND: Final = (events_pb2.PHASE_BASE, events_pb2.PHASE_AGREE, events_pb2.PHASE_READY)
_SPREAD: Final = 0.6  # of the logarithm of the time somebody thinks
_MOST_HANDS: Final = 3
_ALONE_S: Final = 3.0  # who waits that long for a third goes
_DROP_EVERY_S: Final = (5.0, 30.0)
_FLEE_AFTER_S: Final = (2.0, 30.0)
_WATCH_S: Final = (10.0, 60.0)
_BROKE: Final = {"BELOW_MINIMUM", "ABOVE_MAXIMUM"}


@dataclass(slots=True)
class World:
    """What all people of a process share.

    They share connections as well, a few people one. Commands wait while `go` is not set; `tables` are those that
    somebody is at; `acknowledged` is told of each command that was answered: table, action, id, the last event's
    number.
    """

    gateways: Sequence[Gateway]
    mix: Mix
    pace: str
    seed: int
    meter: Meter
    go: asyncio.Event
    tables: set[TimedTable] = field(default_factory=set)
    acknowledged: Callable[[TimedTable, Action, str, int], None] = lambda _table, _action, _id, _seq: None


class TimedTable(TableView):
    """A table whose player thinks before he acts, and whose answers are timed."""

    def __init__(self, world: World, session: Session, table_id: str, rng: random.Random) -> None:
        super().__init__(session.gateway.table, table_id, session.player_id, session.metadata, session.renew)
        self._session = session
        self._world = world
        self._rng = rng

    async def headers(self) -> list[tuple[str, str | bytes]]:
        """What a call about this table carries."""
        return await self._session.metadata(self.table_id)

    async def act(self, action: Action, *, command_id: str = "", timeout_s: float | None = None) -> int:
        """As TableView.act: the time until the action is durable and this player's view shows it."""
        if self._world.pace == Pace.HUMAN and isinstance(action, _THOUGHT):
            mix = self._world.mix
            thought_s = mix.think_median_s * self._rng.lognormvariate(0.0, _SPREAD)
            await asyncio.sleep(min(thought_s, mix.think_longest_s))
        await self._world.go.wait()
        command_id = command_id or uuid.uuid4().hex
        began = time.perf_counter()
        try:
            seq = await super().act(action, command_id=command_id, timeout_s=timeout_s)
        except Refusal as refusal:
            self._world.meter.count(f"refused:{refusal.reason}")
            raise
        self._world.meter.time("act", time.perf_counter() - began)
        self._world.acknowledged(self, action, command_id, seq)
        return seq


class Sleeper(Player):
    """Does what a hand waits for before it begins, and nothing in it: clocks run out, and a trustee plays for him.

    `slept` is told of each hand that a trustee takes over.
    """

    def __init__(self, slept: Callable[[], None]) -> None:
        super().__init__()
        self._slept = slept
        self._hand_id = ""  # the last that a trustee has taken over

    def answer(self, state: events_pb2.Snapshot) -> Action | None:
        if state.clock.phase in _BEFORE_A_HAND:
            return super().answer(state)
        if state.seats[state.you].trustee and in_hand(state) and state.hand_id != self._hand_id:
            self._hand_id = state.hand_id
            self._slept()
        return None


class Person:
    """Number `number` of all people, always the same for one seed."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._rng = random.Random(f"{world.seed}:{number}")
        self._lives = 0
        self._leaves_at_s = 0.0
        self._gateway = world.gateways[number % len(world.gateways)]
        self.kind = Kind(_drawn(self._rng, world.mix.people))

    async def live(self, leaves_at_s: float, cut_at_s: float) -> None:
        """Comes, stays until a moment of the loop's clock, finishes the hands that he is in, and goes.

        Who still plays at the second moment loses his connection: his seat is played by a trustee.
        """
        meter = self._world.meter
        self._leaves_at_s = leaves_at_s
        meter.online += 1
        meter.count(f"came:{self.kind}")
        try:
            async with asyncio.timeout_at(cut_at_s):
                await self._stay()
        except TimeoutError:
            meter.count("cut")
        except (Refusal, ClientError) as error:
            meter.count(f"error:{_name(error)}")
        finally:
            meter.online -= 1

    async def _stay(self) -> None:
        session = await self._log_in()
        while asyncio.get_running_loop().time() < self._leaves_at_s:
            try:
                session = await self._once(session)
            except (TicketEnded, TableGone):
                self._world.meter.count("again")
            except (Refusal, ClientError) as error:
                self._world.meter.count(f"error:{_name(error)}")
                await self._pause(1.0)

    async def _log_in(self) -> Session:
        self._lives += 1
        with self._timed("log_in"):
            return await Session.guest(
                self._gateway, f"load:{self._world.seed}:{self._number}:{self._lives}".ljust(16, ".")
            )

    async def _once(self, session: Session) -> Session:
        """What people of his kind do between two decisions; returns who he is afterwards."""
        match self.kind:
            case Kind.IDLE:
                await self._look(session)
            case Kind.OBSERVER:
                await self._observe(session)
            case _:
                try:
                    await self._play(session)
                except Refusal as refusal:
                    if refusal.reason not in _BROKE:
                        raise
                    self._world.meter.count("new_account")
                    return await self._log_in()
        return session

    # ---- players --------------------------------------------------------------------------------------------------

    async def _play(self, session: Session) -> None:
        with self._timed("match"):
            ticket = await session.join(_drawn(self._rng, self._world.mix.rooms))
            try:
                async with asyncio.timeout_at(self._leaves_at_s):
                    table_id = await session.matched(ticket.ticket_id)
            except TimeoutError:
                await self._leave_the_queue(session, ticket.ticket_id)
                raise TicketEnded("GONE") from None
        hands = 1 + hashlib.sha256(table_id.encode()).digest()[0] % _MOST_HANDS  # all three stay as long
        while await self._sit(session, table_id, hands):
            self._world.meter.count("reconnects")

    @staticmethod
    async def _leave_the_queue(session: Session, ticket_id: str) -> None:
        with contextlib.suppress(Refusal):  # too late: there is a table, where a trustee will play
            await session.cancel(ticket_id)

    async def _sit(self, session: Session, table_id: str, hands: int) -> bool:
        """Plays on one connection; True when it was dropped and he comes back."""
        async with self._at(session, table_id) as table:
            meter = self._world.meter
            sleeps = self.kind is Kind.SLEEPER
            player = Sleeper(lambda: meter.count("slept_hands")) if sleeps else Player(seed=self._world.seed)
            playing = asyncio.create_task(player.play(table, hands, lambda _: meter.count("seat_hands")))
            try:
                return await self._until_over(table, playing)
            finally:
                playing.cancel()
                with contextlib.suppress(asyncio.CancelledError, TableGone):
                    await playing

    async def _until_over(self, table: TableView, playing: asyncio.Task[list[str]]) -> bool:
        loop = asyncio.get_running_loop()
        drops_at = loop.time() + self._rng.uniform(*_DROP_EVERY_S)
        flees_at = loop.time() + self._rng.uniform(*_FLEE_AFTER_S)
        alone_since = loop.time()
        while True:
            done, _ = await asyncio.wait({playing}, timeout=0.5)
            if done:
                playing.result()
                return False
            phase = table.state.clock.phase
            if phase != events_pb2.PHASE_SEATING:
                alone_since = loop.time()
            if self.kind is Kind.RECONNECTOR and loop.time() > drops_at:
                return True
            flees = self.kind is Kind.FLEER and loop.time() > flees_at and phase == events_pb2.PHASE_PLAY
            if flees or loop.time() - alone_since > _ALONE_S:
                with contextlib.suppress(Refusal, TableGone):
                    await table.act(Leave())
                    await table.until(lambda state: state.you < 0)  # a fled hand keeps him until it is settled
                self._world.meter.count("flees" if flees else "left_alone")
                return False

    @contextlib.asynccontextmanager
    async def _at(self, session: Session, table_id: str) -> AsyncIterator[TableView]:
        """A table, entered; entering is timed."""
        table = TimedTable(self._world, session, table_id, self._rng)
        with self._timed("enter"):
            await table.__aenter__()
        self._world.tables.add(table)
        try:
            yield table
        finally:
            self._world.tables.discard(table)
            self._world.meter.count("streams_made_anew", table.reconnects)
            await table.close()

    # ---- others ---------------------------------------------------------------------------------------------------

    async def _observe(self, session: Session) -> None:
        room_id = _drawn(self._rng, self._world.mix.rooms)
        with self._timed("list_tables"):
            tables = [table for table in await session.tables(room_id) if all(one.player_id for one in table.players)]
        if not tables:
            await self._pause(1.0)
            return
        table_id = self._rng.choice(tables).table_id
        try:
            await session.observe(table_id, self._rng.randrange(3))
            async with self._at(session, table_id) as table, self._for_a_while(*_WATCH_S):
                async for _ in table.updates():
                    self._world.meter.count("observed")
        except TimeoutError:
            pass
        except Refusal as refusal:  # the table has come to its end meanwhile, say
            self._world.meter.count(f"refused:{refusal.reason}")
            await self._pause(1.0)

    async def _look(self, session: Session) -> None:
        """Looks at the lobby for a while, as its page does."""
        with self._timed("look"):
            await session.rooms()
            await session.balance()
        request = lobby_pb2.WatchLobbyRequest(room_id=_drawn(self._rng, self._world.mix.rooms))
        metadata = grpc.aio.Metadata(*await session.metadata())
        stream = self._gateway.lobby.WatchLobby(request, metadata=metadata)
        try:
            async with self._for_a_while(*_WATCH_S):
                async for _ in stream:
                    self._world.meter.count("lobby_news")
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as failed:
            raise translate(failed) from None
        finally:
            stream.cancel()

    def _for_a_while(self, least_s: float, most_s: float) -> asyncio.Timeout:
        """A time-out after a while, or when it is time to leave."""
        ends_s = asyncio.get_running_loop().time() + self._rng.uniform(least_s, most_s)
        return asyncio.timeout_at(min(ends_s, self._leaves_at_s))

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(self._rng.uniform(0.5, 1.0) * longest_s)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._world.meter.time(name, time.perf_counter() - began)


def _drawn(rng: random.Random, weights: dict[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _name(error: Exception) -> str:
    return error.reason if isinstance(error, Refusal) else type(error).__name__
