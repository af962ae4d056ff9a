"""Group commit: bounded, fair, and patient with a database that goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg
import pytest

from deploy.local import ports
from doudizhu.refusal import Refusal
from servicekit import clients
from services.ledger import grants
from services.ledger.batcher import Batcher, Limits
from services.ledger.grants import Given, Grant
from services.ledger.ledger import Opened, OpenHand, Player, Voided, VoidHand
from services.ledger.reversals import Reverse
from services.ledger.transaction import Reply
from services.ledger.trouble import ABANDONED, Reads
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
    assert isinstance(replies[4], Refusal)
    assert replies[4].reason == "INVALID"


async def test_a_mistake_of_ours_does_not_spoil_the_others(
    database: Database, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [gift(fresh, fresh("p")) for _ in range(6)]

    def mistaken(request: Grant, known: Given | None, player: Player) -> Given:
        assert request is not requests[2], "a mistake"
        return grants_grant(request, known, player)

    grants_grant = grants.grant
    monkeypatch.setattr(grants, "grant", mistaken)
    async with working(database.dsn(), Limits(), workers=1) as batcher:
        replies = await all_of(batcher, requests)
    assert [isinstance(reply, Given) for reply in replies] == [index != 2 for index in range(6)]
    assert isinstance(replies[2], AssertionError)


async def test_a_hand_that_is_opened_while_it_is_voided_is_tried_again(database: Database, fresh: Fresh) -> None:
    players, hand_id = (fresh("p"), fresh("p"), fresh("p")), fresh("hand")
    async with working(database.dsn(), Limits(), workers=1) as batcher:
        # Who voids has looked for the players before there were any; who opens comes in between.
        openings = batcher.submit(OpenHand(hand_id, "table", players, 0))
        voids = batcher.submit(VoidHand(hand_id, (), "test"))
        reverses = batcher.submit(Reverse(hand_id, (), "me", "test"))
        opened, voided, reversed_, other = await asyncio.gather(
            openings, voids, reverses, batcher.submit(gift(fresh, fresh("p"))), return_exceptions=True
        )
        assert isinstance(opened, Opened)
        assert isinstance(voided, Refusal)
        assert isinstance(reversed_, Refusal)
        assert (voided.reason, reversed_.reason) == ("UNAVAILABLE", "NOT_FOUND")
        assert isinstance(other, Given)
        assert isinstance(await batcher.submit(VoidHand(hand_id, players, "test")), Voided)


async def test_a_lock_that_somebody_keeps_ends_as_unavailable(database: Database, fresh: Fresh) -> None:
    player_id = fresh("p")
    root = await asyncpg.connect(database.dsn("postgres"))
    impatient = Limits(patience_s=0.1, transaction_timeout_s=0.3)
    try:
        async with working(database.dsn(), Limits()) as patient, working(database.dsn(), impatient) as batcher:
            assert isinstance(await patient.submit(gift(fresh, player_id)), Given)
            request = gift(fresh, player_id)
            async with root.transaction():
                await root.execute("SELECT FROM ledger.account WHERE player_id = $1 FOR UPDATE", player_id)
                with pytest.raises(Refusal) as caught:
                    await batcher.submit(request)
                assert caught.value.reason == "UNAVAILABLE"
            given = await patient.submit(request)
            assert isinstance(given, Given)
            assert given.chips_after == 2
    finally:
        await root.close()


async def test_postgres_gives_the_locks_of_a_dead_machine_back(database: Database) -> None:
    asked = ("statement_timeout", "idle_in_transaction_session_timeout", "tcp_keepalives_idle")
    async with working(database.dsn(), Limits(), workers=1) as batcher:
        await batcher.submit(Grant("gift:locks", "p-locks", "gift", 1))
        root = await asyncpg.connect(database.dsn(), server_settings=ABANDONED)
        try:
            assert [await root.fetchval(f"SHOW {name}") for name in asked] == ["15s", "15s", "5"]
            await root.execute("SET idle_in_transaction_session_timeout = '20ms'")
            await root.execute("BEGIN")
            await root.execute("SELECT * FROM ledger.lock_players('{p-locks}')")
            assert isinstance(await batcher.submit(Grant("gift:locks-2", "p-locks", "gift", 1)), Given)
        finally:
            root.terminate()


async def test_reads_do_not_wait_for_ever(database: Database) -> None:
    async with clients.postgres(database.dsn(), connections=1) as pool:
        reads = Reads(pool, patience_s=0.2)
        async with pool.acquire():  # all that there are
            with pytest.raises(Refusal) as caught:
                await reads.fetch("SELECT 1")
            assert caught.value.reason == "UNAVAILABLE"
        with pytest.raises(Refusal) as caught:
            await reads.fetch("SELECT pg_sleep(60)")
        assert caught.value.reason == "UNAVAILABLE"
        patient = Reads(pool, patience_s=30.0)  # the connection is on its way back
        assert [tuple(row) for row in await patient.fetch("SELECT 1")] == [(1,)]


async def test_one_snapshot_at_a_time(database: Database) -> None:
    at_once, most = 0, 0

    async def look(connection: asyncpg.Connection) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await connection.fetch("SELECT pg_sleep(0.01)")
        at_once -= 1

    async with clients.postgres(database.dsn(), connections=2) as pool:
        reads = Reads(pool, patience_s=1.0)
        await asyncio.gather(*(reads.in_snapshot(look) for _ in range(4)))
    assert most == 1


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
