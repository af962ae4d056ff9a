"""Group commit: bounded, fair, and patient with a database that goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg
import pytest

from deploy.local import ports
from doudizhu.refusal import Refusal
from services.ledger.batcher import Batcher, Limits
from services.ledger.grants import Given, Grant
from services.ledger.transaction import Reply
from tests.services.ledger.harness import Database

Fresh = Callable[[str], str]


@contextlib.asynccontextmanager
async def working(dsn: str, limits: Limits, workers: int = 2) -> AsyncIterator[Batcher]:
    batcher = Batcher(dsn, limits, lambda: None)
    tasks = [asyncio.create_task(batcher.work()) for _ in range(workers)]
    yield batcher
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def gift(fresh: Fresh, player_id: str, chips: int = 1) -> Grant:
    return Grant(fresh("key"), player_id, "gift", chips)


async def all_of(batcher: Batcher, requests: Sequence[Grant]) -> list[Reply | BaseException]:
    return await asyncio.gather(*(batcher.submit(request) for request in requests), return_exceptions=True)


async def test_a_full_queue_says_so_at_once(database: Database, fresh: Fresh) -> None:
    async with working(database.dsn(), Limits(queue=3), workers=0) as batcher:
        waiting = [asyncio.create_task(batcher.submit(gift(fresh, fresh("p")))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as caught:
            await batcher.submit(gift(fresh, fresh("p")))
        assert caught.value.reason == "OVERLOADED"
        for task in waiting:
            task.cancel()


async def test_what_shares_a_claim_is_answered_in_order(database: Database, fresh: Fresh) -> None:
    star = fresh("p")
    requests = [gift(fresh, star if number % 2 else fresh("p"), number + 1) for number in range(60)]
    async with working(database.dsn(), Limits(batch=8), workers=1) as batcher:
        replies = await all_of(batcher, requests)
    after = 0
    for request, reply in zip(requests, replies, strict=True):
        assert isinstance(reply, Given)
        if request.player_id == star:
            after += request.chips
            assert reply.chips_after == after


async def test_one_bad_member_does_not_spoil_the_others(database: Database, fresh: Fresh) -> None:
    requests = [gift(fresh, fresh("p")) for _ in range(10)]
    requests[4] = Grant(fresh("key") + "\0", fresh("p"), "gift", 1)  # what Postgres cannot store
    async with working(database.dsn(), Limits(), workers=1) as batcher:
        replies = await all_of(batcher, requests)
    assert [isinstance(reply, Given) for reply in replies] == [index != 4 for index in range(10)]
    assert isinstance(replies[4], asyncpg.PostgresError)


async def test_a_caller_who_left_is_passed_over(database: Database, fresh: Fresh) -> None:
    async with working(database.dsn(), Limits(), workers=0) as batcher:
        gone = asyncio.create_task(batcher.submit(gift(fresh, fresh("p"))))
        await asyncio.sleep(0)
        gone.cancel()
        worker = asyncio.create_task(batcher.work())
        assert isinstance(await batcher.submit(gift(fresh, fresh("p"))), Given)
        worker.cancel()


async def test_a_lost_connection_is_not_the_caller_s_business(database: Database, fresh: Fresh) -> None:
    root = await asyncpg.connect(database.dsn("postgres"))
    try:
        async with working(database.dsn(), Limits()) as batcher:
            for _ in range(5):
                kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ddz_ledger'"
                requests = [gift(fresh, fresh("p")) for _ in range(40)]
                replies, _ = await asyncio.gather(all_of(batcher, requests), root.execute(kill))
                assert all(isinstance(reply, Given) for reply in replies)
    finally:
        await root.close()


async def test_without_postgres_it_is_unavailable(fresh: Fresh) -> None:
    nowhere = f"postgresql://ddz_ledger@127.0.0.1:{ports.free(1)[0]}/ddz"
    async with working(nowhere, Limits(patience_s=0.1)) as batcher:
        replies = await all_of(batcher, [gift(fresh, fresh("p")) for _ in range(5)])
    assert {reply.reason for reply in replies if isinstance(reply, Refusal)} == {"UNAVAILABLE"}
