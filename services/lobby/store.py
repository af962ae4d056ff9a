"""Accounts and sessions in Postgres. No decisions; every method is one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg

from services.lobby.account import GUEST_NAME, Account, player_id

SCHEMA: Final = "lobby"
MIGRATIONS: Final = Path(__file__).parent / "migrations"

_COLUMNS: Final = (
    "number, display_name, avatar_id, bot, granted, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms, "
    "EXISTS (SELECT FROM lobby.operator WHERE operator.number = account.number) AS operator, "
    "muted_until_ms, banned_until_ms"
)
GREATEST_SESSIONS: Final = 32  # of one account: who logs in again and again does not fill the table
_FORGET_OLDEST: Final = """
DELETE FROM lobby.session WHERE number = $1 AND family IN (
  SELECT family FROM lobby.session WHERE number = $1 GROUP BY family ORDER BY max(expires_at) DESC OFFSET $2)
"""
# Passes over what somebody else has locked, so that no two that delete ever wait for each other.
_FORGET_EXPIRED: Final = """
DELETE FROM lobby.session WHERE token_hash = ANY (ARRAY(
  SELECT token_hash FROM lobby.session WHERE expires_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED))
"""
_FORGET_AT_ONCE: Final = 1000
_KEEP_USED_TOKENS: Final = timedelta(days=1)
# Of one family while its used tokens are kept: twenty times what a client needs. None is forgotten sooner to make room:
# a thief would refresh until that one is gone whose return gives him away.
GREATEST_REFRESHES: Final = 2000
# Whoever changes an account's sessions goes alone: a delete does not see the token that another one is about to add.
_ALONE: Final = "SELECT FROM lobby.account WHERE number = $1 FOR NO KEY UPDATE"
_AGAIN: Final = """
SELECT number, salt FROM lobby.session AS old
WHERE token_hash = $1 AND used_at > now() - $2::interval AND expires_at > now()
  AND EXISTS (SELECT FROM lobby.session AS new WHERE new.token_hash = old.successor AND new.used_at IS NULL)
"""


class AppointError(Exception):
    """Nobody of that name; the message is one sentence."""


class Successor(NamedTuple):
    """The token to follow on another one: what it is made of, and what is kept of it."""

    salt: bytes
    token_hash: bytes


class Rotated(NamedTuple):
    """Whose token it was, and what its successor is made of."""

    account: Account
    salt: bytes


def _account(row: asyncpg.Record) -> Account:
    return Account(**{name: row[name] for name in Account.__slots__})


class Store:
    """The schema `lobby`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def account(self, number: int) -> Account | None:
        """The account of a number."""
        row = await self._pool.fetchrow(f"SELECT {_COLUMNS} FROM lobby.account WHERE number = $1", number)
        return _account(row) if row else None

    async def accounts(self, numbers: Iterable[int]) -> Mapping[int, Account]:
        """Those of the numbers that exist."""
        query = f"SELECT {_COLUMNS} FROM lobby.account WHERE number = ANY($1::bigint[])"
        return {row["number"]: _account(row) for row in await self._pool.fetch(query, list(numbers))}

    async def is_guest(self, device_hash: bytes) -> bool:
        """Whether the device has an account."""
        query = "SELECT EXISTS (SELECT FROM lobby.account WHERE device_hash = $1)"
        return bool(await self._pool.fetchval(query, device_hash))

    async def guest(self, device_hash: bytes, *, bot: bool) -> tuple[Account, bool]:
        """The guest of a device, made when there is none; whether this call made him. Two at once get the same."""
        known = f"SELECT {_COLUMNS} FROM lobby.account WHERE device_hash = $1"
        row = await self._pool.fetchrow(known, device_hash)
        if row:
            return _account(row), False
        made = await self._pool.fetchrow(
            "INSERT INTO lobby.account (number, device_hash, display_name, bot) OVERRIDING SYSTEM VALUE "
            "SELECT n, $1, $2 || n, $3 FROM nextval(pg_get_serial_sequence('lobby.account', 'number')) AS n "
            f"ON CONFLICT (device_hash) DO NOTHING RETURNING {_COLUMNS}",
            device_hash,
            GUEST_NAME,
            bot,
        )
        if made:
            return _account(made), True
        return _account(await self._pool.fetchrow(known, device_hash)), False

    async def register(self, login_name: str, password_hash: str, display_name: str) -> Account | None:
        """A new account; None when the name is taken."""
        row = await self._pool.fetchrow(
            "INSERT INTO lobby.account (login_name, password_hash, display_name) VALUES ($1, $2, $3) "
            f"ON CONFLICT (login_name) DO NOTHING RETURNING {_COLUMNS}",
            login_name,
            password_hash,
            display_name,
        )
        return _account(row) if row else None

    async def by_name(self, login_name: str) -> tuple[Account, str] | None:
        """The account of a name and its password hash."""
        query = f"SELECT {_COLUMNS}, password_hash FROM lobby.account WHERE login_name = $1"
        row = await self._pool.fetchrow(query, login_name)
        return (_account(row), row["password_hash"]) if row else None

    async def set_password(self, number: int, password_hash: str) -> None:
        """Replaces the hash, for one made with stronger parameters."""
        await self._pool.execute("UPDATE lobby.account SET password_hash = $2 WHERE number = $1", number, password_hash)

    async def set_granted(self, number: int) -> None:
        """Notes that the sign-up chips have been given."""
        await self._pool.execute("UPDATE lobby.account SET granted = true WHERE number = $1", number)

    async def update_profile(self, number: int, display_name: str, avatar_id: int) -> Account | None:
        """Sets name and avatar; None when there is no such account."""
        row = await self._pool.fetchrow(
            f"UPDATE lobby.account SET display_name = $2, avatar_id = $3 WHERE number = $1 RETURNING {_COLUMNS}",
            number,
            display_name,
            avatar_id,
        )
        return _account(row) if row else None

    # ---- sessions -------------------------------------------------------------------------------------------------

    async def add_session(self, number: int, token_hash: bytes, life: timedelta) -> None:
        """Starts a family with its first token; forgets tokens that have run out, and families beyond the newest."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_ALONE, number)
            await connection.execute("DELETE FROM lobby.session WHERE number = $1 AND expires_at < now()", number)
            await connection.execute(_FORGET_OLDEST, number, GREATEST_SESSIONS - 1)
            await _add_token(connection, number, token_hash, uuid.uuid4(), life)

    async def rotate(self, old_hash: bytes, new: Successor, life: timedelta, grace: timedelta) -> Rotated | None:
        """Uses up a token for a new one of its family; None when it is unknown, has run out or was used before.

        Within `grace` of its use a token has the same successor again, unless that was used too: its answer was lost.
        Otherwise it ends its family: one of the two who have it has stolen it (RFC 9700, 4.14.2). So does a refresh too
        many within a day.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            owner = await connection.fetchval("SELECT number FROM lobby.session WHERE token_hash = $1", old_hash)
            await connection.execute(_ALONE, owner)
            row = await connection.fetchrow(
                "UPDATE lobby.session SET used_at = now(), salt = $2, successor = $3 "
                "WHERE token_hash = $1 AND used_at IS NULL AND expires_at > now() RETURNING number, family",
                old_hash,
                new.salt,
                new.token_hash,
            )
            if row is None:
                again = await connection.fetchrow(_AGAIN, old_hash, grace)
                if again is not None:
                    return Rotated(await _of(connection, again["number"]), again["salt"])
                family = "SELECT family FROM lobby.session WHERE token_hash = $1 AND used_at IS NOT NULL"
                await connection.execute(f"DELETE FROM lobby.session WHERE family IN ({family})", old_hash)
                return None
            forget = "DELETE FROM lobby.session WHERE family = $1 AND used_at < now() - $2::interval"
            await connection.execute(forget, row["family"], _KEEP_USED_TOKENS)
            used = "SELECT count(*) FROM lobby.session WHERE family = $1 AND used_at IS NOT NULL"
            if await connection.fetchval(used, row["family"]) > GREATEST_REFRESHES:
                await connection.execute("DELETE FROM lobby.session WHERE family = $1", row["family"])
                return None
            await _add_token(connection, row["number"], new.token_hash, row["family"], life)
            return Rotated(await _of(connection, row["number"]), new.salt)

    async def owner(self, token_hash: bytes) -> Account | None:
        """Whose token it is, good or not; None when it is not known."""
        owner = "SELECT number FROM lobby.session WHERE token_hash = $1"
        row = await self._pool.fetchrow(f"SELECT {_COLUMNS} FROM lobby.account WHERE number = ({owner})", token_hash)
        return _account(row) if row else None

    async def end_sessions(self, number: int) -> None:
        """Forgets every token of an account, that of a refresh under way too."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_ALONE, number)
            await connection.execute("DELETE FROM lobby.session WHERE number = $1", number)

    async def forget_expired(self) -> bool:
        """Forgets some tokens that have run out, whosever they are; whether there were any."""
        done: str = await self._pool.execute(_FORGET_EXPIRED, _FORGET_AT_ONCE)
        return done != "DELETE 0"


async def _of(connection: asyncpg.Connection, number: int) -> Account:
    return _account(await connection.fetchrow(f"SELECT {_COLUMNS} FROM lobby.account WHERE number = $1", number))


async def _add_token(
    connection: asyncpg.Connection, number: int, token_hash: bytes, family: uuid.UUID, life: timedelta
) -> None:
    await connection.execute(
        "INSERT INTO lobby.session (token_hash, number, family, expires_at) VALUES ($1, $2, $3, now() + $4::interval)",
        token_hash,
        number,
        family,
        life,
    )


async def appoint(dsn: str, login_name: str, *, dismiss: bool = False) -> str:
    """Makes the account of a name an operator, or no operator any more; its player id. Raises AppointError."""
    connection = await asyncpg.connect(dsn)
    try:
        number = await connection.fetchval("SELECT number FROM lobby.account WHERE login_name = $1", login_name)
        if number is None:
            raise AppointError(f"There is no account named {login_name}: register it first.")
        if dismiss:
            await connection.execute("DELETE FROM lobby.operator WHERE number = $1", number)
        else:
            await connection.execute("INSERT INTO lobby.operator (number) VALUES ($1) ON CONFLICT DO NOTHING", number)
        return player_id(int(number))
    finally:
        await connection.close()
