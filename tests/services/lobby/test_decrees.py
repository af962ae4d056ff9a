"""What operators decide, mirrored for all processes; and what they ask of processes that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import asyncpg
import pytest
from redis.asyncio import Redis

from ddz.admin.v1 import orders_pb2
from doudizhu.refusal import Refusal
from servicekit import clients
from servicekit.orders import KEY, Orders, nothing
from services.lobby import admin, decrees, service
from services.lobby.account import number_of
from services.lobby.admin import Admin
from services.lobby.decrees import Decrees
from tests.services.lobby.conftest import Town

TOKENS_S = 900


@pytest.fixture
async def pool(town: Town) -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(town.config.postgres_dsn, min_size=2, max_size=2) as pool:
        yield pool


@pytest.fixture
async def mirror(town: Town) -> AsyncIterator[Redis]:
    """A Redis that no lobby writes."""
    async with clients.redis(f"{town.config.redis_url.rsplit('/', 1)[0]}/7") as redis:
        yield redis
        await redis.flushdb()


def own(pool: asyncpg.Pool, redis: Any, town: Town) -> Decrees:
    return Decrees(pool, redis, town.bus, Orders(nothing), TOKENS_S)


@pytest.mark.parametrize(("over_s", "is_there"), [(200, True), (400, False)])
async def test_a_ban_is_mirrored_for_as_long_as_a_token_of_before_may_be_taken(
    town: Town, pool: asyncpg.Pool, mirror: Redis, over_s: int, is_there: bool
) -> None:
    """The gateway lets a token live a minute longer, and clocks differ."""
    player = await town.player()
    made = own(pool, mirror, town)
    await made.ban(number_of(player.id), 2**52)
    since = f"sanctioned_at = now() - interval '{TOKENS_S + over_s} seconds'"
    await pool.execute(f"UPDATE lobby.account SET {since} WHERE number = $1", number_of(player.id))
    await made.mirror()
    found = await mirror.get(KEY)
    assert isinstance(found, bytes)
    written = orders_pb2.Orders.FromString(found)
    assert (player.id in {sanction.player_id for sanction in written.sanctions}) is is_there


async def test_who_cannot_mirror_for_another_lobby_says_so(
    town: Town, pool: asyncpg.Pool, mirror: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decrees, "_LOCK_WAIT", "50ms")
    async with pool.acquire() as other, other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", decrees._LOCK)
        with pytest.raises(Refusal, match="UNAVAILABLE"):
            await own(pool, mirror, town).mirror()
    await own(pool, mirror, town).mirror()


class Silent:
    """A Redis that does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def get(self, _key: str) -> None:
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_lobby_whose_redis_is_silent_does_not_keep_the_others_from_mirroring(
    town: Town, pool: asyncpg.Pool, mirror: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = decrees._HELD
    monkeypatch.setattr(decrees, "_HELD", "1s")
    monkeypatch.setattr(decrees, "_LOCK_WAIT", "30s")
    silent = Silent()
    hanging = asyncio.create_task(own(pool, cast(Any, silent), town).mirror())
    try:
        async with asyncio.timeout(60):
            await silent.asked.wait()
            monkeypatch.setattr(decrees, "_HELD", usual)
            await mirror.delete(KEY)
            await own(pool, mirror, town).mirror()
        assert await mirror.exists(KEY)
    finally:
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)


async def test_a_lobby_knows_what_is_ordered_before_it_serves(town: Town, mirror: Redis) -> None:
    await mirror.set(KEY, orders_pb2.Orders(maintenance="back at noon").SerializeToString())
    redis_url = f"{town.config.redis_url.rsplit('/', 1)[0]}/7"
    async with service.build(replace(town.config, redis_url=redis_url)) as lobby:
        assert lobby._board._orders.closed


@pytest.mark.parametrize("act", ["drain", "reload"])
async def test_what_nobody_answers_is_no_final_answer(nats: str, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_NODE_S", 0.1)
    monkeypatch.setattr(admin, "_ALL_S", 0.1)
    absent: Any = None
    async with clients.nats_bus(nats, name="test") as bus:
        asked = Admin(absent, absent, bus, absent, absent)
        with pytest.raises(Refusal, match="UNAVAILABLE"):
            await (asked.set_draining("no-node", True) if act == "drain" else asked.reload_rooms())
