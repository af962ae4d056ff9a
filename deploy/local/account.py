"""Who runs Postgres: it refuses root, so root starts it as somebody without rights, who must reach its files."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

from deploy.local.process import StackError

Account = tuple[int, int]  # uid, gid


def unprivileged() -> Account | None:
    """The account to start Postgres as; None when we are an ordinary user already."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    others = (entry for entry in known.values() if entry.pw_uid > 0)
    entry = known.get("nobody") or next(others, None)
    if entry is None:
        raise StackError("Postgres refuses to run as root, and there is no other account on this machine.")
    return entry.pw_uid, entry.pw_gid


def run_as(account: Account | None) -> dict[str, Any]:
    """Arguments of subprocess that make a program run as the account."""
    return {} if account is None else {"user": account[0], "group": account[1], "extra_groups": []}


def reaches(account: Account | None, folder: Path) -> bool:
    """Whether the account may enter the folder."""
    if account is None:
        return os.access(folder, os.X_OK)
    probe = ["/bin/sh", "-c", 'cd -- "$0" 2>/dev/null', str(folder)]
    return not subprocess.run(
        probe, cwd="/", user=account[0], group=account[1], extra_groups=[], check=False
    ).returncode


def readable(account: Account | None, package: Path, tree: str, copy: Path) -> Path:
    """`package`/`tree`; of a copy below `copy` when the account cannot read the wheel (in a home folder of root's).

    The programs find their libraries beside the package, so those are copied as well.
    """
    if all(reaches(account, package / tree / part) for part in ("bin", "lib", "share")):
        return package / tree
    if not copy.exists():
        partial = copy.with_name(f"{copy.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        unneeded = shutil.ignore_patterns("include", "__pycache__", "pginstall")
        shutil.copytree(package, partial / package.name, ignore=unneeded)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name)
        for path in (partial, *partial.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
        partial.rename(copy)
    return copy / package.name / tree
