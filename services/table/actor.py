"""One table on one node: a mailbox, the state at a version, one timer, and the streams that watch.

Commands are decided one after the other on the cached state and appended by compare-and-set; only then they are
folded, answered and pushed. When the append finds another version, another node was faster: this one reads what has
happened, and decides again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from doudizhu import Refusal
from servicekit import logs, metrics
from servicekit.errors import Trouble
from servicekit.pipe import StoreLost
from services.table import commands, events, life, log, wire
from services.table.clocks import clock, resume_at_ms, wake_at_ms
from services.table.push import Audience
from services.table.table import Stage, Table
from services.table.terms import Reason

if TYPE_CHECKING:
    from services.table.node import Node

_log = logs.get("actor")

NOBODY: Final = ("", "")
_ATTEMPTS: Final = 20
_STORE_PAUSE_S: Final = 0.1
_EFFECT_PAUSE_S: Final = 1.0
_REFUSALS_KEPT: Final = 64

Make = Callable[[Table], commands.Command | None]
Then = Callable[[Table], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Item:
    """A request in the mailbox: `make` says what is asked of the table as it then is, `then` runs right after."""

    make: Make
    key: log.Key
    then: Then | None
    opening: life.Decision | None = None
    answer: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Actor:
    """`ask` for everything that changes the table; the state is in `table`, None before the first read."""

    def __init__(self, node: Node, table_id: str) -> None:
        self.table_id = table_id
        self.table: Table | None = None
        self.audience = Audience(self)
        self.used_at = time.monotonic()
        self.epoch = 0
        self._stale = False  # an append was not answered: it may be in the log
        self._node = node
        self._mailbox: deque[_Item] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._answers = log.Answers()
        self._refused: dict[log.Key, Refusal] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._effect: life.Effect | None = None
        self._effect_task: asyncio.Task[None] | None = None

    # ---- the mailbox ----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is asked, watched or under way."""
        return not self._mailbox and self._worker is None and self._effect_task is None and not self.audience.streams

    def work(self) -> list[asyncio.Task[None]]:
        """What was asked and is not done, and what the ledger has not answered."""
        return [task for task in (self._worker, self._effect_task) if task is not None]

    async def ask(
        self,
        make: Make,
        key: log.Key = NOBODY,
        then: Then | None = None,
        *,
        internal: bool = False,
    ) -> int:
        """The number of the last event of what was asked. Raises a Refusal: the domain's, NOT_FOUND, OVERLOADED when
        the mailbox is full (never for what is `internal`), UNAVAILABLE when Redis does not answer.
        """
        if len(self._mailbox) >= self._node.settings.mailbox_limit and not internal:
            raise Refusal(Trouble.OVERLOADED, "too much is asked of this table at once; try again")
        return await self._post(_Item(make, key, then))

    async def open(self, decision: life.Decision) -> int:
        """Makes the table with these events, unless its log has begun; raises UNAVAILABLE."""
        return await self._post(_Item(lambda _: None, NOBODY, None, decision))

    async def _post(self, item: _Item) -> int:
        self._mailbox.append(item)
        self.used_at = time.monotonic()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await item.answer

    def tell(self, command: commands.Command) -> None:
        """Asks without waiting for the answer: for the table's own clock and effects."""
        self._node.background(self._told(command))

    async def _told(self, command: commands.Command) -> None:
        try:
            await self.ask(lambda _: command, internal=True)
        except Refusal as refusal:
            # Nobody waits: the deadline that is set in Redis brings it up again.
            _log.info("not done", extra={"table": self.table_id, "reason": refusal.reason})

    async def _work(self) -> None:
        try:
            while self._mailbox:
                item = self._mailbox.popleft()
                try:
                    seq = await self._serve(item)
                except Refusal as refusal:
                    self._fail(item, refusal)
                except Exception as error:
                    self._fault(error)
                    self._fail(item, error)
                else:
                    if not item.answer.done():
                        item.answer.set_result(seq)
        finally:
            self._worker = None

    @staticmethod
    def _fail(item: _Item, error: Exception) -> None:
        if not item.answer.done():
            item.answer.set_exception(error)

    def _fault(self, error: Exception) -> None:
        """A mistake of ours: told, counted, and the state is read anew, since it may be wrong."""
        metrics.FAULTS.labels("actor").inc()
        _log.error("unexpected exception", exc_info=error, extra={"table": self.table_id})
        self.table = None

    async def _serve(self, item: _Item) -> int:
        """Decides and appends until the append holds."""
        until = time.monotonic() + self._node.settings.store_patience_s
        for _ in range(_ATTEMPTS):
            try:
                table = await self._current(item.opening)
                seq = await self._attempt(item, table)
            except StoreLost:
                self._stale = True
                if time.monotonic() > until:
                    break
                await asyncio.sleep(_STORE_PAUSE_S)
                continue
            if seq is not None:
                return seq
        raise Refusal(Trouble.UNAVAILABLE, "the table cannot be written now; try again")

    async def _attempt(self, item: _Item, table: Table) -> int | None:
        """One decision and its append; None when another node was faster."""
        known = self._answers.get(item.key) if item.key != NOBODY else None
        if known is not None:
            return await self._finish(item, known)
        if item.key in self._refused and item.key != NOBODY:
            raise self._refused[item.key]
        try:
            command = item.make(table)
            if command is None:
                return await self._finish(item, table.seq)
            now_ms = self._node.now_ms()
            stamped, after = life.decide(table, command, max(now_ms, table.since_ms), random.getrandbits(32))
        except Refusal as refusal:
            if await self._read_on():
                return None  # it was decided on an old state
            self._remember_refusal(item.key, refusal)
            raise
        if not stamped:
            return None if await self._read_on() else await self._finish(item, table.seq)
        if not await self._append(item.key, stamped, after):
            if not await self._read_on():
                await self._reload()  # the log is shorter than what was known of it
            return None
        return await self._finish(item, after.seq)

    async def _finish(self, item: _Item, seq: int) -> int:
        if item.then is not None:
            assert self.table is not None
            await item.then(self.table)
        return seq

    def _remember_refusal(self, key: log.Key, refusal: Refusal) -> None:
        """A repeat gets the first answer here too, for the last few."""
        if key == NOBODY or refusal.reason in (Trouble.UNAVAILABLE, Trouble.OVERLOADED):
            return
        self._refused[key] = refusal
        if len(self._refused) > _REFUSALS_KEPT:
            del self._refused[next(iter(self._refused))]

    # ---- the log --------------------------------------------------------------------------------------------------

    async def _current(self, opening: life.Decision | None = None) -> Table:
        """The cached state, or the log folded, or a new log. Raises NOT_FOUND, StoreLost."""
        if self._stale and self.table is not None:
            await self._read_on()
            self._stale = False
        if self.table is not None and self.epoch == self._node.store.epoch:
            return self.table
        try:
            return await self._reload()
        except Refusal:
            if opening is None:
                raise
        self.epoch = self._node.store.epoch
        stamped, table = opening
        return table if await self._append(NOBODY, stamped, table) else await self._reload()

    async def _reload(self) -> Table:
        """Reads the whole log; people who watch begin anew when it went back."""
        before = self.table
        epoch = self._node.store.epoch
        entries = await self._node.store.read(self.table_id)
        if not entries:
            self.table = None
            self.close()
            self.audience.gone()
            raise Refusal(Reason.NOT_FOUND, f"there is no table {self.table_id}", field="table_id")
        table: Table | None = None
        answers = log.Answers()
        for entry in entries:
            read = log.decode(entry)
            for one in read.stamped:
                table = log.fold(self.table_id, table, one)
            answers.add(read.key, read.stamped[-1].seq, new_hand=log.has_new_hand(read.stamped))
        assert table is not None
        self.table, self._answers, self.epoch = table, answers, epoch
        if self.audience.streams:
            self.audience.begin_anew(table)
        if before is None or before.seq != table.seq:
            self._node.report(table)
        self._arm()
        return table

    async def _read_on(self) -> bool:
        """Takes in what other nodes have appended; whether there was anything."""
        table = self.table
        if table is None or self.epoch != self._node.store.epoch:
            await self._reload()
            return True
        entries = await self._node.store.read(self.table_id, table.seq)
        for entry in entries:
            read = log.decode(entry)
            for one in read.stamped:
                table = log.fold(self.table_id, table, one)
            self._apply(read, table)
        return bool(entries)

    async def refresh(self) -> Table:
        """The state as the log has it now. Raises NOT_FOUND, UNAVAILABLE."""
        await self.ask(lambda _: commands.Tick(), internal=True)
        assert self.table is not None
        return self.table

    async def _append(self, key: log.Key, stamped: list[events.Stamped], after: Table) -> bool:
        now_clock = clock(after)
        entry = log.Entry(key, stamped, [wire.event_to(one, now_clock) for one in stamped])
        keep_ms = self._node.settings.keep_ms if after.stage is Stage.CLOSED else None
        expected = stamped[0].seq - 1
        if not await self._node.store.append(
            self.table_id, expected, after.seq, log.encode(entry), resume_at_ms(after), keep_ms
        ):
            return False
        self._node.news.changed(self.table_id, after.seq)
        self._apply(entry, after)
        return True

    def _apply(self, entry: log.Entry, after: Table) -> None:
        """What is in the log becomes the state, is pushed, and sets the timer and the effect."""
        before, self.table = self.table, after
        self._answers.add(entry.key, after.seq, new_hand=log.has_new_hand(entry.stamped))
        self.audience.push(before, after, entry)
        self._node.report_if_changed(before, after)
        self._arm()

    # ---- the clock and what is pending ----------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer for the table's next deadline, one task for what is pending."""
        table = self.table
        assert table is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake = wake_at_ms(table)
        if wake is not None:
            delay_s = max(0.0, (wake - self._node.now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._timed_out)
        effect = life.pending(table)
        if effect != self._effect:
            self._cancel_effect()
            self._effect = effect
            if isinstance(effect, life.DrawSeed):
                self.tell(commands.Commit(effect.deal_id, self._node.seeds.draw(effect.deal_id)))
            elif effect is not None:
                self._effect_task = asyncio.create_task(self._bring_about(effect))

    def _timed_out(self) -> None:
        self._timer = None
        self._node.background(self._tick())

    async def _tick(self) -> None:
        await self._told(commands.Tick())
        if self._timer is None and self.table is not None and (wake_at_ms(self.table) or 0) > self._node.now_ms():
            self._arm()  # the timer was a little early, or the clock was put off meanwhile

    async def _bring_about(self, effect: life.Effect) -> None:
        """Does what is pending until it is answered, and brings the answer to the table."""
        while True:
            try:
                command = await self._node.bring_about(effect, self)
                self._effect_task = None
                self.tell(command)
                return
            except StoreLost:
                await asyncio.sleep(_STORE_PAUSE_S)
            except Exception as error:
                metrics.FAULTS.labels("effect").inc()
                _log.error("unexpected exception", exc_info=error, extra={"table": self.table_id})
                await asyncio.sleep(_EFFECT_PAUSE_S)

    def resume(self) -> None:
        """Looks at the clock and at what is pending again: the answer may have been lost with another node."""
        if self._effect_task is None:
            self._effect = None
        self.tell(commands.Tick())
        if self.table is not None:
            self._arm()

    def _cancel_effect(self) -> None:
        if self._effect_task is not None:
            self._effect_task.cancel()
            self._effect_task = None

    def close(self) -> None:
        """Lets go of timers and tasks; the table lives on in its log."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._cancel_effect()
        self._effect = None
