"""Postgres through the functions of migrations/: rows in, values out, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import asyncpg

from services.ledger.grants import Given
from services.ledger.ledger import End, Hand, Opened, Player, Settled

Connection: TypeAlias = asyncpg.Connection


def to_ms(at: datetime) -> int:
    """Milliseconds since the epoch, rounded down."""
    return int(at.timestamp() * 1000)


# ---- within a transaction -------------------------------------------------------------------------------------------


async def lock_players(connection: Connection, player_ids: Iterable[str]) -> tuple[dict[str, Player], int]:
    """Locks and reads the players that exist; also the transaction's time in ms (0 when none exists)."""
    rows = await connection.fetch("SELECT * FROM ledger.lock_players($1)", list(player_ids))
    players = {row[0]: Player(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows}
    return players, rows[0][6] if rows else 0


async def add_players(connection: Connection, player_ids: Iterable[str]) -> None:
    """Makes accounts with nothing in them; not within a transaction."""
    await connection.execute("SELECT ledger.add_players($1)", list(player_ids))


async def read_hands(connection: Connection, hand_ids: Sequence[str]) -> dict[str, Hand]:
    """The hands that were opened, by id."""
    rows = await connection.fetch("SELECT * FROM ledger.read_hands($1)", hand_ids)
    return {row["hand_id"]: _hand(row, row["table_id"], row["minimum"]) for row in rows}


def _hand(row: Any, table_id: str, minimum: int) -> Hand:
    end = None
    if row["at"] is not None:
        end = End(
            at_ms=to_ms(row["at"]),
            voided=row["voided"],
            record=row["record"] or b"",
            balance_before=tuple(row["balance_before"]),
            chips=tuple(row["chips"]),
            rake=tuple(row["rake"]),
            flee_chips=row["flee_chips"],
            rating_before=tuple(row["rating_before"]),
            rating=tuple(row["rating"]),
        )
    return Hand(row["hand_id"], table_id, tuple(row["player_ids"]), tuple(row["carried"]), minimum, end)


async def read_granted(connection: Connection, keys: Sequence[str]) -> dict[str, Given]:
    """The grants that were made, by key."""
    rows = await connection.fetch("SELECT * FROM ledger.read_granted($1)", keys)
    return {row["key"]: Given(*row) for row in rows}


async def write_opened(connection: Connection, opened: Sequence[Opened]) -> None:
    """Seats the players of hands that are opened now."""
    await connection.execute(
        "SELECT ledger.open_hands($1, $2, $3::text::bigint[], $4, $5::text::bigint[], $6::text::bigint[])",
        [each.hand.hand_id for each in opened],
        [each.hand.table_id for each in opened],
        _array(each.hand.minimum for each in opened),
        [player_id for each in opened for player_id in each.hand.player_ids],
        _array(account for each in opened for account in each.accounts),
        _array(chips for each in opened for chips in each.hand.carried),
    )


_SETTLE: Final = """
SELECT ledger.settle_hands($1, $2, $3,
  $4::text::bigint[], $5::text::bigint[], $6::text::bigint[], $7::text::bigint[], $8::text::bigint[],
  $9::text::bigint[], $10::text::bigint[],
  $11::text::int[], $12::text::bigint[], $13::text::ledger.unit[], $14::text::ledger.transfer_kind[],
  $15::text::bigint[], $16::text::bigint[], $17::text::bigint[])
"""


async def write_settled(connection: Connection, settled: Sequence[Settled], news: Sequence[bytes]) -> None:
    """Everything that settlements change, in one call."""
    ends = [_end(each) for each in settled]
    legs = [leg for each in settled for leg in each.legs]
    await connection.execute(
        _SETTLE,
        [each.hand.hand_id for each in settled],
        [end.record for end in ends],
        news,
        _array(account for each in settled for account in each.accounts),
        _array(chips for end in ends for chips in end.balance_before),
        _array(chips for end in ends for chips in end.chips),
        _array(chips for end in ends for chips in end.rake),
        _array(end.flee_chips for end in ends),
        _array(rating for end in ends for rating in end.rating_before),
        _array(rating for end in ends for rating in end.rating),
        _array(number for number, each in enumerate(settled, 1) for _ in each.legs),
        _array(leg.account for leg in legs),
        _array(leg.unit for leg in legs),
        _array(leg.kind for leg in legs),
        _array(leg.amount for leg in legs),
        _array(leg.rake for leg in legs),
        _array("NULL" if leg.before is None else leg.before for leg in legs),
    )


async def write_voided(connection: Connection, voided: Sequence[Settled], reasons: Sequence[str]) -> None:
    """Closes hands without moving a chip."""
    ends = [_end(each) for each in voided]
    await connection.execute(
        "SELECT ledger.void_hands($1, $2, $3::text::bigint[], $4::text::bigint[], $5::text::bigint[])",
        [each.hand.hand_id for each in voided],
        reasons,
        _array(account for each in voided for account in each.accounts),
        _array(chips for end in ends for chips in end.balance_before),
        _array(rating for end in ends for rating in end.rating_before),
    )


async def write_given(connection: Connection, given: Sequence[Given], news: Sequence[bytes]) -> None:
    """Grants, with their transfers."""
    await connection.execute(
        "SELECT ledger.grant_chips($1, $2, $3, $4::text::ledger.transfer_kind[], $5, $6, $7, $8, $9, $10)",
        [each.key for each in given],
        [each.player_id for each in given],
        [each.account for each in given],
        _array(each.kind for each in given),
        [each.chips for each in given],
        [each.chips_after for each in given],
        [each.rating_after for each in given],
        [each.relief_day for each in given],
        [each.relief_number for each in given],
        news,
    )


def _array(values: Iterable[int | str]) -> str:
    """An array as text, of numbers or of words without special characters.

    asyncpg examines every element of a list that it encodes: for a batch of settlements that is most of our time.
    """
    return "{" + ",".join(map(str, values)) + "}"


def _end(settled: Settled) -> End:
    assert settled.hand.end is not None
    return settled.hand.end


# ---- reads ----------------------------------------------------------------------------------------------------------


async def hand_players(pool: asyncpg.Pool, hand_id: str) -> tuple[str, ...]:
    """Who sits in a hand that was opened; nobody when it was not. It never changes."""
    rows = await pool.fetch("SELECT player_ids FROM ledger.read_hands($1)", [hand_id])
    return tuple(rows[0]["player_ids"]) if rows else ()


async def balances(pool: asyncpg.Pool, player_ids: Sequence[str]) -> dict[str, tuple[int, int, str]]:
    """Chips, rating and open hand ("" when none) of the players that have accounts."""
    rows = await pool.fetch("SELECT * FROM ledger.balances($1)", player_ids)
    return {row["player_id"]: (row["chips"], row["rating"], row["hand_id"] or "") for row in rows}


async def statement(pool: asyncpg.Pool, player_id: str, unit: str, below: int, limit: int) -> list[Any]:
    """The newest transfers of a player's account whose seq is below `below`."""
    return list(await pool.fetch("SELECT * FROM ledger.statement($1, $2, $3, $4)", player_id, unit, below, limit))


async def leaders(pool: asyncpg.Pool, unit: str, limit: int) -> list[tuple[str, int, int]]:
    """(player, chips, rating), the greatest first."""
    rows = await pool.fetch("SELECT * FROM ledger.leaders($1, $2)", unit, limit)
    return [(row["player_id"], row["chips"], row["rating"]) for row in rows]


def _settled(row: Any) -> Hand:
    return _hand({**row, "voided": False}, "", 0)


async def settled_hand(pool: asyncpg.Pool, hand_id: str) -> Hand | None:
    """A settled hand and its record; None when it is not known, open or void."""
    row = await pool.fetchrow("SELECT * FROM ledger.settled_hand($1)", hand_id)
    return _settled(row) if row else None


async def settled_hands(pool: asyncpg.Pool, since_ms: int, limit: int) -> list[Hand]:
    """Settled hands and their records, newest first."""
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    rows = await pool.fetch("SELECT * FROM ledger.settled_hands($1, $2)", since, limit)
    return [_settled(row) for row in rows]


async def totals(pool: asyncpg.Pool) -> dict[str, int]:
    """Counts and sums over the whole ledger, in one snapshot."""
    row = await pool.fetchrow("SELECT * FROM ledger.totals()")
    assert row is not None
    return dict(row)
