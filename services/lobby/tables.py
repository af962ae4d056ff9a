"""What the lobby knows of the tables that it opened: room, code, and the request that made them. Kept in Redis."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from typing import Final

from redis.asyncio import Redis

from doudizhu.refusal import Refusal
from services.lobby.account import Reason

_CODE_LETTERS: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # none that looks like another
_CODE_LENGTH: Final = 6
_PUBLIC: Final = "t"
_PRIVATE: Final = "x"
_REQUEST_LIFE_S: Final = 86_400
_TABLE_LIFE_S: Final = 7 * 86_400
_UNOPENED_LIFE_S: Final = 600  # of all three, until the table service has opened the table
_CLOSED: Final = b""


@dataclass(frozen=True, slots=True)
class Opened:
    """A table opened through the lobby; `code` is empty when it is public."""

    table_id: str
    room_id: str
    code: str


def is_private(table_id: str) -> bool:
    """Whether a table is found by its code alone: its id says so, so that every instance knows."""
    return table_id.startswith(_PRIVATE)


class Tables:
    """Keys `lobby:request:…`, `lobby:table:…` (empty once the table has closed) and `lobby:code:…`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, player_id: str, request_id: str, room_id: str, *, private: bool) -> Opened:
        """The table of a request: the same for every repeat of it within ten minutes, or a day once it is kept.

        Raises Refusal TABLE_CLOSED for the repeat of a request whose table is over: its id must not live twice.
        """
        table_id = f"{_PRIVATE if private else _PUBLIC}{secrets.token_hex(10)}"
        code = await self._reserve(table_id) if private else ""
        new = Opened(table_id, room_id, code)
        key = f"lobby:request:{player_id}:{request_id}"
        found = await self._redis.set(key, _packed(new), nx=True, get=True, ex=_UNOPENED_LIFE_S)
        if found is None:
            await self._redis.set(f"lobby:table:{table_id}", _packed(new), ex=_UNOPENED_LIFE_S)
            return new
        assert isinstance(found, bytes)
        first = Opened(**json.loads(found))
        if code and code != first.code:  # it is ours when the command was sent again: its first answer was lost
            await self._redis.delete(f"lobby:code:{code}")
        # Whoever made it may have died before this line.
        key = f"lobby:table:{first.table_id}"
        if await self._redis.set(key, _packed(first), nx=True, get=True, ex=_UNOPENED_LIFE_S) == _CLOSED:
            raise _over()
        return first

    async def keep(self, player_id: str, request_id: str, opened: Opened) -> None:
        """Keeps what is known of a table that is open, the request last: it must not outlive the table. Raises as
        `create`.
        """
        key = f"lobby:table:{opened.table_id}"
        if await self._redis.set(key, _packed(opened), get=True, ex=_TABLE_LIFE_S) == _CLOSED:
            await self._redis.set(key, _CLOSED, ex=_REQUEST_LIFE_S)
            raise _over()
        if opened.code:
            await self._redis.set(f"lobby:code:{opened.code}", opened.table_id, ex=_TABLE_LIFE_S)
        await self._redis.set(f"lobby:request:{player_id}:{request_id}", _packed(opened), ex=_REQUEST_LIFE_S)

    async def get(self, table_id: str) -> Opened | None:
        """A table that was opened through the lobby; raises Refusal TABLE_CLOSED for a day after it has closed."""
        kept = await self._redis.get(f"lobby:table:{table_id}")
        if kept == _CLOSED:
            raise Refusal(Reason.TABLE_CLOSED, "This table has closed.", field="table_id")
        return Opened(**json.loads(kept)) if kept else None

    async def by_code(self, code: str) -> Opened | None:
        """The private table of a code, however it is spelled."""
        table_id = await self._redis.get(f"lobby:code:{code.upper()}")
        return await self._open(str(table_id, "ascii")) if isinstance(table_id, bytes) else None

    async def forget(self, table_id: str) -> None:
        """Drops what is kept of a table that has closed, except that it has, for whoever asks for it."""
        opened = await self._open(table_id)
        if opened is None:
            return
        await self._redis.set(f"lobby:table:{table_id}", _CLOSED, ex=_REQUEST_LIFE_S)
        if opened.code:
            await self._redis.delete(f"lobby:code:{opened.code}")

    async def _open(self, table_id: str) -> Opened | None:
        """As `get`, None for one that has closed."""
        try:
            return await self.get(table_id)
        except Refusal:
            return None

    async def _reserve(self, table_id: str) -> str:
        while True:
            code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))
            if await self._redis.set(f"lobby:code:{code}", table_id, nx=True, ex=_UNOPENED_LIFE_S):
                return code


def _packed(opened: Opened) -> str:
    return json.dumps(asdict(opened))


def _over() -> Refusal:
    return Refusal(Reason.TABLE_CLOSED, "The table of this request has closed.", field="request_id")
