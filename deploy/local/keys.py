"""The secrets that a stack makes for itself: files that their owner alone can read, and the key that signs tokens."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec


def secret_file(path: Path, text: str) -> Path:
    """Writes a file that its owner alone can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def token_keys(private: Path, public: Path) -> None:
    """Makes a JWK set with one ES256 key, and its public half for the gateway; leaves a set that is there."""
    if not private.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        jwk = _jwk(key) | {"kid": secrets.token_hex(8), "alg": "ES256", "use": "sig"}
        secret_file(private, json.dumps({"keys": [jwk]}))
    keys: list[dict[str, Any]] = json.loads(private.read_text())["keys"]
    public.write_text(json.dumps({"keys": [{name: key[name] for name in key if name != "d"} for key in keys]}))


def _jwk(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return dict(jwt.algorithms.ECAlgorithm.to_jwk(key, as_dict=True))
