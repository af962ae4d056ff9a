"""Backup and restore of the points, the records and the accounts: the database, by Postgres's own pg_dump.

Live tables, queues and news (Redis, NATS) are not in it. A hand that is open in a backup is void after a restore, by
rule: no chip has moved. Tables and news that are younger than the backup are put aside, as the ledger knows nothing
of them.
"""

from __future__ import annotations

import datetime
import gzip
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.local import lasting, ports, servers
from deploy.local.leash import Leash
from deploy.local.process import StackError

_RESTORING: Final = f"{servers.DATABASE}_restoring"
_YOUNGER: Final = ("valkey", "nats")
_DUMP: Final = ("pg_dump", "--format=custom", "--compress=none")
_RESTORE: Final = ("pg_restore", "--exit-on-error", "--single-transaction")


def dump(postgres: servers.Cluster, file: Path) -> None:
    """Writes the database as it is at one moment, while it goes on; whole or not at all, for its owner's eyes only.

    The file is pg_dump's own format within gzip, whose sum tells a file that was torn: pg_restore would not.
    Raises StackError when it cannot.
    """
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            with tempfile.TemporaryFile() as dumped, gzip.open(output, "wb", compresslevel=6) as packed:
                _run(postgres, [*_DUMP, f"--dbname={servers.DATABASE}"], output=dumped.fileno())
                dumped.seek(0)
                shutil.copyfileobj(dumped, packed)
            output.flush()
            os.fsync(output.fileno())
        unfinished.rename(file)
    except OSError as error:
        raise StackError(f"{file} cannot be written: {error.strerror}.") from None
    finally:
        unfinished.unlink(missing_ok=True)


def load(postgres: servers.Cluster, file: Path) -> None:
    """Puts what `dump` wrote in the place of the database; that stays as it is when the file cannot be restored.

    Nobody may be connected to the database. Raises StackError.
    """
    with tempfile.TemporaryFile() as dumped:
        try:
            with gzip.open(file, "rb") as packed:
                shutil.copyfileobj(packed, dumped)
        except (OSError, EOFError, zlib.error) as error:
            raise StackError(f"{file} is not whole: {error}.") from None
        dumped.seek(0)
        postgres.psql(f"DROP DATABASE IF EXISTS {_RESTORING}")
        postgres.psql(f"CREATE DATABASE {_RESTORING} OWNER ddz_owner")
        _run(postgres, [*_RESTORE, f"--dbname={_RESTORING}"], given=dumped.fileno())
    postgres.psql(f"DROP DATABASE {servers.DATABASE}")
    postgres.psql(f"ALTER DATABASE {_RESTORING} RENAME TO {servers.DATABASE}")
    postgres.prepare()


def _run(
    postgres: servers.Cluster, command: Sequence[str], *, given: int = subprocess.DEVNULL, output: int = subprocess.PIPE
) -> None:
    argv = [str(postgres.bin / command[0]), *command[1:]]
    done = subprocess.run(
        argv, stdin=given, stdout=output, stderr=subprocess.PIPE, env=postgres.environment(), check=False
    )
    if done.returncode:
        raise StackError(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()}")


def backup(folder: Path, file: Path | None) -> Path:
    """Backs up the stack in `folder`, whether it runs or not; without `file` into a new one there. Returns the file."""
    now = datetime.datetime.now(datetime.UTC)
    file = file or folder / "backups" / f"ddz-{now:%Y%m%dT%H%M%SZ}.dump.gz"
    if lasting.runs(folder):
        dump(servers.running_postgres(folder / "postgres"), file)
        return file
    if not (folder / "postgres" / "data").exists():
        raise StackError(f"There is nothing to back up in {folder}.")
    with Leash() as leash, servers.postgres(leash, folder / "postgres", ports.free(1)[0]) as postgres:
        dump(postgres, file)
    return file


def restore(folder: Path, file: Path) -> list[Path]:
    """Makes the database of the stack in `folder` what it was in `file`; the stack must not run.

    Returns where live tables and news younger than the backup were put. Raises StackError.
    """
    if not os.access(file, os.R_OK):
        raise StackError(f"{file} cannot be read.")
    if lasting.runs(folder):
        raise StackError("The stack runs: `make down` first.")
    with Leash() as leash, servers.postgres(leash, folder / "postgres", ports.free(1)[0]) as postgres:
        load(postgres, file)
    now = datetime.datetime.now(datetime.UTC)
    present = [folder / name for name in _YOUNGER if (folder / name).exists()]
    return [path.rename(folder / f"{path.name}.before-{now:%Y%m%dT%H%M%SZ}") for path in present]
