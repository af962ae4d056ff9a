"""Sixteen writers on sixty accounts: no deadlock and no serialization failure, as the locks are taken in one order.

The same without the order meets deadlocks, so that the test is not blind. DDZ_LEDGER_CONTENTION_S sets how long
(default 3 s; `make sim-ledger` takes 30).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import asyncpg
import pytest

from deploy.local.servers import Postgres
from doudizhu import ROB, Outcome, Side
from doudizhu.refusal import Refusal
from servicekit.lasting import end
from services.ledger.audit import audit
from services.ledger.grants import Grant
from services.ledger.ledger import OpenHand, SettleHand, VoidHand
from services.ledger.transaction import Request, claims, transact
from tests.services.ledger.harness import NOBODY_RELAYS, Database, make_database

DURATION_S = float(os.environ.get("DDZ_LEDGER_CONTENTION_S", "3"))
WRITERS = 16
PLAYERS = [f"p{number}" for number in range(60)]


class Writer:
    """Batches of everything there is, on a connection of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rng = random.Random(number)
        self.made = 0
        self.open: list[OpenHand] = []

    def batch(self) -> list[Request]:
        """Up to eight requests that share no claim."""
        taken: set[str] = set()
        batch: list[Request] = []
        for request in [*self.open, *(self.request() for _ in range(8))]:
            if isinstance(request, OpenHand) and request in self.open:
                request = self.end(request)
            if taken.isdisjoint(claims(request)):
                batch.append(request)
                taken.update(claims(request))
        self.rng.shuffle(batch)
        return batch

    def request(self) -> Request:
        self.made += 1
        name = f"w{self.number}-{self.made}"
        if self.rng.random() < 0.5:
            return Grant(name, self.rng.choice(PLAYERS), "gift", self.rng.randint(1, 100))
        return OpenHand(name, "t", tuple(self.rng.sample(PLAYERS, 3)), 0)

    def end(self, opened: OpenHand) -> Request:
        if self.rng.random() < 0.4:
            return VoidHand(opened.hand_id, opened.player_ids, "test")
        outcome = Outcome(Side.LANDLORD, self.rng.randrange(3), 1, self.rng.choice([1, 2, 8]))
        return SettleHand(opened.hand_id, "r", opened.player_ids, ROB, outcome, 5, 2, b"record")

    async def work(self, dsn: str, until_s: float, counts: Counter[str]) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            while asyncio.get_running_loop().time() < until_s or self.open:
                batch = self.batch()
                if asyncio.get_running_loop().time() >= until_s:
                    batch = [self.end(opened) for opened in self.open]
                replies = await transact(connection, batch)
                done = [each for each, reply in zip(batch, replies, strict=True) if not isinstance(reply, Refusal)]
                counts.update(type(each).__name__ for each in done)
                ended = {each.hand_id for each in done if isinstance(each, SettleHand | VoidHand)}
                self.open = [each for each in self.open if each.hand_id not in ended]
                self.open += [each for each in done if isinstance(each, OpenHand)]
        finally:
            await connection.close()


@pytest.mark.timeout(60 + 4 * DURATION_S)
async def test_writers_never_meet_in_a_deadlock(database: Database) -> None:
    connection = await asyncpg.connect(database.dsn())
    await connection.execute("SELECT ledger.add_players($1)", PLAYERS)
    counts: Counter[str] = Counter()
    until_s = asyncio.get_running_loop().time() + DURATION_S
    await asyncio.gather(*(Writer(number).work(database.dsn(), until_s, counts) for number in range(WRITERS)))
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            report = await audit(connection, 0, 0, records=False, news_limit=NOBODY_RELAYS)
    finally:
        await connection.close()
    assert report.faults == []
    assert min(counts[kind] for kind in ("Grant", "OpenHand", "SettleHand", "VoidHand")) > 0
    assert report.totals["hands_settled"] == counts["SettleHand"]
    assert report.totals["hands_open"] == 0
    print(f"{dict(counts)} in {DURATION_S} s")


async def test_without_the_order_of_locks_they_do(postgres: Postgres) -> None:
    """The same writers; only the one statement that locks takes its rows in no order."""
    unordered = await make_database(postgres)
    lock = postgres.psql("SELECT pg_get_functiondef('ledger.lock_players'::regproc)", unordered.name)
    assert "ORDER BY a.account_id FOR" in lock
    postgres.psql(lock.replace("ORDER BY a.account_id FOR", "ORDER BY random() FOR"), unordered.name)
    postgres.psql(f"ALTER DATABASE {unordered.name} SET deadlock_timeout = '50ms'")
    until_s = asyncio.get_running_loop().time() + 60
    work = [Writer(number).work(unordered.dsn(), until_s, Counter()) for number in range(WRITERS)]
    writers = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(writers, return_when=asyncio.FIRST_EXCEPTION)
        assert any(isinstance(each.exception(), asyncpg.DeadlockDetectedError) for each in done)
    finally:
        await end(*writers)
        postgres.psql(f"DROP DATABASE {unordered.name} WITH (FORCE)")
