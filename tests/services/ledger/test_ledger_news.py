"""What is committed is told: by the outbox to JetStream, each at least once, once by its key."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from nats.js.api import DiscardPolicy, StreamConfig

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, news_pb2
from deploy.local import ports, servers
from deploy.local.leash import Leash
from deploy.local.servers import Postgres
from servicekit import clients, stream
from services.ledger import relay
from services.ledger.grants import Grant
from services.ledger.relay import Publisher, Relay
from services.ledger.transaction import transact
from tests.services.ledger.harness import Database, Ledger, make_database, serve
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, settle


async def test_settlements_and_grants_are_told(ledger: Ledger, nats: str, fresh: Callable[[str], str]) -> None:
    hand_id, players = await opened(ledger, fresh)
    reply = await ledger.internal.Settle(settle(record(hand_id, players, winner="landlord", landlord=2, multiplier=4)))
    async with clients.nats_bus(nats, name="test") as bus:
        await stream.ensure(bus.jetstream())  # the relay may not have come to it
        news = await bus.jetstream().subscribe("ddz.hand.settled", ordered_consumer=True)
        while True:
            message = await news.next_msg(timeout=10)
            if (message.headers or {})["Nats-Msg-Id"] == hand_id:
                break
        told = news_pb2.HandSettled.FromString(message.data)
        assert told.settlement == reply.settlement
        assert (told.room_id, told.book) == ("room", "rob")
        assert (told.outcome.winner, told.outcome.landlord, told.outcome.multiplier) == (hand_pb2.SIDE_LANDLORD, 2, 4)
        assert not told.outcome.HasField("fled")
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


async def test_news_are_forgotten_only_once_they_are_acknowledged(
    quiet: Database, scratch: Path, leash: Leash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_ACKNOWLEDGE_S", 0.2)
    keys = ["gift:1", "gift:2", "gift:3"]
    connection = await asyncpg.connect(quiet.dsn())
    with servers.nats(leash, scratch / "nats-news", ports.free(1)[0]) as server:
        async with clients.nats_bus(server.url, name="test") as bus:
            publisher, step = Publisher(bus), Relay(quiet.dsn(), server.url).step
            await publisher.listen()
            await transact(connection, [Grant(key, f"p{key[-1]}", "gift", 1) for key in keys])
            with pytest.raises(relay.NotAcknowledged):  # there is no stream that could keep them
                await step(connection, publisher)
            assert await waiting(connection) == keys
            monkeypatch.undo()  # what can be kept has its time
            await stream.ensure(bus.jetstream())
            full = StreamConfig(name=stream.STREAM, subjects=stream.SUBJECTS, max_msgs=1, discard=DiscardPolicy.NEW)
            await bus.jetstream().update_stream(full)
            with pytest.raises(relay.NotAcknowledged):
                await step(connection, publisher)
            assert len(await waiting(connection)) == 2
            await bus.jetstream().update_stream(full.evolve(max_msgs=-1))
            assert await step(connection, publisher) == 2
            assert await waiting(connection) == []
            told = await bus.jetstream().subscribe("ddz.account.changed", ordered_consumer=True)
            heard = [(await told.next_msg(timeout=10)).headers or {} for _ in keys]
            assert sorted(headers["Nats-Msg-Id"] for headers in heard) == keys
    await connection.close()


async def waiting(connection: asyncpg.Connection) -> list[str]:
    return [row["key"] for row in await connection.fetch("SELECT key FROM ledger.oldest_news(100)")]


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
