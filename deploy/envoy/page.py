"""The browser's page as routes of the gateway: each file of deploy/web with its type and what a browser may do with it.

The gateway answers these itself (direct_response), so that no file server stands behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
# Nothing but the page's own files, nothing inline, and no text that becomes markup.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# For all else that the gateway says: nothing of it is a page, and nothing of it may be kept.
_ELSEWHERE: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-site",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_YEAR_S: Final = 365 * 86_400


def answer_headers(*, strict_transport: bool) -> list[dict[str, Any]]:
    """Envoy's mutations that add to an answer the headers that it does not have yet.

    `strict_transport`: browsers shall come by TLS alone from now on. Not with a certificate for development: they would
    remember it for every other server on localhost.
    """
    headers = _ELSEWHERE | ({"strict-transport-security": f"max-age={_YEAR_S}"} if strict_transport else {})
    return [{"append": _header(key, value, "ADD_IF_ABSENT")} for key, value in headers.items()]


def _header(key: str, value: str, action: str) -> dict[str, Any]:
    return {"header": {"key": key, "value": value}, "append_action": action}


def routes(folder: Path) -> list[dict[str, Any]]:
    """One route for each file, in the order of their paths; `/` is index.html.

    Raises KeyError for a file of a type that is not known here: it would be served without a type.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [_route(f"/{path.relative_to(folder).as_posix()}".removesuffix("index.html"), path) for path in files]


def _route(address: str, path: Path) -> dict[str, Any]:
    headers = {"content-type": TYPES[path.suffix], **_HEADERS}
    return {
        "match": {"path": address, "headers": [{"name": ":method", "string_match": {"exact": "GET"}}]},
        "direct_response": {"status": 200, "body": {"filename": str(path)}},
        "response_headers_to_add": [
            _header(key, value, "OVERWRITE_IF_EXISTS_OR_ADD") for key, value in headers.items()
        ],
    }
