"""What is committed is told: by the outbox to JetStream, each at least once, once by its key."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, news_pb2
from deploy.local import ports
from deploy.local.servers import Postgres
from servicekit import clients
from tests.services.ledger.harness import Database, Ledger, make_database, serve
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, settle


async def test_settlements_and_grants_are_told(ledger: Ledger, nats: str, fresh: Callable[[str], str]) -> None:
    hand_id, players = await opened(ledger, fresh)
    reply = await ledger.internal.Settle(settle(record(hand_id, players, winner="landlord", landlord=2, multiplier=4)))
    async with clients.nats_bus(nats, name="test") as bus:
        news = await bus.jetstream().subscribe("ddz.hand.settled", ordered_consumer=True)
        while True:
            message = await news.next_msg(timeout=10)
            told = news_pb2.HandSettled.FromString(message.data)
            if told.settlement.hand_id == hand_id:
                break
        assert told.settlement == reply.settlement
        assert (told.room_id, told.book) == ("room", "rob")
        assert (told.outcome.winner, told.outcome.landlord, told.outcome.multiplier) == (hand_pb2.SIDE_LANDLORD, 2, 4)
        assert not told.outcome.HasField("fled")
        assert (message.headers or {})["Nats-Msg-Id"] == hand_id
        changes = await bus.jetstream().subscribe("ddz.account.changed", ordered_consumer=True)
        while True:
            change = news_pb2.AccountChanged.FromString((await changes.next_msg(timeout=10)).data)
            if [each.player_id for each in change.balances] == players[2:]:
                break
        assert change.balances == [ledger_pb2.Balance(player_id=players[2], chips=1000, title="casual_labourer")]


@pytest.fixture
async def quiet(postgres: Postgres) -> AsyncIterator[Database]:
    """A ledger that no service runs on yet."""
    made = await make_database(postgres)
    yield made
    postgres.psql(f"DROP DATABASE {made.name} WITH (FORCE)")


async def test_without_nats_hands_are_settled_and_the_news_wait(
    quiet: Database, nats: str, fresh: Callable[[str], str]
) -> None:
    nowhere = f"nats://127.0.0.1:{ports.free(1)[0]}"
    async with serve(quiet, nowhere) as ledger:
        hand_id, players = await opened(ledger, fresh)
        request = settle(record(hand_id, players, winner="landlord", landlord=2))
        assert (await ledger.internal.Settle(request)).result == ledger_pb2.RESULT_APPLIED
        assert await ledger.root.fetchval("SELECT count(*) FROM ledger.outbox WHERE key = $1", hand_id) == 1
    async with serve(quiet, nats) as ledger:
        await eventually(lambda: none_waits(ledger))


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Asks until it is so, for 20 seconds."""
    ends_at_s = asyncio.get_running_loop().time() + 20
    while not await condition():
        assert asyncio.get_running_loop().time() < ends_at_s
        await asyncio.sleep(0.05)


async def none_waits(ledger: Ledger) -> bool:
    return not await ledger.root.fetchval("SELECT count(*) FROM ledger.outbox")


async def one_leads(ledger: Ledger) -> bool:
    leaders: int = await ledger.root.fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return leaders == 1


async def test_one_of_several_relays_leads_and_another_follows(
    quiet: Database, nats: str, fresh: Callable[[str], str]
) -> None:
    async with contextlib.AsyncExitStack() as rest:
        first = contextlib.AsyncExitStack()
        await first.enter_async_context(serve(quiet, nats))
        ledger, _ = [await rest.enter_async_context(serve(quiet, nats)) for _ in range(2)]
        for _ in range(2):
            await eventually(lambda: one_leads(ledger))
            await opened(ledger, fresh)  # three grants, three news
            await eventually(lambda: none_waits(ledger))
            await first.aclose()
