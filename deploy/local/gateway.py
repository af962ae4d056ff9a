"""The gateway of a local stack: its keys, its certificate and its finished configuration, in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.envoy import page, render
from deploy.local import certificates, keys
from deploy.local.folders import ROOT

TEMPLATE = ROOT / "deploy" / "envoy" / "envoy.yaml"
DESCRIPTORS = ROOT / "build" / "ddz.binpb"
PAGE = ROOT / "deploy" / "web"


@dataclass(frozen=True, slots=True)
class Limits:
    """Token buckets of the gateway: calls of one player, log-ins from one address."""

    player_per_s: int = 50
    player_burst: int = 100
    address_per_s: int = 20
    address_burst: int = 60


@dataclass(frozen=True, slots=True)
class Doors:
    """The ports on which the gateway listens."""

    plain: int
    tls: int
    metrics: int


def prepare(folder: Path, doors: Doors, services: Mapping[str, Sequence[int]], limits: Limits) -> Path:
    """Writes all that Envoy reads; `services` gives the ports of each service's nodes. Returns the configuration."""
    folder.mkdir(exist_ok=True)
    keys.token_keys(private_keys(folder), folder / "jwks.json")
    certificate, certificate_key = folder / "certificate.pem", folder / "certificate.key"
    certificates.door(certificate, certificate_key)
    values = {
        "admin_socket": str(folder / "admin.sock"),
        "access_log": str(folder / "access.log"),
        "jwks": str(folder / "jwks.json"),
        "certificate": str(certificate),
        "certificate_key": str(certificate_key),
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
    }
    nodes = {name: render.endpoints([("127.0.0.1", port) for port in found]) for name, found in services.items()}
    path = folder / "envoy.json"
    path.write_text(json.dumps(render.render(TEMPLATE, values | nodes), indent=1))
    return path


def private_keys(folder: Path) -> Path:
    """The file that the lobby signs tokens with."""
    return folder / "signing-keys.json"
