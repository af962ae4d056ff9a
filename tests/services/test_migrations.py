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
