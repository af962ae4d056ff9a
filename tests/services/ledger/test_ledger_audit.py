"""The audit finds nothing in a ledger that is in order, and every fault that is planted (BR-104)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import pytest

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from deploy.local.servers import Postgres
from services.ledger.audit import Report
from services.ledger.audit import audit as audit_ledger
from tests.services.ledger.harness import Database, fresh_name, make_database, serve
from tests.services.ledger.played import played
from tests.services.ledger.test_ledger_keys import seated, settle

BOOKS = ("classic", "happy", "rob")


@dataclass(frozen=True, slots=True)
class Filled:
    """A ledger with six settled hands, one voided, one open, one reversed; the id of each, and players by hand."""

    database: Database
    settled: list[str]
    voided: str
    open: str
    reversed: str
    players: dict[str, list[str]]


@pytest.fixture(scope="module")
async def filled(postgres: Postgres, nats: str) -> Filled:
    database, rng = await make_database(postgres), random.Random(5)
    hands = [f"m{number}-1" for number in range(9)]
    players: dict[str, list[str]] = {}
    async with serve(database, nats) as ledger:
        for number, hand_id in enumerate(hands):
            players[hand_id] = await seated(ledger, fresh_name)
            request = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players[hand_id], table_id=f"m{number}")
            await ledger.internal.OpenHand(request)
        for number, hand_id in enumerate(hands[:7]):
            book, flee_after = BOOKS[number % 3], 12 if number >= 4 else None
            record = played(rng, hand_id, players[hand_id], book=book, base=3, rake=4, flee_after=flee_after)
            await ledger.internal.Settle(settle(record))
        await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hands[7], reason="test"))
        await ledger.internal.Reverse(ledger_pb2.ReverseRequest(hand_id=hands[6], operator="eve", reason="test"))
        found = await ledger.internal.Audit(ledger_pb2.AuditRequest(open_limit_ms=3_600_000))
    assert list(found.faults) == []
    assert (found.hands_settled, found.hands_voided, found.hands_open, found.hands_reversed) == (7, 1, 1, 1)
    assert (found.chips_sum, found.rating_sum, found.negative_balances, found.records_checked) == (0, 0, 0, 7)
    return Filled(database, hands[:6], hands[7], hands[8], hands[6], players)


@pytest.fixture
async def copy(filled: Filled, fresh: Callable[[str], str]) -> AsyncIterator[Database]:
    """The same ledger, to spoil."""
    server, name = filled.database.server, fresh("ledger_copy").replace("-", "_")
    server.psql(f"CREATE DATABASE {name} TEMPLATE {filled.database.name}")
    yield Database(server, name)
    server.psql(f"DROP DATABASE {name} WITH (FORCE)")


async def audit(database: Database, since_ms: int = 0, *, records: bool = True) -> Report:
    connection = await asyncpg.connect(database.dsn())
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await audit_ledger(connection, since_ms, 3_600_000, records=records)
    finally:
        await connection.close()


async def test_records_are_checked_as_asked(filled: Filled) -> None:
    assert (await audit(filled.database, records=False)).records_checked == 0
    assert (await audit(filled.database, since_ms=4_000_000_000_000)).records_checked == 0


Plant = Callable[[asyncpg.Connection, Filled], Awaitable[None]]


def sql(statement: str) -> Plant:
    """A fault by one statement; {hand}, {voided}, {open}, {reversed} and {player} stand for ids."""

    async def plant(connection: asyncpg.Connection, filled: Filled) -> None:
        hand = filled.settled[0]
        await connection.execute(
            statement.format(
                hand=hand, voided=filled.voided, open=filled.open, reversed=filled.reversed,
                player=filled.players[hand][0],
            )
        )  # fmt: skip

    return plant


def record(change: Callable[[hand_pb2.HandRecord], object], hand: int = 0) -> Plant:
    """A fault in a stored record."""

    async def plant(connection: asyncpg.Connection, filled: Filled) -> None:
        hand_id = filled.settled[hand]
        stored = await connection.fetchval("SELECT record FROM ledger.settlement WHERE hand_id = $1", hand_id)
        altered = hand_pb2.HandRecord.FromString(stored)
        change(altered)
        await connection.execute(
            "UPDATE ledger.settlement SET record = $2 WHERE hand_id = $1", hand_id, altered.SerializeToString()
        )

    return plant


OF_PLAYER = "(SELECT account_id FROM ledger.account WHERE player_id = '{player}')"


def swap_actions(altered: hand_pb2.HandRecord) -> None:
    actions = list(altered.actions)
    actions[3], actions[4] = actions[4], actions[3]
    del altered.actions[:]
    altered.actions.extend(actions)


PLANTED: dict[str, tuple[Plant, str]] = {
    "chips out of nothing": (
        sql("UPDATE ledger.account SET chips = chips + 1 WHERE account_id = " + OF_PLAYER),
        "all accounts together hold 1 chips, not 0",
    ),
    "a balance that is not its transfers' sum": (
        sql("UPDATE ledger.account SET chips = chips + 1 WHERE account_id = " + OF_PLAYER),
        "but the transfers sum to",
    ),
    "a transfer that has gone": (
        sql("DELETE FROM ledger.transfer WHERE key = '{hand}' AND unit = 'chips' AND account_id = " + OF_PLAYER),
        "the transfers sum to",
    ),
    "a transfer of another amount": (
        sql("UPDATE ledger.transfer SET amount = 7 WHERE seq = 2 AND unit = 'chips' AND account_id = " + OF_PLAYER),
        "the chain of chips breaks at transfer 2",
    ),
    "a gap in a chain": (
        sql("UPDATE ledger.transfer SET seq = 9 WHERE seq = 2 AND unit = 'chips' AND account_id = " + OF_PLAYER),
        "the chain of chips breaks at transfer 9",
    ),
    "an account that counts wrongly": (
        sql("UPDATE ledger.account SET chips_seq = 9 WHERE account_id = " + OF_PLAYER),
        "counts 9 transfers, there are 2",
    ),
    "a transfer of another hand": (
        sql("UPDATE ledger.transfer SET key = 'm9-9' WHERE key = '{hand}'"),
        "m9-9: chips of",
    ),
    "a settlement other than its transfers": (
        sql("UPDATE ledger.settlement SET chips = ARRAY[chips[2], chips[1], chips[3]] WHERE hand_id = '{hand}'"),
        "should be",
    ),
    "a rake nobody booked": (
        sql("UPDATE ledger.transfer SET account_id = 3 WHERE account_id = 1 AND kind = 'rake' AND seq = "
            "(SELECT min(seq) FROM ledger.transfer WHERE account_id = 1)"),
        "chips of rake should be",
    ),
    "a grant without its transfer": (
        sql("INSERT INTO ledger.granted VALUES ('ghost', '{player}', 'gift', 5, 5, 0, now(), NULL, NULL)"),
        "ghost: chips of",
    ),
    "a reversal that did not move": (
        sql("DELETE FROM ledger.transfer WHERE key = 'reverse:{reversed}'"),
        "reverse:",
    ),
    "an open hand that seats two": (
        sql("DELETE FROM ledger.open_seat WHERE account_id = (SELECT min(account_id) FROM ledger.open_seat)"),
        "is open and seats 2 of its 3 players",
    ),
    "a hand that ended and seats somebody": (
        sql("INSERT INTO ledger.open_seat VALUES (" + OF_PLAYER + ", '{voided}')"),
        "has ended and still seats",
    ),
    "a settlement that was never opened": (
        sql("DELETE FROM ledger.hand WHERE hand_id = '{hand}'"),
        "has a settlement and was never opened",
    ),
    "a reversal of nothing": (
        sql("DELETE FROM ledger.settlement WHERE hand_id = '{reversed}'"),
        "was reversed and is not settled",
    ),
    "a hand that is open for days": (
        sql("UPDATE ledger.hand SET opened_at = now() - interval '2 days' WHERE hand_id = '{open}'"),
        "has been open since",
    ),
    "news that nobody relays": (
        sql("INSERT INTO ledger.outbox (subject, key, payload, at) "
            "VALUES ('ddz.account.changed', 'late', '', now() - interval '1 hour')"),
        "news of late (ddz.account.changed) wait since",
    ),
    "a record that cannot be read": (
        sql("UPDATE ledger.settlement SET record = 'x' WHERE hand_id = '{hand}'"), "the record cannot be read"
    ),
    "a record of another hand": (
        record(lambda altered: setattr(altered, "hand_id", "m9-9")), "the record is of another hand"
    ),
    "a record with another base": (
        record(lambda altered: setattr(altered, "base_chips", 4)), "the rules give chips"
    ),
    "a record with another rake": (
        record(lambda altered: setattr(altered.terms, "rake_chips", 1), hand=2), "the rules give chips"
    ),
    "a record with another multiplier": (
        record(lambda altered: setattr(altered.outcome, "multiplier", 9)), "do not lead to its outcome"
    ),
    "a record with another seed": (
        record(lambda altered: setattr(altered.actions[0].deal, "server_seed", bytes(32))),
        "is not the one that was committed to",
    ),
    "a record with another deal": (
        record(lambda altered: setattr(altered.actions[0].deal, "deal_id", "m9-9")), "the deal is 'm9-9'"
    ),
    "a record with actions out of turn": (record(swap_actions), "is against the rules"),
    "a record without its end": (record(lambda altered: altered.actions.pop()), "leave the hand in the phase"),
    "a record without an outcome": (
        record(lambda altered: altered.ClearField("outcome")), "the record cannot be settled"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
async def test_br_104_a_planted_fault_is_found(fault: str, filled: Filled, copy: Database) -> None:
    plant, sentence = PLANTED[fault]
    connection = await asyncpg.connect(copy.dsn("postgres"))
    try:
        await connection.execute("SET session_replication_role = replica")  # without triggers and foreign keys
        await plant(connection, filled)
    finally:
        await connection.close()
    faults = (await audit(copy)).faults
    assert any(sentence in each for each in faults), faults
