"""One table on one node: a mailbox, the state at a version, one timer, and the streams that watch.

Commands are decided one after the other on the cached state and appended by compare-and-set; only then answered and
pushed. When the append finds another version, another node was faster: this one reads on, and decides again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from doudizhu import Refusal
from servicekit import logs, metrics, traces
from servicekit.errors import Trouble
from servicekit.pipe import StoreLost
from services.table import commands, counts, life, log
from services.table.clocks import RESUME_MS, clock, resume_at_ms, wake_at_ms
from services.table.item import Item, Make, Then
from services.table.outside import Outside
from services.table.push import Audience
from services.table.replica import Change, Replica
from services.table.table import Connection, Stage, Table
from services.table.wire_checkpoint import may_checkpoint

if TYPE_CHECKING:
    from services.table.node import Node

_log = logs.get("actor")

_ATTEMPTS: Final = 20
_STORE_PAUSE_S: Final = 0.1
_FAULT_PAUSE_S: Final = 1.0
_UNLOGGED_KEPT: Final = 64


class Actor:
    """`ask` for what changes the table; `mailbox`: what waits; `table`: the state, None before the log is read."""

    def __init__(self, node: Node, table_id: str) -> None:
        self.table_id = table_id
        self.audience = Audience()
        self.used_at = time.monotonic()
        self._node = node
        self._replica = Replica(node.store, table_id)
        self._stale = False  # an append was not answered: it may be in the log
        self._gap: bool | None = None  # the log was read anew: because Redis had been away, or for the first time
        self.mailbox: deque[Item] = deque()
        self._busy = False  # something is being done
        self._worker: asyncio.Task[None] | None = None
        self._unlogged: dict[log.Key, int | Refusal] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0  # of the monotonic clock: a clock that fails must not fail without a pause
        self._timer_ms = 0  # when it fires, in milliseconds since the epoch
        self._outside = Outside(node)

    @property
    def table(self) -> Table | None:
        """The state as this node has read it."""
        return self._replica.table

    @property
    def epoch(self) -> int:
        """Which run of Redis the state was read from."""
        return self._replica.epoch

    # ---- the mailbox ----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is asked, watched or under way."""
        return not self._busy and self._outside.task is None and not self.audience.streams

    async def finish(self) -> None:
        """Waits until what was asked is done, and what the ledger was asked is answered."""
        while self._busy or self._outside.task is not None:
            if self._busy:
                with contextlib.suppress(Refusal):
                    await self._post(Item(lambda _: None, log.NOBODY))
            elif self._outside.task is not None:
                await asyncio.wait([self._outside.task])

    async def ask(self, make: Make, key: log.Key = log.NOBODY, then: Then | None = None) -> int:
        """The number of the last event of what was asked. Raises a Refusal: the domain's, NOT_FOUND, OVERLOADED when
        the mailbox is full, UNAVAILABLE when Redis does not answer.
        """
        if self._busy and len(self.mailbox) >= self._node.settings.mailbox_limit:
            raise Refusal(Trouble.OVERLOADED, "too much is asked of this table at once; try again")
        self.used_at = time.monotonic()
        return await self._post(Item(make, key, then))

    async def open(self, decision: life.Decision) -> int:
        """Makes the table with these events, unless its log has begun; raises UNAVAILABLE."""
        return await self._post(Item(lambda _: None, log.NOBODY, opening=decision))

    async def refresh(self) -> Table:
        """The state as the log has it now. Raises NOT_FOUND, UNAVAILABLE."""
        self.used_at = time.monotonic()
        await self._post(Item(lambda _: commands.Tick(), log.NOBODY))
        assert self.table is not None
        return self.table

    def tell(self, command: commands.Command) -> None:
        """Asks without waiting for the answer, whatever else waits: for the table's own clock and what is outside."""
        self._node.background(self._told(command))

    async def _told(self, command: commands.Command) -> None:
        try:
            hand_id = "" if self.table is None else self.table.hand_id
            with traces.span(type(command).__name__, table=self.table_id, hand=hand_id):
                await self._post(Item(lambda _: command, log.NOBODY))
        except Refusal as refusal:
            # The deadline that is set in Redis brings it up again.
            _log.info("not done", extra={"table": self.table_id, "reason": refusal.reason})

    async def _post(self, item: Item) -> int:
        """Does it at once when nothing else is under way, which spares a task; otherwise it waits for its turn."""
        if self._busy:
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            item.answer = answer
            self.mailbox.append(item)
            return await answer
        self._busy = True
        try:
            return await self._served(item)
        except asyncio.CancelledError:
            self._stale = True  # it may be in the log, and nobody has been told
            self._node.background(self._read_what_was_left())
            raise
        finally:
            if self.mailbox:
                self._worker = asyncio.create_task(self._work())
            else:
                self._busy = False

    async def _read_what_was_left(self) -> None:
        with contextlib.suppress(Refusal):
            await self.refresh()

    async def _work(self) -> None:
        """Does what waits, one after the other."""
        try:
            while self.mailbox:
                item = self.mailbox.popleft()
                assert item.answer is not None, "what waits has somebody who waits for it"
                try:
                    with traces.within(item.context):
                        seq = await self._served(item)
                except Exception as error:
                    if not item.answer.done():
                        item.answer.set_exception(error)
                else:
                    if not item.answer.done():
                        item.answer.set_result(seq)
        finally:
            self._worker = None
            self._busy = False

    async def _served(self, item: Item) -> int:
        try:
            return await self._serve(item)
        except Refusal:
            raise
        except Exception as error:
            self._fault(error)
            raise

    def _fault(self, error: Exception) -> None:
        """A mistake of ours: told, counted, and the state is read anew, since it may be wrong."""
        metrics.FAULTS.labels("actor").inc()
        _log.error("unexpected exception", exc_info=error, extra={"table": self.table_id})
        self._replica = Replica(self._node.store, self.table_id)
        self._not_before = time.monotonic() + _FAULT_PAUSE_S

    async def _serve(self, item: Item) -> int:
        """Decides and appends until the append holds."""
        until = time.monotonic() + self._node.settings.store_patience_s
        for _ in range(_ATTEMPTS):
            try:
                seq = await self._attempt(item, await self._current(item.opening))
                if seq is not None and item.then is not None:
                    assert self.table is not None
                    await item.then(self.table)
            except StoreLost:
                self._stale = True
                if time.monotonic() > until:
                    break
                await asyncio.sleep(_STORE_PAUSE_S)
                continue
            if seq is not None:
                return seq
        raise Refusal(Trouble.UNAVAILABLE, "the table cannot be written now; try again")

    async def _attempt(self, item: Item, table: Table) -> int | None:
        """One decision and its append: the last event's number; None when it was decided on an old state."""
        if item.key != log.NOBODY:
            known = self._replica.answers.get(item.key)
            if known is not None:
                return known
            unlogged = self._unlogged.get(item.key)
            if isinstance(unlogged, Refusal):
                raise unlogged.anew()
            if unlogged is not None:
                return unlogged
        try:
            command = item.make(table)
            if command is None:
                return table.seq
            now_ms = max(self._node.now_ms(), table.since_ms)
            closed = self._node.orders.closed
            stamped, after = life.decide(table, command, now_ms, random.getrandbits(32), closed=closed)
        except Refusal as refusal:
            if await self._read_on():
                return None
            self._remember(item.key, refusal.anew())
            raise
        if not stamped:
            if await self._read_on():
                return None
            self._remember(item.key, table.seq)
            return table.seq
        shown = clock(after)
        wake = wake_at_ms(after, shown)
        change = await self._replica.append(
            item.key, stamped, after, shown, self._deadline_ms(after, wake, now_ms), self._node.settings.keep_ms
        )
        if change is None:
            if not await self._read_on():
                await self._reload()  # the log is shorter than what was known of it
            return None
        self.used_at = time.monotonic()
        self._node.news.changed(table, after)
        durable_s = time.perf_counter()
        self._apply(change, wake)
        counts.count(table, stamped)
        if item.key != log.NOBODY:
            counts.time_command(item.at_s, durable_s)
        if may_checkpoint(after) and not may_checkpoint(table):
            self._node.background(self.cut())
        return after.seq

    def _remember(self, key: log.Key, answer: int | Refusal) -> None:
        """A repeat of what left nothing in the log gets the first answer too, on this node and for the last few."""
        if key == log.NOBODY:
            return
        self._unlogged[key] = answer
        if len(self._unlogged) > _UNLOGGED_KEPT:
            del self._unlogged[next(iter(self._unlogged))]

    # ---- the log --------------------------------------------------------------------------------------------------

    async def _current(self, opening: life.Decision | None) -> Table:
        """The cached state, or the log read, or a new log. Raises NOT_FOUND, StoreLost."""
        if not self._replica.current:
            gap = self.table is not None
            try:
                await self._reload()
            except Refusal:
                if opening is None:
                    raise
            else:
                self._gap = gap
                return await self._resumed()
            stamped, table = opening
            wake = wake_at_ms(table)
            change = await self._replica.begin(stamped, table, self._deadline_ms(table, wake, stamped[0].at_ms))
            if change is None:
                return await self._reload()
            self._apply(change, wake)
            counts.count(table, stamped)
        elif self._stale:
            await self._read_on()
        self._stale = False
        return await self._resumed()

    async def _resumed(self) -> Table:
        """The table; where nobody could act for Redis was away, or no node that served it lives, that is made good."""
        assert self.table is not None
        if self._gap is not None and self.table.stage is not Stage.CLOSED:
            dead = await self._node.dead(self.table.connections)
            if self._gap or (dead and len(dead) == len(self.table.connections)):
                # When the log has gone on meanwhile, another node has seen to it.
                await self._attempt(Item(lambda _: commands.Resume(dead), log.NOBODY), self.table)
        self._gap = None
        return self.table

    async def read_anew(self) -> None:
        """Reads the whole log, for it may be there no more: then people who watch are told so."""

        def forget(_: Table) -> None:
            self._replica = Replica(self._node.store, self.table_id)

        with contextlib.suppress(Refusal):
            await self._post(Item(forget, log.NOBODY))
            await self.refresh()

    async def _reload(self) -> Table:
        """Reads the whole log; people who watch begin anew, since it may have gone back."""
        try:
            table = await self._replica.reload()
        except Refusal:
            self.close()
            self.audience.gone()
            raise
        self._stale = False
        self.audience.begin_anew(table, self.epoch)
        self._node.news.report(table)
        self._arm(wake_at_ms(table))
        return table

    async def _read_on(self) -> bool:
        """Takes in what other nodes have appended; whether there was anything."""
        if not self._replica.current:
            await self._reload()
            return True
        changes = await self._replica.read_on()
        if changes is None:
            await self._reload()
            return True
        for change in changes:
            self._apply(change, wake_at_ms(change.after))
        return bool(changes)

    def _apply(self, change: Change, wake: int | None) -> None:
        """What is in the log is pushed, and sets the timer and what is to be done outside."""
        self.audience.push(change, self.epoch)
        self._node.news.report_change(change.before, change.after)
        self._arm(wake)

    async def cut(self) -> None:
        """Cuts a log that has become long; what fails is done after the next hand."""
        try:
            await self._replica.cut(self._node.settings.cut_events)
        except StoreLost:
            _log.info("not cut", extra={"table": self.table_id})

    # ---- the clock and what is outside ------------------------------------------------------------------------------

    def _arm(self, wake: int | None) -> None:
        """One timer for the table's next deadline; and what is pending is under way.

        A timer that fires before is left alone, since most deadlines are put off by every act; it sets the next one.
        """
        assert self.table is not None
        if self.table.connections and not self.audience.streams:
            wake = None  # that is for the node that they are connected to; if it has died, the poll tells
        if self._timer is not None and (wake is None or wake < self._timer_ms):
            self._timer.cancel()
            self._timer = None
        if wake is not None and self._timer is None:
            self._timer_ms = wake
            delay_s = max(0.0, (wake - self._node.now_ms()) / 1000, self._not_before - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._timed_out, context=traces.nobodys())
        self._outside.see_to(self, life.pending(self.table))

    def _timed_out(self) -> None:
        self._timer = None
        wake = None if self.table is None else wake_at_ms(self.table)
        if wake is not None and wake > self._node.now_ms():
            self._arm(wake)
        else:
            self.tell(commands.Tick())

    async def take_up(self) -> None:
        """Looks after a table whose deadline has passed unseen: its node may have died, and answers with it."""
        self._outside.forget()
        table = await self.refresh()
        await self.bury(await self._node.dead(table.connections))
        table = await self.refresh()
        self._arm(wake_at_ms(table))
        now_ms = self._node.now_ms()
        due_ms = self._deadline_ms(table, wake_at_ms(table), now_ms)
        if due_ms is not None:  # what is overdue is done now; no node need look before that has had its time
            due_ms = max(due_ms, now_ms + RESUME_MS)
        await self._node.store.set_deadline(self.table_id, table.seq, due_ms)

    async def bury(self, dead: Sequence[Connection]) -> None:
        """Has streams of nodes that have died be lost ones; where they were all there were, nobody could act."""
        whole = bool(dead) and self.table is not None and set(self.table.connections) == set(dead)
        for command in [commands.Resume(tuple(dead))] if whole else [commands.Disconnect(*one) for one in dead]:
            await self._told(command)

    def _deadline_ms(self, table: Table, wake: int | None, now_ms: int) -> int | None:
        """When some node must look at the table; None when it is closed."""
        if table.stage is Stage.CLOSED:
            return None
        resume = resume_at_ms(table, wake, now_ms)
        review = now_ms + int(1000 * self._node.settings.review_s)
        return review if resume is None else min(resume, review)

    def close(self) -> None:
        """Lets go of timers and tasks; the table lives on in its log."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._outside.close()
