"""The secrets that a stack makes for itself: the key that signs tokens, and a certificate for development."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import secrets
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_CERTIFICATE_LIFE = datetime.timedelta(days=90)


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


def certificate(chain: Path, key_file: Path) -> None:
    """Makes a certificate for localhost, signed by itself; leaves one that is valid for a week yet."""
    now = datetime.datetime.now(datetime.UTC)
    if chain.exists() and key_file.exists():
        known = x509.load_pem_x509_certificate(chain.read_bytes())
        if known.not_valid_after_utc - now > datetime.timedelta(days=7):
            return
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ddz development")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _CERTIFICATE_LIFE)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    secret_file(key_file, text)
    chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
