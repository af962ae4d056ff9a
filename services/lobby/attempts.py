"""How often somebody may try: counters in Redis, counted before the try so that many at once do not slip through."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from doudizhu.refusal import Refusal
from servicekit.clients import AWAY
from services.lobby.account import Reason


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `tries` within `window_s` seconds, counted from the first."""

    name: str
    tries: int
    window_s: int


# A name can be guessed at from many addresses, and an address can guess at many names; a whole school has one address.
NAME_FROM_ADDRESS: Final = Limit("name_address", 10, 900)
NAME: Final = Limit("name", 100, 900)
ADDRESS: Final = Limit("address", 300, 900)
CODE: Final = Limit("code", 20, 60)
TABLE: Final = Limit("table", 30, 60)  # opened by one player

# Both are sent again when their answer is lost, and then one try counts, or is taken back, twice. That is rare and a
# limit is no exact number, so it is not worth keeping every try by itself.
_COUNT: Final = """
local tries = redis.call('INCR', KEYS[1])
if tries == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return {tries, redis.call('TTL', KEYS[1])}
"""
_TAKE_BACK: Final = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DECR', KEYS[1]) end"


def _key(limit: Limit, subject: str) -> str:
    return f"lobby:tries:{limit.name}:{hashlib.sha256(subject.encode()).hexdigest()[:32]}"


Counted = tuple[Limit, str]  # a limit and its subject


class Attempts:
    """Counters per limit and subject (a name, an address, a player)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._count: Any = redis.register_script(_COUNT)
        self._take_back: Any = redis.register_script(_TAKE_BACK)

    async def count(self, limit: Limit, subject: str) -> None:
        """Counts one try; raises Refusal RATE_LIMITED, with `retry_after_s` in its data, when it is one too many."""
        tries, left_s = await self._count(keys=[_key(limit, subject)], args=[limit.window_s])
        if tries > limit.tries:
            raise Refusal(
                Reason.RATE_LIMITED, f"Too many tries; try again in {left_s} s.", retry_after_s=max(left_s, 1)
            )

    async def forget(self, limit: Limit, subject: str) -> None:
        """Starts the count anew, after a try that went well."""
        await self._redis.delete(_key(limit, subject))

    async def take_back(self, *counted: Counted) -> None:
        """Uncounts one try that went well where others share the counter, or that nobody has judged."""
        for limit, subject in counted:
            await self._take_back(keys=[_key(limit, subject)])


@contextlib.asynccontextmanager
async def trying(attempts: Attempts, *counted: Counted) -> AsyncIterator[None]:
    """Counts a try that is judged within; what is raised there is no verdict, and the try is taken back.

    Who gives up himself has tried: otherwise he could have as much work done as he likes. Raises RATE_LIMITED.
    """
    taken: list[Counted] = []
    try:
        for limit, subject in counted:
            await attempts.count(limit, subject)
            taken.append((limit, subject))
        yield
    except Exception:
        with contextlib.suppress(*AWAY):  # without Redis it stays counted; what was raised says more
            await attempts.take_back(*taken)
        raise
