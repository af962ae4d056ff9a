"""`make demo` as a person meets it: whole settled hands of every book through the gateway, the same for one seed.

That nothing outlives a demo that is killed is in tests/deploy/test_up.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import folders
from tests.deploy.processes import naming

HANDS = 3
_COLUMNS = (
    r"(?P<number>\d+)", "(?P<book>classic|happy|rob)", "seat [012]", "(?:landlord|farmers)", r"(?P<base>\d+)",
    r"(?P<level>[123])", r"(?P<multiplier>\d+).*", r"(?P<one>[+-]\d+)", r"(?P<two>[+-]\d+)", r"(?P<three>[+-]\d+)",
    r"(?P<rake>\d+)",
)  # fmt: skip
ROW = re.compile("^ " + " +".join(_COLUMNS) + " *$", re.MULTILINE)


def demo(temp: Path, seed: int) -> str:
    """What one demo prints; it must end well. Its files and processes can be told by `temp`."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.local", "demo", f"--hands={HANDS}", f"--seed={seed}"],
        cwd=folders.ROOT,
        env=os.environ | {"TMPDIR": str(temp), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=140,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_it_plays_every_book_with_right_books_and_a_seed_repeats_its_deals(scratch: Path) -> None:
    temp = scratch / "demo"
    temp.mkdir()
    first, again = demo(temp, seed=7), demo(temp, seed=7)
    rows = [found.groupdict() for found in ROW.finditer(first)]
    assert [row["book"] for row in rows] == ["classic", "happy", "rob"], first
    for row in rows:
        assert sum(int(row[name]) for name in ("one", "two", "three", "rake")) == 0
    audit = f"audit: {HANDS} hands played = {HANDS} hands settled, sum over all accounts 0, no negative balance"
    assert audit in first
    assert re.search("^deals [0-9a-f]{16}$", first, re.MULTILINE)
    assert hands_of(first) == hands_of(again)
    assert naming(temp) == []
    assert list(temp.iterdir()) == []


def hands_of(printed: str) -> str:
    return printed[printed.index("read back from the ledger") :]
