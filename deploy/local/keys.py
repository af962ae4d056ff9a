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


def token_keys(private: Path) -> None:
    """Makes a private JWK set with one ES256 key; leaves a set that is there."""
    if not private.exists():
        jwk: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)
        jwk |= {"kid": secrets.token_hex(8), "alg": "ES256", "use": "sig"}
        secret_file(private, json.dumps({"keys": [jwk]}))
