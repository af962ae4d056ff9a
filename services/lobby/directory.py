"""The table browser's memory: what each table last reported of itself. A report is a lease; nothing is added up."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Summary = TypeVar("Summary")

# How long a table that is gone stays known as such, for watchers who have not heard of it yet.
REMEMBER_GONE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Report(Generic[Summary]):
    """A table's report. `seq` orders those of one table; `players` counts the seats taken; `summary` is opaque here."""

    table_id: str
    room_id: str
    seq: int
    players: int
    closed: bool
    listed: bool
    summary: Summary


@dataclass(frozen=True, slots=True)
class Counts:
    """What a room shows."""

    tables: int
    players: int


_EMPTY: Final = Counts(0, 0)


@dataclass(frozen=True, slots=True)
class Changes(Generic[Summary]):
    """What happened since a version; `version` is the one to ask from next."""

    version: int
    changed: tuple[Summary, ...]
    gone: tuple[str, ...]


class Directory(Generic[Summary]):
    """All tables by their latest reports, each good for `lease_ms`. Times are milliseconds of the caller's clock."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self.version = 0
        self.counted = 0  # how often the counts of a room have changed
        self._reports: dict[str, Report[Summary]] = {}
        self._leases: OrderedDict[str, int] = OrderedDict()  # oldest first
        self._versions: OrderedDict[str, int] = OrderedDict()  # listed tables, changed or gone, oldest first
        self._gone: OrderedDict[str, tuple[int, int]] = OrderedDict()  # when, least seq to come back; oldest first
        self._listed: dict[str, list[str]] = {}  # sorted ids by room
        self._counts: dict[str, Counts] = {}  # by room, summed up anew when a table of it comes, goes or seats others
        self._forgotten = 0  # changes up to this version can no longer be told one by one

    def get(self, table_id: str) -> Report[Summary] | None:
        """The latest report of a table."""
        return self._reports.get(table_id)

    def report(self, report: Report[Summary], now_ms: int) -> bool:
        """Takes a report in; whether anything that is shown has changed. One older than the last is ignored."""
        old = self._reports.get(report.table_id)
        least_seq = old.seq if old is not None else self._gone.get(report.table_id, (0, 0))[1]
        if report.seq < least_seq:
            return False
        if report.closed:
            return self._remove(report.table_id, now_ms, report.seq)
        self._leases[report.table_id] = now_ms + self._lease_ms
        self._leases.move_to_end(report.table_id)
        if old is not None and old.summary == report.summary:
            return False
        self._reports[report.table_id] = report
        if not report.listed:
            return False
        if old is None:
            bisect.insort(self._listed.setdefault(report.room_id, []), report.table_id)
        self._gone.pop(report.table_id, None)
        self._touch(report.table_id)
        if old is None or old.players != report.players:
            self._count(report.room_id)
        return True

    def expire(self, now_ms: int) -> bool:
        """Drops the tables whose lease has run out; whether there was one."""
        changed = False
        while self._leases and next(iter(self._leases.values())) <= now_ms:
            changed |= self._remove(next(iter(self._leases)), now_ms, 0)
        while self._gone and next(iter(self._gone.values()))[0] <= now_ms - REMEMBER_GONE_MS:
            table_id, _ = self._gone.popitem(last=False)
            self._forgotten = max(self._forgotten, self._versions.pop(table_id))
        return changed

    def counts(self, room_id: str) -> Counts:
        """Listed tables and seats taken at them."""
        return self._counts.get(room_id, _EMPTY)

    def page(self, room_id: str, after: str, size: int) -> tuple[list[Summary], str]:
        """Listed tables of a room by id, from behind `after`; and where the next page begins, empty at the end."""
        tables = self._listed.get(room_id, [])
        start = bisect.bisect_right(tables, after)
        ids = tables[start : start + size]
        more = start + size < len(tables)
        return [self._reports[table_id].summary for table_id in ids], ids[-1] if more else ""

    def listed(self) -> list[Summary]:
        """All listed tables."""
        return [self._reports[table_id].summary for tables in self._listed.values() for table_id in tables]

    def changes(self, since: int) -> Changes[Summary] | None:
        """What has changed since a version, oldest first; None when that is too long ago to be told."""
        if since < self._forgotten:
            return None
        changed: list[Summary] = []
        gone: list[str] = []
        for table_id in reversed(self._versions):
            if self._versions[table_id] <= since:
                break
            report = self._reports.get(table_id)
            if report is None:
                gone.append(table_id)
            else:
                changed.append(report.summary)
        return Changes(self.version, tuple(reversed(changed)), tuple(reversed(gone)))

    def _remove(self, table_id: str, now_ms: int, seq: int) -> bool:
        report = self._reports.pop(table_id, None)
        self._leases.pop(table_id, None)
        if report is None or not report.listed:
            return False
        tables = self._listed[report.room_id]
        tables.pop(bisect.bisect_left(tables, table_id))
        if not tables:
            del self._listed[report.room_id]
        self._count(report.room_id)
        self._gone[table_id] = (now_ms, seq)
        self._gone.move_to_end(table_id)
        self._touch(table_id)
        return True

    def _count(self, room_id: str) -> None:
        tables = self._listed.get(room_id, [])
        counts = Counts(len(tables), sum(self._reports[table_id].players for table_id in tables))
        self.counted += 1
        if tables:
            self._counts[room_id] = counts
        else:
            self._counts.pop(room_id, None)

    def _touch(self, table_id: str) -> None:
        self.version += 1
        self._versions[table_id] = self.version
        self._versions.move_to_end(table_id)
