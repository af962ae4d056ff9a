"""The certificates that a stack makes for itself: its door's, and those that processes show each other."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.local.keys import secret_file
from servicekit import tls

GATEWAY: Final = "gateway"
OPERATOR: Final = "operator"  # the person who runs the stack

_DOOR_LIFE: Final = datetime.timedelta(days=90)
_INSIDE_LIFE: Final = datetime.timedelta(days=365)
_RENEW_BEFORE: Final = datetime.timedelta(days=7)


def door(chain: Path, key_file: Path) -> None:
    """Makes a certificate for localhost, signed by itself; leaves one that is valid for a week yet."""
    if chain.exists() and key_file.exists():
        known = x509.load_pem_x509_certificate(chain.read_bytes())
        if known.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > _RENEW_BEFORE:
            return
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("ddz development")
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    draft = _draft(name, name, key, _DOOR_LIFE).add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    _write(_as_authority(draft).sign(key, hashes.SHA256()), key, chain, key_file)


def inside(folder: Path, processes: Iterable[str]) -> None:
    """Makes what mTLS between processes needs: `ca.pem`, and for each process a `<name>.pem` and a `<name>.key`.

    All is new at each start, and the authority's own key is never written: nobody can sign one certificate more.
    """
    folder.mkdir(exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _name("ddz inside")
    draft = _as_authority(_draft(authority, authority, authority_key, _INSIDE_LIFE))
    (folder / "ca.pem").write_bytes(_pem(draft.sign(authority_key, hashes.SHA256())))
    for process in processes:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        leaf = (
            _draft(_name(process), authority, key, _INSIDE_LIFE)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(tls.NAME)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        _write(leaf.sign(authority_key, hashes.SHA256()), key, folder / f"{process}.pem", folder / f"{process}.key")


def settings(folder: Path, process: str) -> dict[str, str]:
    """What a process is told of the certificates that `inside` made in `folder`."""
    files = {"DDZ_TLS_CERT": f"{process}.pem", "DDZ_TLS_KEY": f"{process}.key", "DDZ_TLS_CA": "ca.pem"}
    return {name: str(folder / file) for name, file in files.items()}


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + life)
    )


def _as_authority(draft: x509.CertificateBuilder) -> x509.CertificateBuilder:
    return draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, chain: Path, key_file: Path) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret_file(key_file, key.private_bytes(*form).decode())
    chain.write_bytes(_pem(certificate))
