"""What the audit after the chaos says of logs that are made by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.leash import Leash
from deploy.local.process import Process
from tests.chaos.acknowledged import ALWAYS_LOGGED, Acknowledged
from tests.chaos.table_audit import Logs, check_acknowledged, check_closed, faults_of_our_own


def logged(*commands: tuple[str, int]) -> Logs:
    """A log of table t with these commands of player p, and where each ends."""
    logs = Logs()
    for command_id, seq in commands:
        logs.commands["t", "p", command_id] += 1
        logs.ended_at["t", "p", command_id] = seq
    return logs


@pytest.mark.parametrize("action", sorted(ALWAYS_LOGGED))
def test_a_move_that_is_acknowledged_and_not_in_the_log_is_wrong(action: str) -> None:
    (told,) = check_acknowledged(logged(), [Acknowledged("t", "p", "c1", action, 7)])
    assert f"a {action}, was acknowledged at 7 and is not in its log" in told


@pytest.mark.parametrize("action", ["Ready", "Trustee", "AllowObservers", "Leave"])
def test_what_may_find_nothing_to_change_need_not_be_in_the_log(action: str) -> None:
    assert check_acknowledged(logged(), [Acknowledged("t", "p", "c1", action, 7)]) == []


def test_a_command_that_stands_twice_or_elsewhere_is_wrong() -> None:
    told = [Acknowledged("t", "p", "c1", "Bid", 4), Acknowledged("t", "p", "c2", "Bid", 6)]
    assert check_acknowledged(logged(("c1", 4), ("c2", 6)), told) == []
    (twice,) = check_acknowledged(logged(("c1", 4), ("c1", 4), ("c2", 6)), told)
    assert "stands 2 times" in twice
    (elsewhere,) = check_acknowledged(logged(("c1", 4), ("c2", 5)), told)
    assert "was acknowledged at 6 and stands at 5" in elsewhere


def test_a_table_that_has_not_closed_is_wrong() -> None:
    logs = Logs(closed={"a"})
    assert check_closed(logs, ["a", "b"]) == ["b has never closed"]


def test_a_fault_of_a_process_that_was_killed_is_told_by_the_one_after_it(tmp_path: Path) -> None:
    log = tmp_path / "table.log"
    with Leash() as leash:
        for line in ('{"level": "error", "message": "one"}', '{"level": "info", "message": "two"}'):
            life: subprocess.Popen[bytes] = leash.start(
                [sys.executable, "-c", f"print({line!r})"], log=log, cwd=tmp_path, env={}, user=None
            )
            life.wait()
    assert faults_of_our_own([Process("table", life, log)]) == ['table: {"level": "error", "message": "one"}']
