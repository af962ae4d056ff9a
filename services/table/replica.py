"""A table as one node has read its log: the state at a version, and the answers that the log gives to repeats."""

from __future__ import annotations

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
    """An entry of the log, and the table before and after it. `before` is None when the state was read anew."""

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
        """Reads the log from its last checkpoint on. Raises NOT_FOUND when there is none, StoreLost.

        Between two hands, from the one before: people still look at the last hand, of which a checkpoint has only the
        result.
        """
        table = await self._read(1)
        return await self._read(2) if table.hand is None and table.hand_id else table

    async def _read(self, checkpoints: int) -> Table:
        epoch = self._store.epoch
        entries = await self._store.read(self.table_id, checkpoints=checkpoints)
        self.table = None
        if not entries:
            raise Refusal(Reason.NOT_FOUND, f"there is no table {self.table_id}", field="table_id")
        self.epoch, self.answers, self._checkpoint_seq = epoch, log.Answers(), 0
        for entry in entries:
            self._take(log.decode(self.table_id, entry))
        assert self.table is not None, "a log begins with Opened or with a checkpoint"
        return self.table

    async def read_on(self) -> list[Change]:
        """What other nodes have appended since. Raises StoreLost."""
        assert self.table is not None
        entries = await self._store.read(self.table_id, self.table.seq)
        changes = (self._take(log.decode(self.table_id, entry)) for entry in entries)
        return [change for change in changes if change is not None]

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

    def _take(self, entry: log.Entry) -> Change | None:
        """Folds an entry; a checkpoint is taken when it is ahead of what is known."""
        before = self.table
        if entry.checkpoint is not None:
            self._checkpoint_seq = entry.checkpoint.seq
            if before is None or before.seq < entry.checkpoint.seq:
                assert entry.answers is not None
                self.table, self.answers = entry.checkpoint, entry.answers
                return Change(None, entry.checkpoint, entry)
            return None
        table = before
        for one in entry.stamped:
            table = log.fold(self.table_id, table, one)
        assert table is not None, "an entry has events"
        self.table = table
        self.answers.add(entry.key, table.seq)
        return Change(before, table, entry)
