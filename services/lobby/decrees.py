"""What operators have decided, in Postgres, and its mirror in Redis for all processes (servicekit.orders)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import asyncpg
import nats.errors
from nats.aio.client import Client as NatsClient
from redis.asyncio import Redis

from ddz.admin.v1 import orders_pb2
from doudizhu.refusal import Refusal
from servicekit import logs, orders
from servicekit.clients import AWAY
from servicekit.orders import Orders
from services.lobby.account import Reason

# Two lobbies that mirror at once: the one that has read the older state must not write last.
_LOCK: Final = 0x64647B
_MIRROR_S: Final = 5.0
_SLACK: Final = timedelta(minutes=5)  # by which clocks may differ; the gateway alone allows for a minute
# What is held while Redis is asked is given back, whatever Redis does: nobody waits long for a lobby that hangs.
_LOCK_WAIT: Final = "2s"
_HELD: Final = "5s"
_SANCTIONS: Final = """
SELECT number, banned_until_ms, muted_until_ms FROM lobby.account
WHERE sanctioned_at > now() - $1::interval
  AND greatest(banned_until_ms, muted_until_ms) > extract(epoch FROM now()) * 1000 ORDER BY number
"""

log = logs.get("decrees")


class Decrees:
    """Maintenance, mutes and bans. After each change `mirror` tells everybody."""

    def __init__(self, pool: asyncpg.Pool, redis: Redis, bus: NatsClient, known: Orders, tokens_live_s: int) -> None:
        self._pool = pool
        self._redis = redis
        self._bus = bus
        self._known = known
        self._window = timedelta(seconds=tokens_live_s) + _SLACK  # who was banned before has no token any more

    async def is_operator(self, number: int) -> bool:
        """Whether an account is an operator's now, whatever its token says."""
        return bool(await self._pool.fetchval("SELECT EXISTS (SELECT FROM lobby.operator WHERE number = $1)", number))

    async def set_maintenance(self, message: str | None) -> None:
        """Closes the system with a message, or opens it (None)."""
        if message is None:
            await self._pool.execute("DELETE FROM lobby.maintenance")
        else:
            await self._pool.execute(
                "INSERT INTO lobby.maintenance (message) VALUES ($1) ON CONFLICT (one) DO UPDATE SET message = $1",
                message,
            )

    async def mute(self, number: int, until_ms: int) -> bool:
        """Sets until when an account is muted, 0 = it is not; whether there is such an account."""
        query = "UPDATE lobby.account SET muted_until_ms = $2, sanctioned_at = now() WHERE number = $1 RETURNING true"
        return bool(await self._pool.fetchval(query, number, until_ms))

    async def ban(self, number: int, until_ms: int) -> bool:
        """Sets until when an account is banned, 0 = it is not, and ends its sessions; whether there is such an account.

        Tokens that have run out stay for a while, so that their owner can be told why.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            query = (
                "UPDATE lobby.account SET banned_until_ms = $2, sanctioned_at = now() WHERE number = $1 RETURNING true"
            )
            found = bool(await connection.fetchval(query, number, until_ms))
            if until_ms:
                await connection.execute("UPDATE lobby.session SET expires_at = now() WHERE number = $1", number)
            return found

    async def mirror(self) -> None:
        """Writes what is decided where all processes read it, and tells them. Raises UNAVAILABLE when another lobby
        does so for long.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
            await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{_HELD}'")
            try:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            except asyncpg.LockNotAvailableError:
                words = "It is decided, but other processes are not told yet; try again in a moment."
                raise Refusal(Reason.UNAVAILABLE, words) from None
            decided = await _decided(connection, self._window)
            if decided.SerializeToString() != await self._redis.get(orders.KEY):
                await self._redis.set(orders.KEY, decided.SerializeToString())
        if decided == self._known.newest:
            return
        self._known.take(decided)
        try:
            await self._bus.publish(orders.CHANGED, b"")
        except (nats.errors.Error, OSError) as error:  # everybody looks once a second anyway
            log.warning("news lost", extra={"why": str(error)})

    async def keep_mirrored(self) -> None:
        """Mirrors now and again, for ever: Redis may have lost it."""
        while True:
            try:
                await self.mirror()
            except (*AWAY, Refusal) as error:
                log.warning("not mirrored", extra={"why": repr(error)})
            await asyncio.sleep(_MIRROR_S)


async def _decided(connection: Any, window: timedelta) -> orders_pb2.Orders:
    found = orders_pb2.Orders(maintenance=await connection.fetchval("SELECT message FROM lobby.maintenance"))
    for row in await connection.fetch(_SANCTIONS, window):
        found.sanctions.add(
            player_id=f"p{row['number']}", banned_until_ms=row["banned_until_ms"], muted_until_ms=row["muted_until_ms"]
        )
    return found
