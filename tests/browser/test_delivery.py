"""The gateway serves every file of the page, and says what a browser may do with it."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import pytest

from deploy.envoy import page
from deploy.local.folders import ROOT
from deploy.local.stack import Stack

WEB = ROOT / "deploy" / "web"
FILES = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*") if path.is_file())


def get(stack: Stack, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(stack.address, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_as_what_it_is(stack: Stack, name: str) -> None:
    status, headers, body = get(stack, "/" if name == "index.html" else f"/{name}")
    assert status == 200
    assert body == (WEB / name).read_bytes()
    assert headers["content-type"] == page.TYPES[(WEB / name).suffix]
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path", ["/index.html", "/app", "/app/", "/app/none.js", "/../envoy.yaml", "/app/%2e%2e/index.html"]
)
def test_nothing_else_is_served(stack: Stack, path: str) -> None:
    assert get(stack, path)[0] in (400, 404)


def test_a_file_of_an_unknown_type_is_not_served_without_one(tmp_path: Path) -> None:
    (tmp_path / "song.mp3").write_bytes(b"")
    with pytest.raises(KeyError, match="mp3"):
        page.routes(tmp_path)


def test_the_page_is_only_to_be_read(stack: Stack) -> None:
    assert get(stack, "/", "POST")[0] == 404


def test_the_page_has_nothing_inline_and_makes_no_markup_of_text() -> None:
    html = (WEB / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", html) == []
    unsafe = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    scripts = list(WEB.rglob("*.js"))
    assert [path.name for path in scripts if unsafe.search(path.read_text())] == []
    assert {path.name: lines for path in scripts if (lines := path.read_text().count("\n")) > 400} == {}
