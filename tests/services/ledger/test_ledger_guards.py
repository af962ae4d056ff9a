"""Bad states are impossible in the database: what each role may not do, and what nobody may."""

from __future__ import annotations

import asyncpg
import pytest

from tests.services.ledger.harness import Database

TABLES = ("account", "transfer", "hand", "open_seat", "settlement", "granted", "reversal", "outbox", "migrations")
APPEND_ONLY = ("transfer", "hand", "settlement", "granted", "reversal")

TOUCHES = [
    statement.format(table=f"ledger.{table}")
    for table in TABLES
    for statement in (
        "SELECT * FROM {table}",
        "INSERT INTO {table} DEFAULT VALUES",
        "DELETE FROM {table}",
        "TRUNCATE {table} CASCADE",
        "ALTER TABLE {table} DISABLE TRIGGER ALL",
        "DROP TABLE {table} CASCADE",
        "SELECT FROM {table} FOR SHARE",
    )
]
FORBIDDEN = [
    *TOUCHES,
    "UPDATE ledger.account SET chips = chips + 1",
    "SELECT * FROM ledger.balance",
    "UPDATE ledger.transfer SET amount = 0",
    "UPDATE ledger.settlement SET voided = true",
    "SELECT nextval('ledger.system_seq')",
    "SELECT ledger.post('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "SELECT ledger.tell('ddz.hand.settled', '{}', '{}')",
    "SELECT ledger.close_seats('{}', '{}')",
    "ALTER FUNCTION ledger.check_transfers() OWNER TO CURRENT_USER",
    "CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TABLE ledger.mine (n int)",
    "CREATE TABLE public.mine (n int)",
    "CREATE SCHEMA mine",
    "SET session_replication_role = replica",
    "SET ROLE ddz_owner",
    "SET ROLE postgres",
    "COPY ledger.transfer TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('postgresql.conf')",
    "CREATE ROLE mine",
    "ALTER ROLE ddz_ledger SUPERUSER",
]


async def refused(dsn: str, statement: str) -> asyncpg.PostgresError:
    """What Postgres says to it; it must not succeed."""
    connection = await asyncpg.connect(dsn)
    try:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.execute(statement)
        return caught.value
    finally:
        await connection.close()


@pytest.mark.parametrize("role", ["ddz_ledger", "ddz_lobby"])
async def test_a_service_role_may_not_touch_the_tables(role: str, database: Database) -> None:
    connection = await asyncpg.connect(database.dsn(role))
    try:
        for statement in FORBIDDEN:
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.execute(statement)
            assert caught.value.sqlstate == "42501", (statement, caught.value)  # insufficient privilege
    finally:
        await connection.close()


async def test_the_lobby_may_not_even_call(database: Database) -> None:
    for call in ("ledger.balances('{p}')", "ledger.totals()", "ledger.lock_players('{p}')"):
        error = await refused(database.dsn("ddz_lobby"), f"SELECT * FROM {call}")
        assert isinstance(error, asyncpg.InsufficientPrivilegeError)


@pytest.mark.parametrize("table", APPEND_ONLY)
async def test_what_is_written_stays_even_for_the_owner(table: str, database: Database) -> None:
    columns = {"hand": "table_id = ''", "granted": "chips = 1", "reversal": "reason = ''"}
    change = columns.get(table, "at = now()")
    for statement in (
        f"UPDATE ledger.{table} SET {change}",
        f"DELETE FROM ledger.{table}",
        f"TRUNCATE ledger.{table} CASCADE",
    ):
        error = await refused(database.dsn("ddz_owner"), statement)
        assert isinstance(error, asyncpg.IntegrityConstraintViolationError), (statement, error)


PLAYERS = """
INSERT INTO ledger.account (account_id, kind, player_id, chips, chips_seq, rating, rating_seq)
VALUES (1001, 'player', 'ann', 10, 0, 10, 0), (1002, 'player', 'bea', 10, 0, 10, 0);
INSERT INTO ledger.hand VALUES ('h1', 't', '{ann,bea,cat}', '{0,0,0}', 0, now()),
                               ('h2', 't', '{ann,bea,cat}', '{0,0,0}', 0, now());
INSERT INTO ledger.open_seat VALUES (1001, 'h1');
INSERT INTO ledger.transfer VALUES (1001, 1, 5, 15, 0, now(), 'chips', 'gift', 'k0'),
                                   (3, 1, -5, NULL, 0, now(), 'chips', 'gift', 'k0');
"""


def transfers(*legs: tuple[int, int, int, int | None, str, str]) -> str:
    """Inserts legs of (account, seq, amount, balance after, unit, key) in one statement."""
    rows = (
        f"({account}, {seq}, {amount}, {'NULL' if after is None else after}, 0, now(), '{unit}', 'gift', '{key}')"
        for account, seq, amount, after, unit, key in legs
    )
    columns = "account_id, seq, amount, balance_after, rake, at, unit, kind, key"
    return f"INSERT INTO ledger.transfer ({columns}) VALUES {', '.join(rows)}"


def settlement(
    hand: str = "h1", before: str = "9,9,9", chips: str = "0,0,0", rake: str = "0,0,0", rating: str = "0,0,0",
    voided: bool = False, record: str | None = "'r'",
) -> str:  # fmt: skip
    """Inserts a settlement."""
    columns = "hand_id, at, voided, balance_before, chips, rake, flee_chips, rating_before, rating, void_reason, record"
    arrays = f"'{{{before}}}', '{{{chips}}}', '{{{rake}}}', 0, '{{0,0,0}}', '{{{rating}}}'"
    last = "'why', NULL" if voided else f"NULL, {record or 'NULL'}"
    return f"INSERT INTO ledger.settlement ({columns}) VALUES ('{hand}', now(), {voided}, {arrays}, {last})"


ANN, BEA, ISSUANCE, NOBODY = 1001, 1002, 3, 9999

BAD = {
    "chips below 0": (f"UPDATE ledger.account SET chips = -1 WHERE account_id = {ANN}", "chips_not_negative"),
    "rating below 0": (f"UPDATE ledger.account SET rating = -1 WHERE account_id = {ANN}", "rating_not_negative"),
    "a system account with a balance": (
        "UPDATE ledger.account SET chips = 5 WHERE account_id = 1",
        "players_have_balances",
    ),
    "a player without a balance": (
        f"UPDATE ledger.account SET rating = NULL WHERE account_id = {ANN}",
        "players_have_balances",
    ),
    "a second account of a player": (
        "INSERT INTO ledger.account (kind, player_id, chips, chips_seq, rating, rating_seq) "
        "VALUES ('player', 'ann', 0, 0, 0, 0)",
        "account_player_id_key",
    ),
    "an account that goes": (f"DELETE FROM ledger.account WHERE account_id = {BEA}", "not allowed"),
    "one leg alone": (transfers((ANN, 2, 5, 20, "chips", "k")), "not to 0"),
    "legs of two units that sum to 0 together": (
        transfers((ANN, 2, 5, 20, "chips", "k"), (ANN, 1, -5, 5, "rating", "k")),
        "not to 0",
    ),
    "legs of two keys that sum to 0 together": (
        transfers((ANN, 2, 5, 20, "chips", "k1"), (BEA, 1, -5, 5, "chips", "k2")),
        "not to 0",
    ),
    "a leg on an account that does not exist": (
        transfers((ANN, 2, 5, 20, "chips", "k"), (NOBODY, 1, -5, 5, "chips", "k")),
        "on no account",
    ),
    "a player's leg without its balance": (
        transfers((ANN, 2, 5, None, "chips", "k"), (ISSUANCE, 2, -5, None, "chips", "k")),
        "on no account",
    ),
    "a system account's leg with a balance": (
        transfers((ANN, 2, 5, 20, "chips", "k"), (ISSUANCE, 2, -5, 7, "chips", "k")),
        "on no account",
    ),
    "a seq twice": (
        transfers((ANN, 1, 5, 20, "chips", "k"), (ISSUANCE, 2, -5, None, "chips", "k")),
        "transfer_pkey",
    ),
    "a leg of nothing": (transfers((ANN, 2, 0, 15, "chips", "k")), "something_moves"),
    "a leg to below 0": (
        transfers((ANN, 2, -99, -84, "chips", "k"), (ISSUANCE, 2, 99, None, "chips", "k")),
        "balance_after_not_negative",
    ),
    "a player in two open hands": (f"INSERT INTO ledger.open_seat VALUES ({ANN}, 'h2')", "open_seat_pkey"),
    "a seat in a hand that was not opened": (f"INSERT INTO ledger.open_seat VALUES ({BEA}, 'h9')", "foreign key"),
    "a settlement of a hand that was not opened": (settlement(hand="h9"), "no hand h9 was opened"),
    "a settlement that does not sum to 0": (settlement(chips="2,-1,0"), "sums_to_zero"),
    "a rake that nobody paid": (settlement(chips="1,-1,0", rake="1,0,0"), "sums_to_zero"),
    "a settlement to below 0": (settlement(before="9,0,9", chips="1,-1,0"), "no_negative_balance"),
    "a rating to below 0": (settlement(rating="0,-1,0"), "no_negative_balance"),
    "a settlement of four seats": (settlement(chips="1,-1,0,0"), "by_seat"),
    "a void hand that moves chips": (settlement(chips="1,-1,0", voided=True), "settled_or_voided"),
    "a settlement without a record": (settlement(record=None), "settled_or_voided"),
    "a hand that is settled and voided": (settlement() + "; " + settlement(voided=True), "settlement_pkey"),
    "a gift of nothing": ("INSERT INTO ledger.granted VALUES ('k', 'ann', 'gift', 0, 0, 0, now())", "chips_check"),
    "a relief that is not counted": (
        "INSERT INTO ledger.granted VALUES ('k', 'ann', 'relief', 5, 5, 0, now())",
        "relief_is_counted",
    ),
    "the same relief twice": (
        "INSERT INTO ledger.granted VALUES ('k', 'ann', 'relief', 5, 5, 0, now(), '2026-01-01', 1), "
        "('l', 'ann', 'relief', 5, 5, 0, now(), '2026-01-01', 1)",
        "relief_once",
    ),
    "a reversal of what was not settled": (
        "INSERT INTO ledger.reversal VALUES ('h2', 'eve', '', '{0,0,0}', '{0,0,0}', '{0,0,0}', '{0,0,0}', 0, 0, now())",
        "foreign key",
    ),
}


@pytest.mark.parametrize("state", BAD)
async def test_a_bad_state_cannot_be_stored(state: str, database: Database) -> None:
    statement, sentence = BAD[state]
    connection = await asyncpg.connect(database.dsn("ddz_owner"))
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(PLAYERS)
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=sentence):
            await connection.execute(statement)
    finally:
        await transaction.rollback()
        await connection.close()
