"""Tokens: access is a JWT (ES256) that the gateway checks by the public keys; refresh is a random text, kept hashed.

The keys file is a private JWK set. Access tokens are signed with the first key; the gateway takes every key of the
public set, which it reads at its start alone, so it is told of a new key before that signs (docs/operations.md).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from pathlib import Path
from typing import Any, Final

import jwt

from servicekit import logs
from servicekit.identity import encode_name
from services.lobby.account import Account

ISSUER: Final = "ddz-lobby"
AUDIENCE: Final = "ddz"
ALGORITHM: Final = "ES256"

log = logs.get("tokens")

_PUBLIC_MEMBERS: Final = ("kty", "crv", "x", "y", "kid", "alg", "use")


class KeysError(OSError):
    """The keys file cannot be used; the message is one sentence. An OSError: the process cannot start."""


class Tokens:
    """Signs access tokens. Raises KeysError when the keys file cannot be used at the start.

    It is read again when it changes, so that keys rotate without a restart; a bad one is logged, and the key stays.
    """

    def __init__(self, keys_file: Path, access_s: int) -> None:
        self._path = keys_file
        self._access_s = access_s
        self._stamp = keys_file.stat().st_mtime_ns if keys_file.exists() else 0
        self._key = _newest(keys_file)

    def access(self, account: Account) -> tuple[str, int]:
        """A token for the account and when it runs out (milliseconds since the epoch)."""
        self._refresh_key()
        now = int(time.time())
        expires = now + self._access_s
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": account.player_id,
            "iat": now,
            "exp": expires,
            "jti": secrets.token_urlsafe(9),
            "name": encode_name(account.display_name),
            "avatar": account.avatar_id,
            "bot": account.bot,
        }
        return jwt.encode(claims, self._key.key, algorithm=ALGORITHM, headers={"kid": self._key.key_id}), expires * 1000

    def _refresh_key(self) -> None:
        stamp = self._path.stat().st_mtime_ns if self._path.exists() else self._stamp
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._key = _newest(self._path)
        except KeysError as error:
            log.error("keys file refused", extra={"why": str(error)})


def public_set(keys_file: Path) -> dict[str, Any]:
    """The public JWK set of a keys file, for the gateway; raises KeysError."""
    return {"keys": [{name: key[name] for name in _PUBLIC_MEMBERS if name in key} for key in _read(keys_file)]}


def new_refresh() -> str:
    """A refresh token of 256 random bits."""
    return secrets.token_urlsafe(32)


def new_salt() -> bytes:
    """What a successor is made of besides the token."""
    return secrets.token_bytes(32)


def successor(refresh_token: str, salt: bytes) -> str:
    """The refresh token that follows on another one: the same for the same salt."""
    made = hmac.digest(salt, refresh_token.encode(), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def digest(secret: str) -> bytes:
    """What is kept of a random secret (a refresh token, a device key): its SHA-256."""
    return hashlib.sha256(secret.encode()).digest()


def _newest(path: Path) -> jwt.PyJWK:
    key = _read(path)[0]
    if not key.get("kid") or key.get("crv") != "P-256" or "d" not in key:
        raise KeysError(f"{path}: its first key must be a private EC key on P-256 with a kid.")
    try:
        return jwt.PyJWK(key, ALGORITHM)
    except jwt.PyJWTError as error:
        raise KeysError(f"{path}: its first key cannot be used: {error}.") from None


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        keys = json.loads(path.read_text(encoding="utf-8"))["keys"]
    except OSError as error:
        raise KeysError(f"The keys file {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise KeysError(f"The keys file {path} is no JWK set.") from None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise KeysError(f"The keys file {path} holds no key.")
    return keys
