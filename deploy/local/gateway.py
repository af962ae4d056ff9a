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
    """Of the gateway: token buckets for calls and log-ins, connections, and how long asking and answering may take."""

    player_per_s: int = 50
    player_burst: int = 100
    address_per_s: int = 2_000  # a whole school may have one address
    address_burst: int = 4_000
    login_per_s: int = 20  # from one address
    login_burst: int = 60
    connections: int = 20_000  # from everywhere
    answer_s: int = 5  # of a service, but for the lobby, which looks at passwords
    headers_s: int = 10  # for who sends slowly
    request_s: int = 20


@dataclass(frozen=True, slots=True)
class Traces:
    """Where the gateway's spans go, as those of the services do (DDZ_OTLP_ENDPOINT, DDZ_TRACE_RATIO)."""

    collector: tuple[str, int] | None = None  # host and port, OTLP by gRPC; None = nobody is told
    ratio: float = 1.0

    def settings(self) -> dict[str, str]:
        """What the services are told of the same."""
        where = "" if self.collector is None else f"{self.collector[0]}:{self.collector[1]}"
        return {"DDZ_OTLP_ENDPOINT": where, "DDZ_TRACE_RATIO": str(self.ratio)}


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
    traces: Traces = Traces()


@dataclass(frozen=True, slots=True)
class Files:
    """What Envoy reads and writes, by the paths that it knows them by."""

    certificate: Path
    certificate_key: Path
    descriptors: Path
    page: Path
    admin_socket: Path
    access_log: Path


def prepare(
    folder: Path, doors: Doors, services: Mapping[str, Sequence[int]], limits: Limits, *, keys_cache_s: int = 60
) -> Path:
    """Writes all that Envoy reads; `services` gives the ports of each service's nodes. Returns the configuration.

    `keys_cache_s`: how long the gateway goes by the lobby's keys before it asks for them again.
    """
    folder.mkdir(exist_ok=True)
    keys.token_keys(private_keys(folder))
    certificate, certificate_key = doors.trust.chain, doors.trust.key
    if certificate is None or certificate_key is None:
        certificate, certificate_key = folder / "certificate.pem", folder / "certificate.key"
        certificates.door(certificate, certificate_key)
    files = Files(certificate, certificate_key, DESCRIPTORS, PAGE, folder / "admin.sock", folder / "access.log")
    nodes = {name: [("127.0.0.1", port) for port in found] for name, found in services.items()}
    path = folder / "envoy.json"
    path.write_text(configuration(files, doors, nodes, limits, keys_cache_s=keys_cache_s))
    return path


def configuration(
    files: Files,
    doors: Doors,
    services: Mapping[str, Sequence[tuple[str, int]]],
    limits: Limits,
    *,
    host: str = "127.0.0.1",
    keys_cache_s: int = 60,
) -> str:
    """What Envoy reads, as JSON; `services` gives host and port of each service's nodes, `host` where to listen."""
    values = {
        "admin_socket": str(files.admin_socket),
        "access_log": str(files.access_log),
        "keys_cache": f"{keys_cache_s}s",
        "certificate": str(files.certificate),
        "certificate_key": str(files.certificate_key),
        "collector": render.endpoints([doors.traces.collector] if doors.traces.collector else []),
        "traced_percent": 100 * doors.traces.ratio if doors.traces.collector else 0,
        "inside": _transport(doors.trust.inside),
        "descriptors": str(files.descriptors),
        "listen_host": host,
        "plain_port": doors.plain,
        "tls_port": doors.tls,
        "metrics_port": doors.metrics,
        "page": page.routes(files.page),
        "allowed_origins": r"https?://(localhost|127\.0\.0\.1)(:\d+)?",
        "player_per_s": limits.player_per_s,
        "player_burst": limits.player_burst,
        "address_per_s": limits.address_per_s,
        "address_burst": limits.address_burst,
        "login_per_s": limits.login_per_s,
        "login_burst": limits.login_burst,
        "connections": limits.connections,
        "answer": f"{limits.answer_s}s",
        "whole_headers": f"{limits.headers_s}s",
        "whole_request": f"{limits.request_s}s",
        "answer_headers": page.answer_headers(strict_transport=doors.trust.chain is not None),
    }
    nodes = {name: render.endpoints(list(found)) for name, found in services.items()}
    return json.dumps(render.render(TEMPLATE, values | nodes), indent=1)


def _transport(inside: Path | None) -> dict[str, Any]:
    if inside is None:
        return render.plain()
    told = certificates.settings(inside, certificates.GATEWAY)
    return render.mutual_tls(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"], tls.NAME)


def private_keys(folder: Path) -> Path:
    """The file that the lobby signs tokens with."""
    return folder / "signing-keys.json"
