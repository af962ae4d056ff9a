"""Reads outside of transactions, through the functions of migrations/: rows in, values out, no decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from services.ledger.ledger import Hand
from services.ledger.store import hand_of
from services.ledger.trouble import Reads


async def hand_players(reads: Reads, hand_id: str) -> tuple[str, ...]:
    """Who sits in a hand that was opened; nobody when it was not. It never changes."""
    rows = await reads.fetch("SELECT player_ids FROM ledger.read_hands($1)", [hand_id])
    return tuple(rows[0]["player_ids"]) if rows else ()


async def balances(reads: Reads, player_ids: Sequence[str]) -> dict[str, tuple[int, int, str]]:
    """Chips, rating and open hand ("" when none) of the players that have accounts."""
    rows = await reads.fetch("SELECT * FROM ledger.balances($1)", player_ids)
    return {row["player_id"]: (row["chips"], row["rating"], row["hand_id"] or "") for row in rows}


async def statement(reads: Reads, player_id: str, unit: str, below: int, limit: int) -> list[Any]:
    """The newest transfers of a player's account whose seq is below `below`."""
    return await reads.fetch("SELECT * FROM ledger.statement($1, $2, $3, $4)", player_id, unit, below, limit)


async def leaders(reads: Reads, unit: str, limit: int) -> list[tuple[str, int, int]]:
    """(player, chips, rating), the greatest first."""
    rows = await reads.fetch("SELECT * FROM ledger.leaders($1, $2)", unit, limit)
    return [(row["player_id"], row["chips"], row["rating"]) for row in rows]


async def settled_hand(reads: Reads, hand_id: str) -> Hand | None:
    """A settled hand; None when it is not known, open or void."""
    rows = await reads.fetch("SELECT * FROM ledger.settled_hand($1)", hand_id)
    return _settled(rows[0]) if rows else None


async def settled_hands(reads: Reads, since_ms: int, limit: int) -> list[Hand]:
    """Settled hands, newest first."""
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    return [_settled(row) for row in await reads.fetch("SELECT * FROM ledger.settled_hands($1, $2)", since, limit)]


def _settled(row: Any) -> Hand:
    return hand_of({**row, "voided": False}, "", 0)


async def open_hands(reads: Reads, older_than_ms: int, limit: int) -> list[Any]:
    """Rows of (hand_id, table_id, player_ids, carried, opened_at), the oldest first."""
    age = timedelta(milliseconds=older_than_ms)
    return await reads.fetch("SELECT * FROM ledger.open_hands_older($1, $2)", age, limit)
