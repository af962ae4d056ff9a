"""Passwords by argon2id, in threads: a hash takes tens of milliseconds and 64 MiB (RFC 9106, second choice)."""

from __future__ import annotations

import asyncio
import base64
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from doudizhu.refusal import Refusal
from services.lobby.account import Reason

AT_ONCE: Final = 4  # each takes its memory, which the limit in deploy/k8s/base/lobby.yaml must have room for
_GREATEST_QUEUE: Final = 64

T = TypeVar("T")


class Passwords:
    """Hashes and checks, at most four at once; raises Refusal OVERLOADED when too many wait."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._places = threading.BoundedSemaphore(_GREATEST_QUEUE)
        self._nobody = _of_no_password(self._hasher)

    async def hash(self, password: str) -> str:
        """The hash to keep."""
        return await self._run(self._hasher.hash, password)

    async def matches(self, kept: str | None, password: str) -> bool:
        """Whether the password belongs to the hash; None, for a name without an account, takes as long and is no."""
        right = await self._run(self._check, kept or self._nobody, password)
        return right and kept is not None

    def outdated(self, kept: str) -> bool:
        """Whether the hash was made with weaker parameters than today's."""
        return self._hasher.check_needs_rehash(kept)

    def _check(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, function: Callable[..., T], *arguments: str) -> T:
        if not self._places.acquire(blocking=False):
            raise Refusal(Reason.OVERLOADED, "Too many people log in at once; try again in a moment.")
        work = self._threads.submit(function, *arguments)
        # Who gives up ends the wait, and drops what has not begun; a hash that has begun keeps thread and place.
        work.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(work)


def _of_no_password(hasher: PasswordHasher) -> str:
    """A hash of nothing, for the password of a name that does not exist: to check it takes as long as any other."""
    salt, digest = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (hasher.salt_len, hasher.hash_len)
    )
    return f"$argon2id$v=19$m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}${salt}${digest}"
