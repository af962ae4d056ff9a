"""A table as one node has read its log: the state at a version, and the answers that the log gives to repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from doudizhu import Refusal
from services.table import events, log, wire
from services.table.clocks import Clock, clock
from services.table.store import Store
from services.table.table import Stage, Table
from services.table.terms import Reason
from services.table.wire_checkpoint import may_checkpoint

_LONGER_WITHOUT_A_HAND: Final = 10


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the log, and the table before and after it; `before` is None for a table's first."""

    before: Table | None
    after: Table
    entry: log.Entry


class Replica:
    """`table` is None until the log has been read. Whoever calls does so one call after the other."""

    def __init__(self, store: Store, table_id: str) -> None:
        self.table_id = table_id
        self.table: Table | None = None
        self.epoch = 0
        self.answers = log.Answers()
        self._store = store
        self._checkpoint_seq = 0  # of the log's last

    @property
    def current(self) -> bool:
        """Whether there is a state, of the Redis that answers now."""
        return self.table is not None and self.epoch == self._store.epoch

    async def reload(self) -> Table:
        """Reads the log from its last checkpoint on, but between two hands from before the last one: people still look
        at it, and a checkpoint has only its result. Raises NOT_FOUND when there is no log, StoreLost.
        """
        epoch = self._store.epoch
        parts = await self._store.parts(self.table_id)
        self.table = None
        if not parts:
            raise Refusal(Reason.NOT_FOUND, f"there is no table {self.table_id}", field="table_id")
        for begin in reversed(range(len(parts))):
            table = self._fold(log.decode(self.table_id, entry) for part in parts[begin:] for entry in part)
            if table.hand is not None or not table.hand_id:
                break
        self.table, self.epoch = table, epoch
        return table

    def _fold(self, entries: Iterable[log.Entry]) -> Table:
        """The table after entries that begin a log; takes their answers, too."""
        table: Table | None = None
        self.answers, self._checkpoint_seq = log.Answers(), 0
        for entry in entries:
            if entry.checkpoint is not None:
                self._checkpoint_seq = entry.checkpoint.seq
                if table is None:
                    assert entry.answers is not None
                    table, self.answers = entry.checkpoint, entry.answers
            else:
                table = self._after(table, entry)
        assert table is not None, "a log begins with Opened or with a checkpoint"
        return table

    def _after(self, table: Table | None, entry: log.Entry) -> Table:
        """The table after one more entry with events."""
        for one in entry.stamped:
            table = log.fold(self.table_id, table, one)
        assert table is not None, "an entry has events"
        self.answers.add(entry.key, table.seq)
        return table

    async def read_on(self) -> list[Change] | None:
        """What other nodes have appended since; None when what is known was cut off meanwhile. Raises StoreLost."""
        assert self.table is not None
        entries = [log.decode(self.table_id, entry) for entry in await self._store.read(self.table_id, self.table.seq)]
        if entries and entries[0].checkpoint is not None:
            return None
        changes = []
        for entry in entries:
            if entry.checkpoint is not None:
                self._checkpoint_seq = entry.checkpoint.seq
                continue
            before, self.table = self.table, self._after(self.table, entry)
            changes.append(Change(before, self.table, entry))
        return changes

    async def append(
        self,
        key: log.Key,
        stamped: list[events.Stamped],
        after: Table,
        shown: Clock,
        deadline_ms: int | None,
        keep_ms: int,
    ) -> Change | None:
        """Appends what was decided on the state; `shown` is the clock after it. None when the log is at another
        version. Raises StoreLost.
        """
        entry = log.Entry(key, stamped, [wire.event_to(one, shown) for one in stamped])
        appended = await self._store.append(
            self.table_id,
            stamped[0].seq - 1,
            after.seq,
            log.encode(entry),
            deadline_ms,
            keep_ms if after.stage is Stage.CLOSED else None,
        )
        if not appended:
            return None
        before, self.table = self.table, after
        self.answers.add(entry.key, after.seq)
        return Change(before, after, entry)

    async def begin(self, stamped: list[events.Stamped], table: Table, deadline_ms: int | None) -> Change | None:
        """Begins the log of a new table; None when there is one already. Raises StoreLost."""
        self.epoch = self._store.epoch
        return await self.append(log.NOBODY, stamped, table, clock(table), deadline_ms, 0)

    async def cut(self, longest: int) -> None:
        """Adds what outlives the hand to a log that has so many events since it was last done, and cuts off those
        before that: who was away over the end of a hand can still be told what happened. Ten times as many where no
        hand has begun since, so that the last one is still there. Raises StoreLost: then it is done another time.
        """
        table = self.table
        if table is None or not may_checkpoint(table):
            return
        if 0 < table.hand_seq <= self._checkpoint_seq:
            longest *= _LONGER_WITHOUT_A_HAND
        if table.seq - self._checkpoint_seq < longest:
            return
        checkpoint = log.encode_checkpoint(table, self.answers)
        if await self._store.cut(self.table_id, table.seq, checkpoint, self._checkpoint_seq):
            self._checkpoint_seq = table.seq
