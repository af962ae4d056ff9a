"""The whole ledger, computed again: the database's invariants in one snapshot, and each settlement from its record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
from google.protobuf.message import DecodeError

from ddz.common.v1 import hand_pb2
from doudizhu.refusal import Refusal
from services.ledger import wire
from services.ledger.ledger import Hand, compute
from services.ledger.replay import Contradiction, replay
from services.ledger.store import hand_of

_FAULTS_OF_A_KIND: Final = 50
_NEWS_LIMIT: Final = timedelta(minutes=1)
_FOR_EVER: Final = timedelta(days=36_500)


@dataclass(slots=True)
class Report:
    """`totals`: counts and sums by name; `faults`: one sentence each, at most 50 of a kind."""

    totals: dict[str, int]
    faults: list[str] = field(default_factory=list)
    records_checked: int = 0


async def audit(
    connection: asyncpg.Connection,
    since_ms: int,
    open_limit_ms: int,
    *,
    records: bool,
    news_limit: timedelta = _NEWS_LIMIT,
) -> Report:
    """Checks everything in one snapshot; settlements since `since_ms` are computed again when `records` is set.

    `open_limit_ms`: an open hand may be that old, 0 = as old as it likes. `news_limit`: so long news may wait.
    """
    totals = await connection.fetchrow("SELECT * FROM ledger.totals()")
    assert totals is not None
    report = Report(dict(totals))
    for unit in ("chips", "rating"):
        if report.totals[f"{unit}_sum"]:
            report.faults.append(f"all accounts together hold {report.totals[f'{unit}_sum']} {unit}, not 0")
    open_limit = timedelta(milliseconds=open_limit_ms) if open_limit_ms else _FOR_EVER
    for query, limits in (
        ("SELECT ledger.faults_of_accounts() LIMIT $1", ()),
        ("SELECT ledger.faults_of_transfers() LIMIT $1", ()),
        ("SELECT ledger.faults_of_hands($2, $3) LIMIT $1", (open_limit, news_limit)),
    ):
        report.faults += [row[0] for row in await connection.fetch(query, _FAULTS_OF_A_KIND, *limits)]
    if records:
        await _check_records(connection, since_ms, report)
    return report


async def _check_records(connection: Any, since_ms: int, report: Report) -> None:
    wrong = 0
    async for hand in _settled(connection, since_ms):
        report.records_checked += 1
        fault = check_record(hand)
        if fault is not None and wrong < _FAULTS_OF_A_KIND:
            wrong += 1
            report.faults.append(f"{hand.hand_id}: {fault}")
        await asyncio.sleep(0)  # a record takes milliseconds: others go between


async def _settled(connection: Any, since_ms: int) -> AsyncIterator[Hand]:
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    async for row in connection.cursor("SELECT * FROM ledger.settled_since($1)", since, prefetch=200):
        yield hand_of({**row, "voided": False}, "", 0)


def check_record(hand: Hand) -> str | None:
    """What is wrong with a settled hand, in one sentence; None when its record leads to what was settled."""
    end = hand.end
    assert end is not None
    try:
        record = hand_pb2.HandRecord.FromString(end.record)
        request = wire.settle_request(record)
        if request.hand_id != hand.hand_id or request.player_ids != hand.player_ids:
            return "the record is of another hand"
        if replay(record, request.book) != request.outcome:
            return "the actions of the record do not lead to its outcome"
    except DecodeError:
        return "the record cannot be read"
    except Refusal as refusal:
        return f"the record cannot be settled: {refusal.message}"
    except Contradiction as contradiction:
        return f"the record is wrong: {contradiction}"
    again = compute(request, hand.carried, end.balance_before, end.rating_before)
    if (again.chips, again.rake, again.flee_chips, again.rating) != (end.chips, end.rake, end.flee_chips, end.rating):
        return f"the rules give chips {again.chips}, settled were {end.chips}"
    return None
