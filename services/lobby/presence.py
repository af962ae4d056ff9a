"""Who is in the lobby: a player is as long as one of his lobby streams is open on any instance. Leases in Redis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from prometheus_client import Gauge
from redis.asyncio import Redis
from redis.exceptions import RedisError

from servicekit import logs

ONLINE: Final = Gauge("ddz_lobby_online", "Players with a lobby stream open, on whatever instance")

_KEY: Final = "lobby:online"
_LEASE_S: Final = 30.0
_BEAT_S: Final = 10.0

log = logs.get("presence")


class Presence:
    """A sorted set of players by the end of their lease; `online` is how many there were at the last beat."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._next_beat = 0.0
        self.online = 0

    async def seen(self, player_ids: Sequence[str]) -> None:
        """Renews the leases of players; without Redis nobody is refused for it."""
        try:
            if player_ids:
                await self._redis.zadd(_KEY, dict.fromkeys(player_ids, time.time() + _LEASE_S))
        except RedisError as error:
            log.warning("no lease", extra={"why": str(error)})

    async def beat(self, player_ids: Sequence[str]) -> None:
        """Renews the leases of all who watch here, when it is time to, and counts everybody's."""
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + _BEAT_S
        await self.seen(player_ids)
        try:
            await self._redis.zremrangebyscore(_KEY, "-inf", time.time())
            self.online = int(await self._redis.zcard(_KEY))
            ONLINE.set(self.online)
        except RedisError as error:
            log.warning("no beat", extra={"why": str(error)})

    async def is_online(self, player_id: str) -> bool:
        """Whether a player watches the lobby."""
        until = await self._redis.zscore(_KEY, player_id)
        return until is not None and float(until) > time.time()
