"""The reference of the API says something of every call, and each of its lines for curl does what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from ddz.common.v1.common_pb2 import Reason
from deploy.local.folders import ROOT
from deploy.local.stack import Stack
from deploy.reference import __main__ as reference
from deploy.reference.pages import PAGES, Reference
from servicekit.errors import STATUS

FOLDER = reference.PAGES
WITH_CURL = ("lobby", "matchmaking", "table", "ledger", "admin")
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"  # (\d{3})$")
# Every call of curl writes the head of its answer to a file of its own, whatever becomes of its output.
_CURL = 'curl() { command curl --silent --max-time 20 --dump-header "$HEADS/$LINE" "$@"; }'


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorSet:
    path = tmp_path_factory.mktemp("image") / "image.binpb"
    subprocess.run([sys.executable, ROOT / "proto" / "generate.py", "--image", path], check=True)
    return FileDescriptorSet.FromString(path.read_bytes())


def test_every_call_is_described(image: FileDescriptorSet) -> None:
    rpcs = list(Reference(image).rpcs())
    assert len(rpcs) > 30
    assert [rpc.name for rpc in rpcs if not rpc.prose or not rpc.callers] == []
    outside = [rpc for rpc in rpcs if not rpc.service.endswith("InternalService")]
    assert [rpc.name for rpc in outside if not rpc.rest] == ["TableService.Play"]
    assert {rpc.name for rpc in outside if rpc.callers.startswith("anybody")} == {
        f"LobbyService.{name}" for name in ("Login", "Register", "Refresh", "ListKeys")
    }
    pages = Reference(image).pages()
    for rpc in rpcs:
        assert any(f"### {rpc.method.name}\n" in pages[f"{page}.md"] for page in PAGES)


def test_every_reason_has_its_statuses_and_a_meaning(image: FileDescriptorSet) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| `(\w+)` \| (\d{3}) \| (.+) \|$", Reference(image).pages()["errors.md"], re.M
    )
    assert (
        {row[0] for row in rows}
        == set(STATUS)
        == {name.removeprefix("REASON_") for name in Reason.DESCRIPTOR.values_by_name} - {"UNSPECIFIED"}
    )
    for name, number, status, _, meaning in rows:
        assert (Reason.Value(f"REASON_{name}"), STATUS[name].name) == (int(number), status)
        assert meaning.strip()


def test_units_and_ranges_come_from_names_and_rules(image: FileDescriptorSet) -> None:
    pages = Reference(image).pages()
    assert "| `playMs` | number | ms | at least 0 | any later turn |" in pages["common.md"]
    assert "| `settledAtMs` | text of an int64 | ms since the epoch |  |  |" in pages["ledger.md"]
    assert "| `cards` | list of number |  | 1 to 20 items, each 0 to 53 |  |" in pages["common.md"]
    assert '| `unit` | text |  | "" or "rating" or "chips" | empty = rating |' in pages["ledger.md"]
    assert "One of `guest`, `password`.\n" in pages["lobby.md"]


def test_a_page_that_is_not_what_the_protos_say_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "PAGES", tmp_path)
    (tmp_path / "one.md").write_text("as it is")
    assert reference.stale({"one.md": "as it is"}) == []
    assert reference.stale({"one.md": "otherwise", "two.md": ""}) == ["one.md", "two.md"]
    assert reference.stale({}) == ["one.md"]


@pytest.mark.parametrize("page", WITH_CURL)
def test_curl_is_answered_as_documented(stack: Stack, tmp_path: Path, page: str) -> None:
    if not shutil.which("curl") or not shutil.which("bash"):
        pytest.skip("no curl or no bash on this machine")
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    script = [f"HEADS={tmp_path}", _CURL]
    for number, line in enumerate(lines):
        script += [f"LINE={number}", line.replace("127.0.0.1:24080", stack.address)]
    done = subprocess.run(
        ["bash", "-u"], input="\n".join([*script, "true"]), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answered = {number: status_of(tmp_path / str(number)) for number in range(len(lines))}
    documented = {number: int(found[1]) for number, line in enumerate(lines) if (found := _STATUS.search(line))}
    assert len(documented) >= 4
    wrong = [(lines[number], answered[number]) for number in documented if answered[number] != documented[number]]
    assert wrong == [], done.stdout[-2000:]


def status_of(head: Path) -> int:
    """The status of the answer whose head is in the file."""
    return int(head.read_text().split()[1]) if head.exists() else 0
