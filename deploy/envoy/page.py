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
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in headers.items()
        ],
    }
