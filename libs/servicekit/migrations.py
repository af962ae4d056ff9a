"""Forward-only migrations: numbered SQL files, each in a transaction of its own, each run once.

    <folder>/0001_accounts.sql, 0002_functions.sql, ...

A file whose first line is `-- no transaction` holds statements that can be in none, such as CREATE INDEX CONCURRENTLY,
with an empty line between any two. They run one by one, and all of them again when one has failed.

They run as the owner of the schema. The service's own role may read only which of them have run, through the function
`<schema>.applied_migrations()`, and refuses to start when one of its files is missing there.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import asyncpg

_NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
_SCHEMA = re.compile(r"[a-z][a-z0-9_]*")

# The same number for every schema: two schemas wait for each other at most for the time of one migration.
_LOCK = 0x64647A
_LOCK_PAUSE_S = 0.1

_ALONE = "-- no transaction\n"
# A file that was changed after it had run somewhere names its digest of then: what it did there is right still.
_FORMERLY = re.compile(r"^-- formerly ([0-9a-f]{64})$", re.MULTILINE)

_PREPARE = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.migrations (
  name text PRIMARY KEY,
  sha256 text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE OR REPLACE FUNCTION {schema}.applied_migrations() RETURNS SETOF text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS 'SELECT name FROM {schema}.migrations ORDER BY name';
"""


class SchemaBehind(OSError):
    """The database lacks migrations of this service: it cannot start. An OSError, as a server that is not there is."""


class MigrationError(Exception):
    """The folder and the database contradict each other; the message is one sentence."""


def files(folder: Path) -> list[Path]:
    """The migrations of a folder in their order; raises MigrationError at a name that is none."""
    found = sorted(path for path in folder.iterdir() if path.suffix == ".sql")
    for path in found:
        if not _NAME.fullmatch(path.name):
            raise MigrationError(f"{path.name} is not named like 0001_what_it_does.sql.")
    return found


async def apply(dsn: str, folder: Path, schema: str) -> list[str]:
    """Runs what has not run yet, as the role of `dsn`; returns the names that ran now.

    Several at once wait for each other. Raises MigrationError when a file that has run was changed since.
    """
    assert _SCHEMA.fullmatch(schema), schema
    connection = await asyncpg.connect(dsn)
    try:
        # Waiting in a statement would hold a snapshot, for whose end an index that is built CONCURRENTLY would wait.
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):  # noqa: ASYNC110, in Postgres
            await asyncio.sleep(_LOCK_PAUSE_S)
        await connection.execute(_PREPARE.format(schema=schema))
        known = dict(await connection.fetch(f"SELECT name, sha256 FROM {schema}.migrations"))
        return [name for name, text in _texts(folder) if await _run(connection, name, text, schema, known)]
    finally:
        await connection.close()


def _texts(folder: Path) -> list[tuple[str, str]]:
    return [(path.name, path.read_text(encoding="utf-8")) for path in files(folder)]


async def _run(connection: asyncpg.Connection, name: str, text: str, schema: str, known: dict[str, str]) -> bool:
    """Runs one file unless it has run; whether it ran."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    if name in known:
        if known[name] not in (digest, *_FORMERLY.findall(text)):
            raise MigrationError(f"{name} has run with another content: write a new migration instead.")
        return False
    ran = f"INSERT INTO {schema}.migrations (name, sha256) VALUES ($1, $2)"
    if text.startswith(_ALONE):
        for statement in text.split("\n\n"):
            await connection.execute(statement)
        await connection.execute(ran, name, digest)
        return True
    async with connection.transaction():
        await connection.execute(text)
        await connection.execute(ran, name, digest)
    return True


async def check(connection: Any, folder: Path, schema: str) -> None:
    """Raises SchemaBehind, with the command to run, when a migration of the folder has not run.

    `connection`: a connection or a pool. Migrations that only the database knows are fine: a newer release put them
    there, and during a rolling deploy the older one goes on beside it.
    """
    assert _SCHEMA.fullmatch(schema), schema
    try:
        rows = await connection.fetch(f"SELECT name FROM {schema}.applied_migrations() AS name")
    except (asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError, asyncpg.InsufficientPrivilegeError):
        rows = []
    missing = [path.name for path in files(folder) if path.name not in {row["name"] for row in rows}]
    if missing:
        raise SchemaBehind(
            f"The schema {schema} lacks {', '.join(missing)}: run `python -m services.{schema} migrate` "
            "with DDZ_POSTGRES_OWNER_DSN set."
        )
