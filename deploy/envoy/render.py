"""Puts values into envoy.yaml: `$name` alone becomes the value, whatever its type; within a text, the value's text.

A list's item that is `...$name` stands for all items of the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

_NAME: Final = re.compile(r"\$([a-z_]+)")
_SPREAD: Final = re.compile(r"\.\.\.\$([a-z_]+)")


def endpoints(addresses: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Envoy's form of a list of (host, port)."""
    return [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}} for host, port in addresses
    ]


def plain() -> dict[str, Any]:
    """Envoy's form of a transport without TLS."""
    return _transport("raw_buffer", "raw_buffer.v3.RawBuffer", {})


def mutual_tls(certificate: str, key: str, authority: str, name: str) -> dict[str, Any]:
    """Envoy's form of mTLS with whoever has a certificate of `authority` with `name` in it; the rest are files."""
    own = {"certificate_chain": {"filename": certificate}, "private_key": {"filename": key}}
    names = [{"san_type": "DNS", "matcher": {"exact": name}}]
    common = {
        "alpn_protocols": ["h2"],
        "tls_certificates": [own],
        "validation_context": {"trusted_ca": {"filename": authority}, "match_typed_subject_alt_names": names},
    }
    return _transport("tls", "tls.v3.UpstreamTlsContext", {"sni": name, "common_tls_context": common})


def _transport(name: str, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    kind = f"type.googleapis.com/envoy.extensions.transport_sockets.{kind}"
    return {"name": f"envoy.transport_sockets.{name}", "typed_config": {"@type": kind, **settings}}


def render(template: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as a tree for json.dumps; raises KeyError that names a value which is missing."""
    tree = _fill(yaml.safe_load(template.read_text()), values)
    assert isinstance(tree, dict)
    return tree


def _fill(node: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(node, dict):
        return {key: _fill(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [filled for item in node for filled in _fill_item(item, values)]
    if isinstance(node, str):
        whole = _NAME.fullmatch(node)
        return values[whole[1]] if whole else _NAME.sub(lambda match: str(values[match[1]]), node)
    return node


def _fill_item(item: Any, values: Mapping[str, Any]) -> list[Any]:
    spread = _SPREAD.fullmatch(item) if isinstance(item, str) else None
    return list(values[spread[1]]) if spread else [_fill(item, values)]
