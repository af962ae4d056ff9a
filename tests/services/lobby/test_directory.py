"""The table browser's memory: reports are leases, counts are set, and a watcher's deltas add up to the whole."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.lobby.directory import REMEMBER_GONE_MS, Counts, Directory, Report

LEASE_MS = 15_000


@dataclass(frozen=True)
class Shown:
    """What the directory keeps of a table."""

    table_id: str
    players: int


def report(table_id: str, seq: int = 1, *, room: str = "a", players: int = 1, closed: bool = False) -> Report[Shown]:
    private = table_id.startswith("x")
    return Report(table_id, room, seq, players, closed, not private, Shown(table_id, players))


def test_a_report_replaces_the_one_before() -> None:
    """Counts are set, never added."""
    directory: Directory[Shown] = Directory(LEASE_MS)
    for seq in range(1, 50):
        directory.report(report("t1", seq, players=seq % 4), seq)
    assert directory.counts("a") == Counts(1, 49 % 4)


def test_a_room_is_counted_when_its_seats_change_and_not_when_it_is_asked() -> None:
    """Every frame of every stream asks."""
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("t1", 1, players=2), 0)
    directory.report(report("t2", 1, room="b"), 0)
    counted, counts = directory.counted, directory.counts("a")
    directory.report(report("t1", 2, players=2), 1)
    directory.report(report("t2", 2, room="b", players=3), 1)
    assert directory.counts("a") is counts
    assert directory.counted == counted + 1
    directory.report(report("t1", 3, closed=True), 2)
    assert (directory.counts("a"), directory.counts("b")) == (Counts(0, 0), Counts(1, 3))


def test_an_older_report_is_ignored() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("t1", 7, players=3), 0)
    assert not directory.report(report("t1", 6, players=0), 1)
    assert directory.counts("a") == Counts(1, 3)


def test_a_closed_table_is_gone_and_a_late_report_does_not_revive_it() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("t1", 7), 0)
    assert directory.report(report("t1", 8, closed=True), 1)
    assert not directory.report(report("t1", 7), 2)
    assert directory.counts("a") == Counts(0, 0)


def test_a_table_that_reports_no_more_expires_and_may_come_back() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("t1", 7), 0)
    directory.report(report("t1", 7), 10_000)
    assert not directory.expire(LEASE_MS)
    assert directory.expire(10_000 + LEASE_MS)
    assert directory.listed() == []
    assert directory.report(report("t1", 7), 40_000)
    assert len(directory.listed()) == 1


def test_private_tables_are_known_but_not_listed() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("x1"), 0)
    assert directory.get("x1") is not None
    assert (directory.listed(), directory.counts("a"), directory.page("a", "", 10)) == ([], Counts(0, 0), ([], ""))
    changes = directory.changes(0)
    assert changes is not None
    assert changes.changed == ()


def test_pages_go_through_all_tables_once() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    names = [f"t{number:03}" for number in range(250)]
    for name in random.Random(1).sample(names, len(names)):
        directory.report(report(name), 0)
    found, after = [], ""
    while True:
        page, after = directory.page("a", after, 100)
        found += [shown.table_id for shown in page]
        if not after:
            break
        directory.report(report("t9999", 1), 0)  # a newcomer behind the cursor disturbs nobody
    assert found == [*names, "t9999"]


def test_who_was_away_too_long_gets_everything_again() -> None:
    directory: Directory[Shown] = Directory(LEASE_MS)
    directory.report(report("t1"), 0)
    version = directory.version
    directory.report(report("t1", 2, closed=True), 1)
    changes = directory.changes(version)
    assert changes is not None
    assert changes.gone == ("t1",)
    directory.expire(1 + REMEMBER_GONE_MS)
    assert directory.changes(version) is None
    assert directory.changes(directory.version) is not None


@given(st.integers(0, 2**32))
def test_deltas_add_up_to_the_whole(seed: int) -> None:
    dice, directory = random.Random(seed), Directory[Shown](LEASE_MS)
    seqs = itertools.count(1)
    known: dict[str, Shown] = {}
    version, now = -1, 0
    for _ in range(60):
        now += dice.choice((0, 100, 7_000, 30_000))
        table_id = f"{dice.choice('tx')}{dice.randrange(6)}"
        directory.report(report(table_id, next(seqs), players=dice.randrange(4), closed=dice.random() < 0.2), now)
        if dice.random() < 0.5:
            directory.expire(now)
        if dice.random() < 0.4:
            changes = directory.changes(version) if version >= 0 else None
            if changes is None:
                known = {shown.table_id: shown for shown in directory.listed()}
                version = directory.version
            else:
                known.update({shown.table_id: shown for shown in changes.changed})
                for gone in changes.gone:
                    known.pop(gone, None)
                version = changes.version
            assert known == {shown.table_id: shown for shown in directory.listed()}
            assert directory.counts("a") == Counts(len(known), sum(shown.players for shown in known.values()))
