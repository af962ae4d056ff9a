"""Tokens: access is a JWT (ES256) that the gateway checks by the public keys; refresh is a random text, kept hashed.

The keys file is a private JWK set. Access tokens are signed with its first key; those of every key are good, for the
gateway asks for the public half of them all, about once a minute (docs/operations.md).
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
from servicekit.identity import OPERATOR, encode_name
from services.lobby.account import Account

ISSUER: Final = "ddz-lobby"
AUDIENCE: Final = "ddz"
ALGORITHM: Final = "ES256"

log = logs.get("tokens")

_PUBLIC_MEMBERS: Final[tuple[str, ...]] = ("kty", "crv", "x", "y", "kid", "alg", "use")


class KeysError(OSError):
    """The keys file cannot be used; the message is one sentence. An OSError: the process cannot start."""


class Tokens:
    """Signs access tokens. Raises KeysError when the keys file cannot be used at the start.

    It is read again when it changes, so that keys rotate without a restart; a bad one is logged, and the keys stay.
    """

    def __init__(self, keys_file: Path, access_s: int) -> None:
        self._path = keys_file
        self._access_s = access_s
        self._stamp = keys_file.stat().st_mtime_ns if keys_file.exists() else 0
        self._key, self._public = _load(keys_file)

    def access(self, account: Account, shown: str) -> tuple[str, int]:
        """A token for the account, under the name that others see, and when it runs out (ms since the epoch)."""
        self._follow_file()
        now = int(time.time())
        expires = now + self._access_s
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": account.player_id,
            "iat": now,
            "exp": expires,
            "jti": secrets.token_urlsafe(9),
            "name": encode_name(shown),
            "avatar": account.avatar_id,
            "bot": account.bot,
        }
        if account.operator:
            claims["role"] = OPERATOR
        return jwt.encode(claims, self._key.key, algorithm=ALGORITHM, headers={"kid": self._key.key_id}), expires * 1000

    def public(self) -> list[dict[str, str]]:
        """The public half of every key, as JWKs: what tokens are checked with."""
        self._follow_file()
        return self._public

    def _follow_file(self) -> None:
        stamp = self._path.stat().st_mtime_ns if self._path.exists() else self._stamp
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._key, self._public = _load(self._path)
        except KeysError as error:
            log.error("keys file refused", extra={"why": str(error)})


def public_set(keys_file: Path) -> dict[str, list[dict[str, str]]]:
    """The public JWK set of a keys file; raises KeysError."""
    return {"keys": _load(keys_file)[1]}


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


def _load(path: Path) -> tuple[jwt.PyJWK, list[dict[str, str]]]:
    """The key that signs, and the public half of all."""
    keys = _read(path)
    for key in keys:
        if not all(isinstance(key.get(name, ""), str) for name in _PUBLIC_MEMBERS):
            raise KeysError(f"{path}: a key has a member that is no text.")
        if not key.get("kid") or key.get("kty") != "EC" or key.get("crv") != "P-256":
            raise KeysError(f"{path}: every key must be an EC key on P-256 with a kid.")
    if len({key["kid"] for key in keys}) < len(keys):
        raise KeysError(f"{path}: two keys have one kid.")
    if "d" not in keys[0]:
        raise KeysError(f"{path}: its first key must be private, for it signs.")
    public: list[dict[str, str]] = [{name: key[name] for name in _PUBLIC_MEMBERS if name in key} for key in keys]
    try:
        for half in public:
            jwt.PyJWK(half, ALGORITHM)
        return jwt.PyJWK(keys[0], ALGORITHM), public
    except jwt.PyJWTError as error:
        raise KeysError(f"{path}: a key cannot be used: {error}.") from None


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
