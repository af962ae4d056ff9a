"""The `ddz` command and the example bot as a person meets them: one sentence where something is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddzclient import LOCAL_GATEWAY
from deploy.local import ports
from deploy.local.__main__ import DEFAULT_PORT
from deploy.local.folders import ROOT

LINE = '{"book": "rob", "cards": "33"}'


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell in which $DDZ is the command."""
    script = f'DDZ="{sys.executable} -m ddzclient.cli"; {command}'
    return subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("$DDZ rules readings <&-", 2, "ddz rules: there is no standard input to read lines from.\n"),
        (f"echo '{LINE}' | $DDZ rules readings >/dev/full", 1, "ddz rules: No space left on device.\n"),
        (f"echo '{LINE}' | $DDZ rules readings >&-", 2, "ddz: there is no standard output to write to.\n"),
        (
            "DDZ_LEDGER_TARGET= $DDZ admin audit",
            2,
            "Where is the ledger? Give --ledger host:port, or set DDZ_LEDGER_TARGET.\n",
        ),
        ("$DDZ verify - <&-", 2, "-: cannot be read: there is no standard input\n"),
        ("$DDZ verify /no/such", 2, "/no/such: cannot be read: No such file or directory\n"),
        ("$DDZ verify none.json", 2, "none.json: cannot be read: No such file or directory\n"),
        ("$DDZ verify ./deploy", 2, "./deploy: cannot be read: Is a directory\n"),
        ("echo '{' | $DDZ verify -", 2, "-: cannot be read: it is not JSON\n"),
        ("echo 5 | $DDZ verify -", 2, "-: cannot be read: it is not a JSON object\n"),
        ("printf '\\377' | $DDZ verify -", 2, "-: cannot be read: it is not JSON\n"),
    ],
)
def test_what_cannot_be_read_or_written_is_one_sentence(command: str, status: int, said: str) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr, done.stdout) == (status, said, "")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = shell(f"yes '{LINE}' | head -50000 | $DDZ rules readings | head -1")
    assert (done.stdout, done.stderr) == ('{"readings": [["pair", "3", 1]]}\n', "")


@pytest.mark.parametrize(("arguments", "said"), [("", "required: command"), ("nonsense", "invalid choice: 'nonsense'")])
def test_a_command_that_is_missing_or_unknown(arguments: str, said: str) -> None:
    done = shell(f"$DDZ {arguments}")
    assert done.returncode == 2
    assert said in done.stderr


def test_the_client_asks_where_make_up_listens() -> None:
    assert f"127.0.0.1:{DEFAULT_PORT}" == LOCAL_GATEWAY
    assert f":{DEFAULT_PORT}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert LOCAL_GATEWAY in shell("$DDZ verify --help").stdout


def test_the_readme_shows_the_example_bot_as_it_is() -> None:
    bot = (ROOT / "docs" / "example_bot.py").read_text(encoding="utf-8")
    assert f"```python\n{bot}```\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_bot_says_where_nobody_answers() -> None:
    address = f"127.0.0.1:{ports.free(1)[0]}"
    done = subprocess.run(
        [sys.executable, "docs/example_bot.py", address],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"No game at {address}: ")
    assert done.stderr.count("\n") == 1
