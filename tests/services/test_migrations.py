"""Migrations: forward only, once each, and a service that is ahead of its schema does not start."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from deploy.local.servers import Postgres
from servicekit import migrations
from services.lobby import store

_numbers = itertools.count(1)


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[str]:
    name = f"migrations_{next(_numbers)}"
    postgres.psql(f"CREATE DATABASE {name} OWNER ddz_owner")
    yield name
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE shop.one (n int); GRANT USAGE ON SCHEMA shop TO ddz_ledger;")
    (tmp_path / "0002_two.sql").write_text("INSERT INTO shop.one VALUES (1); INSERT INTO shop.one VALUES (2);")
    return tmp_path


async def count(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM shop.one"))
    finally:
        await connection.close()


async def check(dsn: str, folder: Path) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await migrations.check(connection, folder, "shop")
    finally:
        await connection.close()


async def test_each_runs_once(postgres: Postgres, database: str, folder: Path) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    assert await migrations.apply(dsn, folder, "shop") == ["0001_one.sql", "0002_two.sql"]
    assert await migrations.apply(dsn, folder, "shop") == []
    assert await count(dsn) == 2


async def test_several_at_once_run_it_once(postgres: Postgres, database: str, folder: Path) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    ran = await asyncio.gather(*(migrations.apply(dsn, folder, "shop") for _ in range(4)))
    assert sorted(name for names in ran for name in names) == ["0001_one.sql", "0002_two.sql"]
    assert await count(dsn) == 2


async def test_one_that_fails_leaves_nothing(postgres: Postgres, database: str, folder: Path) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    (folder / "0003_bad.sql").write_text("INSERT INTO shop.one VALUES (3); SELECT 1 / 0;")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrations.apply(dsn, folder, "shop")
    assert await count(dsn) == 2
    (folder / "0003_bad.sql").write_text("INSERT INTO shop.one VALUES (3);")
    assert await migrations.apply(dsn, folder, "shop") == ["0003_bad.sql"]


INDEX = "DROP INDEX CONCURRENTLY IF EXISTS shop.one_n;\n\nCREATE UNIQUE INDEX CONCURRENTLY one_n ON shop.one (n);\n"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{}')"


async def test_one_in_no_transaction_is_run_again_from_its_beginning(
    postgres: Postgres, database: str, folder: Path
) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    (folder / "0003_index.sql").write_text(f"-- no transaction\n{INDEX}")
    with (folder / "0002_two.sql").open("a") as two:
        two.write("INSERT INTO shop.one VALUES (2);")
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrations.apply(dsn, folder, "shop")
    assert postgres.psql(VALID.format("shop.one_n"), database).strip() == "f"
    postgres.psql("DELETE FROM shop.one WHERE n = 2", database)
    assert await migrations.apply(dsn, folder, "shop") == ["0003_index.sql"]
    assert postgres.psql(VALID.format("shop.one_n"), database).strip() == "t"
    assert await migrations.apply(dsn, folder, "shop") == []


async def test_who_waits_for_others_keeps_no_index_from_being_built(
    postgres: Postgres, database: str, folder: Path
) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    (folder / "0003_index.sql").write_text(f"-- no transaction\n{INDEX}")
    ran = await asyncio.gather(*(migrations.apply(dsn, folder, "shop") for _ in range(4)))
    assert sorted(name for names in ran for name in names) == ["0001_one.sql", "0002_two.sql", "0003_index.sql"]


async def test_a_lobby_whose_0004_built_the_index_itself_goes_on(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    for path in migrations.files(store.MIGRATIONS)[:3]:
        (tmp_path / path.name).write_text(path.read_text())
    now = (store.MIGRATIONS / "0004_operators.sql").read_text()
    index = "CREATE INDEX account_sanctioned ON lobby.account (sanctioned_at) WHERE sanctioned_at IS NOT NULL;\n"
    lines = [
        line for line in now.splitlines(keepends=True) if not line.startswith(("--\n", "-- It built", "-- formerly"))
    ]
    lines.insert(lines.index("\n", 3), index)
    (tmp_path / "0004_operators.sql").write_text("".join(lines))
    await migrations.apply(dsn, tmp_path, store.SCHEMA)
    newer = ["0005_sanctioned.sql", "0006_expired_sessions.sql"]
    assert await migrations.apply(dsn, store.MIGRATIONS, store.SCHEMA) == newer
    for made in ("account_sanctioned_at", "session_expires_at"):
        assert postgres.psql(VALID.format(f"lobby.{made}"), database).strip() == "t"


async def test_one_that_was_changed_is_refused(postgres: Postgres, database: str, folder: Path) -> None:
    dsn = postgres.dsn("ddz_owner", database)
    await migrations.apply(dsn, folder, "shop")
    (folder / "0002_two.sql").write_text("SELECT 1;")
    with pytest.raises(migrations.MigrationError, match=r"0002_two\.sql has run with another content"):
        await migrations.apply(dsn, folder, "shop")


async def test_a_schema_behind_is_named_with_the_command(postgres: Postgres, database: str, folder: Path) -> None:
    service = postgres.dsn("ddz_ledger", database)
    with pytest.raises(migrations.SchemaBehind, match=r"0001_one\.sql, 0002_two\.sql: run `python -m services\.shop"):
        await check(service, folder)
    await migrations.apply(postgres.dsn("ddz_owner", database), folder, "shop")
    await check(service, folder)
    (folder / "0003_next.sql").write_text("SELECT 1;")
    with pytest.raises(migrations.SchemaBehind, match=r"lacks 0003_next\.sql"):
        await check(service, folder)


async def test_a_newer_schema_is_fine(postgres: Postgres, database: str, folder: Path) -> None:
    await migrations.apply(postgres.dsn("ddz_owner", database), folder, "shop")
    (folder / "0002_two.sql").unlink()
    await check(postgres.dsn("ddz_ledger", database), folder)


def test_a_name_without_a_number_is_refused(folder: Path) -> None:
    (folder / "later.sql").write_text("SELECT 1;")
    with pytest.raises(migrations.MigrationError, match=r"later\.sql is not named like"):
        migrations.files(folder)
