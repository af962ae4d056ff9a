"""How a command comes to a server: its address, its certificate, and the key that makes this device's guest."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Final

from ddzclient.cli.words import sorry
from ddzclient.client import LOCAL_GATEWAY, Gateway
from doudizhu.refusal import Refusal

_LEAST_KEY: Final = 16  # characters, as the servers want it
_GUEST: Final = re.compile(r"[\w-]{1,32}", re.ASCII)


class NoDoor(Exception):
    """A file that is needed cannot be used; the sentence says which and why."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say where the server is."""
    parser.add_argument(
        "--server", "--gateway", default=LOCAL_GATEWAY, metavar="HOST:PORT",
        help=f"the server's gateway (default {LOCAL_GATEWAY}, where `make up` listens)",
    )  # fmt: skip
    parser.add_argument("--tls", action="store_true", help="the server speaks TLS, by a certificate the system knows")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="TLS, by a certificate that this PEM file vouches for")


def configure_guest(parser: argparse.ArgumentParser) -> None:
    """Adds which of this device's guests one is."""
    parser.add_argument(
        "--guest", default="me", type=_guest, metavar="NAME",
        help="which of this device's guests you are (default me); each is another player",
    )  # fmt: skip


def _guest(text: str) -> str:
    if not _GUEST.fullmatch(text):
        raise argparse.ArgumentTypeError("1 to 32 letters, digits, - or _")
    return text


def gateway(arguments: argparse.Namespace) -> Gateway:
    """The connection that the arguments ask for; raises NoDoor for a certificate that cannot be read."""
    roots = None
    if arguments.ca is not None:
        try:
            roots = arguments.ca.read_bytes()
        except OSError as error:
            raise NoDoor(f"{arguments.ca}: {error.strerror}") from None
        if b"-----BEGIN CERTIFICATE-----" not in roots:
            raise NoDoor(f"{arguments.ca}: it holds no certificate in PEM")
    return Gateway(arguments.server, tls=arguments.tls, root_certificates=roots)


def failed(command: str, arguments: argparse.Namespace, error: Exception) -> int:
    """Says why a command could not go on, and what the error notes; the exit status: 1 when the servers have refused,
    2 otherwise.
    """
    where = "" if isinstance(error, NoDoor) else f"{arguments.server}: "
    print(f"ddz {command}: {where}{sorry(error)}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
    return 1 if isinstance(error, Refusal) else 2


def device_key(server: str, guest: str) -> str:
    """The key of a guest at a server, made at first: a file that its owner alone may read (0600). Raises NoDoor.

    Each server gets a key of its own: it is the guest's password, and no server needs to know that of another.
    """
    path = _keys() / f"{re.sub(r'[^A-Za-z0-9.-]', '_', server)}.{guest}.key"
    try:
        if not path.exists():
            _write(path, secrets.token_hex(32))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoDoor(f"{path}: {getattr(error, 'strerror', None) or 'it is no key'}") from None
    if len(key) < _LEAST_KEY:
        raise NoDoor(f"{path}: it is no key; without the file a new guest is made")
    return key


def _keys() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ddz"


def _write(path: Path, key: str) -> None:
    """Whole or not at all, and only once: of two that begin together one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{key}\n")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
