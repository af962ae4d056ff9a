"""What transactions read and write, through the functions of migrations/: rows in, values out, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeAlias

import asyncpg

from services.ledger.grants import Given
from services.ledger.ledger import FLEE, ISSUANCE, RAKE, End, Hand, Opened, Player, Settled, Voided, kinds
from services.ledger.reversals import Reversed, reversal_key

Connection: TypeAlias = asyncpg.Connection


def to_ms(at: datetime) -> int:
    """Milliseconds since the epoch, rounded down."""
    return int(at.timestamp() * 1000)


async def lock_players(connection: Connection, player_ids: Sequence[str]) -> tuple[dict[str, Player], int]:
    """Locks and reads the players that exist; also the transaction's time in ms."""
    row = await connection.fetchrow("SELECT * FROM ledger.lock_players($1::text::text[])", _texts(player_ids))
    assert row is not None
    *columns, at_ms = row.values()
    return {values[0]: Player(*values) for values in zip(*(column or () for column in columns), strict=True)}, at_ms


async def add_players(connection: Connection, player_ids: Iterable[str]) -> None:
    """Makes accounts with nothing in them; not within a transaction."""
    await connection.execute("SELECT ledger.add_players($1)", list(player_ids))


async def read_seats(connection: Connection, accounts: Sequence[int]) -> dict[int, str]:
    """The open hand of who sits in one, by account."""
    return dict(await connection.fetch("SELECT * FROM ledger.read_seats($1::text::bigint[])", _array(accounts)))


async def read_hands(connection: Connection, hand_ids: Sequence[str]) -> dict[str, Hand]:
    """The hands that were opened, by id."""
    rows = await connection.fetch("SELECT * FROM ledger.read_hands($1::text::text[])", _texts(hand_ids))
    return {row["hand_id"]: hand_of(row, row["table_id"], row["minimum"]) for row in rows}


def hand_of(row: Any, table_id: str, minimum: int) -> Hand:
    """A hand from a row with the columns of both hand and settlement."""
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


async def read_given(connection: Connection, keys: Sequence[str]) -> dict[str, Given]:
    """The grants that were made, by key."""
    rows = await connection.fetch("SELECT * FROM ledger.read_given($1)", keys)
    return {row["key"]: Given(*row) for row in rows}


async def read_claimed(connection: Connection, claimants: Sequence[tuple[str, date]]) -> dict[tuple[str, date], int]:
    """How many reliefs each had on that day; who had none is left out."""
    rows = await connection.fetch(
        "SELECT * FROM ledger.read_claimed($1, $2)",
        [player_id for player_id, _ in claimants],
        [day for _, day in claimants],
    )
    return {(row["player_id"], row["day"]): row["claimed"] for row in rows}


async def read_reversed(connection: Connection, hand_ids: Sequence[str]) -> dict[str, Reversed]:
    """The reversals of these hands, by hand."""
    rows = await connection.fetch("SELECT * FROM ledger.read_reversed($1)", hand_ids)
    return {
        row["hand_id"]: Reversed(
            hand_id=row["hand_id"],
            player_ids=tuple(row["player_ids"]),
            operator=row["operator"],
            reason=row["reason"],
            chips=tuple(row["chips"]),
            rating=tuple(row["rating"]),
            chips_after=tuple(row["chips_after"]),
            rating_after=tuple(row["rating_after"]),
            shortage_chips=row["shortage_chips"],
            shortage_rating=row["shortage_rating"],
        )
        for row in rows
    }


_OPEN: Final = """
SELECT ledger.open_hands($1::text::text[], $2::text::text[], $3::text::bigint[], $4::text::text[],
  $5::text::bigint[], $6::text::bigint[])
"""


async def write_opened(connection: Connection, opened: Sequence[Opened]) -> None:
    """Seats the players of hands that are opened now."""
    await connection.execute(
        _OPEN,
        _texts([each.hand.hand_id for each in opened]),
        _texts([each.hand.table_id for each in opened]),
        _array([each.hand.minimum for each in opened]),
        _texts([player_id for each in opened for player_id in each.hand.player_ids]),
        _array([account for each in opened for account in each.accounts]),
        _array([chips for each in opened for chips in each.hand.carried]),
    )


_SETTLE: Final = """
SELECT ledger.settle_hands($1::text::text[], $2, $3, $4::text::bigint[], $5::text::ledger.transfer_kind[],
  $6::text::bigint[], $7::text::bigint[], $8::text::bigint[], $9::text::bigint[], $10::text::bigint[],
  $11::text::bigint[],
  $12::text::int[], $13::text::bigint[], $14::text::ledger.unit[], $15::text::ledger.transfer_kind[],
  $16::text::bigint[])
"""

# What a system account's transfers are called.
_LEG_KINDS: Final = {RAKE: "rake", FLEE: "flee", ISSUANCE: "win"}


async def write_settled(connection: Connection, settled: Sequence[Settled], news: Sequence[bytes]) -> None:
    """Everything that settlements change, in one call."""
    ends = [_end(each.hand) for each in settled]
    legs = [leg for each in settled for leg in each.legs]
    await connection.execute(
        _SETTLE,
        _texts([each.hand.hand_id for each in settled]),
        [end.record for end in ends],
        news,
        _array([account for each in settled for account in each.accounts]),
        _words([kind for each in settled for kind in kinds(each)]),
        _array([chips for end in ends for chips in end.balance_before]),
        _array([chips for end in ends for chips in end.chips]),
        _array([chips for end in ends for chips in end.rake]),
        _array([end.flee_chips for end in ends]),
        _array([rating for end in ends for rating in end.rating_before]),
        _array([rating for end in ends for rating in end.rating]),
        _array([number for number, each in enumerate(settled, 1) for _ in each.legs]),
        _array([leg.account for leg in legs]),
        _words([leg.unit for leg in legs]),
        _words([_LEG_KINDS[leg.account] for leg in legs]),
        _array([leg.amount for leg in legs]),
    )


async def write_voided(connection: Connection, voided: Sequence[Voided]) -> None:
    """Closes hands without moving a chip."""
    ends = [_end(each.hand) for each in voided]
    await connection.execute(
        "SELECT ledger.void_hands($1, $2, $3::text::bigint[], $4::text::bigint[], $5::text::bigint[])",
        [each.hand.hand_id for each in voided],
        [each.reason for each in voided],
        _array([account for each in voided for account in each.accounts]),
        _array([chips for end in ends for chips in end.balance_before]),
        _array([rating for end in ends for rating in end.rating_before]),
    )


async def write_traces(connection: Connection, traceparents: Mapping[str, str]) -> None:
    """Has news that this transaction tells, by their keys, name a trace."""
    await connection.execute("SELECT ledger.trace_news($1, $2)", list(traceparents.keys()), list(traceparents.values()))


_REVERSE: Final = """
SELECT ledger.reverse_hand($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
  $13::text::bigint[], $14::text::ledger.unit[], $15::text::bigint[])
"""


async def write_reversed(connection: Connection, reversal: Reversed, news: bytes) -> None:
    """A reversal, with its transfers."""
    await connection.execute(
        _REVERSE,
        reversal.hand_id,
        reversal_key(reversal.hand_id),
        reversal.operator,
        reversal.reason,
        reversal.accounts,
        reversal.chips,
        reversal.rating,
        reversal.chips_after,
        reversal.rating_after,
        reversal.shortage_chips,
        reversal.shortage_rating,
        news,
        _array([leg.account for leg in reversal.legs]),
        _words([leg.unit for leg in reversal.legs]),
        _array([leg.amount for leg in reversal.legs]),
    )


async def write_given(connection: Connection, given: Sequence[Given], news: Sequence[bytes]) -> None:
    """Grants, with their transfers."""
    await connection.execute(
        "SELECT ledger.grant_chips($1, $2, $3, $4::text::ledger.transfer_kind[], $5, $6, $7, $8, $9, $10)",
        [each.key for each in given],
        [each.player_id for each in given],
        [each.account for each in given],
        _words([each.kind for each in given]),
        [each.chips for each in given],
        [each.chips_after for each in given],
        [each.rating_after for each in given],
        [each.relief_day for each in given],
        [each.relief_number for each in given],
        news,
    )


# Arrays go as text: asyncpg examines every element of a list that it encodes, and for a batch of settlements that was
# most of our time.


def _array(values: Sequence[int]) -> str:
    """An array literal of numbers."""
    return "{" + str(values)[1:-1] + "}"


def _words(values: Sequence[str]) -> str:
    """An array literal of words without special characters."""
    return "{" + ",".join(values) + "}"


def _texts(values: Sequence[str]) -> str:
    """An array literal of any texts."""
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", r"\\").replace('"', r"\"") for value in values)
    return '{"' + joined + '"}' if values else "{}"


def _end(hand: Hand) -> End:
    assert hand.end is not None
    return hand.end
