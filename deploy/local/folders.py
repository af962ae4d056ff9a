"""Where a stack keeps its files: in the project when everybody concerned can reach it, else in the temp folder."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from deploy.local import account
from deploy.local.process import StackError

ROOT: Final = Path(__file__).resolve().parents[2]

# The gateway's admin socket lies three names deeper, and a socket's path has at most 103 bytes on macOS.
_LONGEST_PATH = 75


def _suits(folder: Path) -> bool:
    return len(os.fsencode(folder)) <= _LONGEST_PATH and account.reaches(account.unprivileged(), folder)


def _temp() -> Path:
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if Path(place).is_dir() and _suits(Path(place)):
            return Path(place)
    raise StackError(f"{tempfile.gettempdir()} cannot hold the stack's files: set TMPDIR to a folder all may enter.")


def scratch() -> Path:
    """A new folder, for a stack that is thrown away."""
    folder = Path(tempfile.mkdtemp(prefix="ddz-", dir=_temp()))
    folder.chmod(0o755)
    return folder


def lasting(wanted: Path | None) -> Path:
    """The folder of `make up`, made when missing: `wanted`, or one of our choice that is always the same.

    Raises StackError when it cannot be used.
    """
    name = f"ddz-{os.getuid()}-{hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:12]}"
    for folder in [wanted.absolute()] if wanted else [ROOT / ".run" / "local", _temp() / name]:
        _make_ours(folder)
        if _suits(folder):
            return folder
    raise StackError(f"{wanted} cannot hold the stack's files: its path is too long, or not everybody may enter it.")


def _make_ours(folder: Path) -> None:
    """Makes the folder, or checks that it is ours to use."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise StackError(f"{folder} belongs to another user: remove it or run as its owner.")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise StackError(f"{folder} cannot be read and written: give yourself the rights to it.")
    except OSError as error:
        raise StackError(f"{folder} cannot be used: {error.strerror}.") from None
