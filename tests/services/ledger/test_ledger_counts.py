"""What the ledger does is counted once, and news that wait show their age."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg
from prometheus_client import REGISTRY

from ddz.ledger.v1 import ledger_pb2
from tests.services.ledger.harness import Database, Ledger
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, settle
from tests.services.ledger.test_ledger_news import eventually


def now() -> dict[str, float]:
    """Everything that is counted, by series."""
    return {
        f"{sample.name.removeprefix('ddz_ledger_').removesuffix('_total')} {' '.join(sample.labels.values())}": (
            sample.value
        )
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name.startswith("ddz_ledger_") and sample.name.endswith("_total")
    }


async def test_settlements_and_chips_are_counted_once(ledger: Ledger, fresh: Callable[[str], str]) -> None:
    before = now()
    won, players = await opened(ledger, fresh)
    request = settle(record(won, players, base=10, rake=3, winner="landlord", landlord=2, multiplier=4))
    for _ in range(3):
        await ledger.internal.Settle(request)
    void, _ = await opened(ledger, fresh)
    await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=void, reason="test"))
    await ledger.internal.Reverse(ledger_pb2.ReverseRequest(hand_id=won, operator="me", reason="test"))
    counted = {series: value - before.get(series, 0) for series, value in now().items()}
    assert {series: value for series, value in counted.items() if value} == {
        "requests grant done": 6,
        "chips signup": 6000,
        "requests open done": 2,
        "requests settle done": 1,
        "requests settle known": 2,
        "requests void done": 1,
        "requests reverse done": 1,
        "settlements landlord": 1,
        "settlements voided": 1,
        "settlements reversed": 1,
        "chips stakes": 80,
        "chips rake": 9,
        "chips reversed": 86,
        "news_sent ": counted["news_sent "],
    }


async def test_news_that_wait_show_their_age(database: Database) -> None:
    connection = await asyncpg.connect(database.dsn("postgres"))
    try:
        await eventually(lambda: _none(connection))
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            "INSERT INTO ledger.outbox (subject, key, payload, at) VALUES ('x', 'y', '', now() - interval '90 s')"
        )
        await connection.execute("SET LOCAL ROLE ddz_ledger")
        assert await connection.fetchval("SELECT ledger.outbox_age_s()") == 90
        await transaction.rollback()
    finally:
        await connection.close()


async def _none(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT ledger.outbox_age_s()") == 0)
