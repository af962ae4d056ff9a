"""The gateway of a local stack: its keys, its certificate and its finished configuration, in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.envoy import page, render
from deploy.local import certificates, keys
from deploy.local.folders import ROOT
from servicekit import tls

TEMPLATE = ROOT / "deploy" / "envoy" / "envoy.yaml"
DESCRIPTORS = ROOT / "build" / "ddz.binpb"
PAGE = ROOT / "deploy" / "web"


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the gateway: token buckets for calls and log-ins, and how many connections there may be."""

    player_per_s: int = 50
    player_burst: int = 100
    address_per_s: int = 2_000  # a whole school may have one address
    address_burst: int = 4_000
    login_per_s: int = 20  # from one address
    login_burst: int = 60
    connections: int = 20_000  # from everywhere


@dataclass(frozen=True, slots=True)
class Trust:
    """Certificates of the gateway's: for those outside, and for the processes inside."""

    chain: Path | None = None  # PEM, its own certificate first; None = one for development, made at start
    key: Path | None = None
    inside: Path | None = None  # the folder of deploy.local.certificates.inside; None = no TLS between processes


@dataclass(frozen=True, slots=True)
class Doors:
    """The ports on which the gateway listens, and what it shows there and inside."""

    plain: int
    tls: int
    metrics: int
    trust: Trust = Trust()


def prepare(folder: Path, doors: Doors, services: Mapping[str, Sequence[int]], limits: Limits) -> Path:
    """Writes all that Envoy reads; `services` gives the ports of each service's nodes. Returns the configuration."""
    folder.mkdir(exist_ok=True)
    keys.token_keys(private_keys(folder), folder / "jwks.json")
    certificate, certificate_key = doors.trust.chain, doors.trust.key
    if certificate is None or certificate_key is None:
        certificate, certificate_key = folder / "certificate.pem", folder / "certificate.key"
        certificates.door(certificate, certificate_key)
    values = {
        "admin_socket": str(folder / "admin.sock"),
        "access_log": str(folder / "access.log"),
        "jwks": str(folder / "jwks.json"),
        "certificate": str(certificate),
        "certificate_key": str(certificate_key),
        "collector": [],
        "traced_percent": 0,
        "inside": _transport(doors.trust.inside),
        "descriptors": str(DESCRIPTORS),
        "listen_host": "127.0.0.1",
        "plain_port": doors.plain,
        "tls_port": doors.tls,
        "metrics_port": doors.metrics,
        "page": page.routes(PAGE),
        "allowed_origins": r"https?://(localhost|127\.0\.0\.1)(:\d+)?",
        "player_per_s": limits.player_per_s,
        "player_burst": limits.player_burst,
        "address_per_s": limits.address_per_s,
        "address_burst": limits.address_burst,
        "login_per_s": limits.login_per_s,
        "login_burst": limits.login_burst,
        "connections": limits.connections,
        "answer_headers": page.answer_headers(strict_transport=doors.trust.chain is not None),
    }
    nodes = {name: render.endpoints([("127.0.0.1", port) for port in found]) for name, found in services.items()}
    path = folder / "envoy.json"
    path.write_text(json.dumps(render.render(TEMPLATE, values | nodes), indent=1))
    return path


def _transport(inside: Path | None) -> dict[str, Any]:
    if inside is None:
        return render.plain()
    told = certificates.settings(inside, certificates.GATEWAY)
    return render.mutual_tls(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"], tls.NAME)


def private_keys(folder: Path) -> Path:
    """The file that the lobby signs tokens with."""
    return folder / "signing-keys.json"
