"""The simulated system: many seeds in which nothing may go wrong, and that a seed is the same run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections import Counter

import pytest

from tests.sim.system import __main__ as command
from tests.sim.system.__main__ import show
from tests.sim.system.mutations import MUTATIONS
from tests.sim.system.tables import Violation
from tests.sim.system.world import Report, simulate

SEEDS = 200
SHARES = 10  # the seeds are run in so many tests
HANDS = 1
_SAME = "from tests.sim.system.world import simulate; report = simulate(7, 3); print(report.digest, report.events)"


def run(seed: int, hands: int) -> Report:
    """A run in which nothing is wrong; what is wrong is shown with the last events."""
    report = simulate(seed, hands)
    if report.violation is not None:
        last = "\n".join(report.last)
        again = f"make sim SEED={seed} HANDS={hands}"
        cause = "".join(traceback.format_exception(report.violation.__cause__)) if report.violation.__cause__ else ""
        pytest.fail(f"seed {seed}: {report.violation}\n{last}\n{cause}\nsee it again: {again}")
    return report


@pytest.mark.parametrize("share", range(SHARES))
def test_hundreds_of_seeds_keep_what_players_are_promised(share: int) -> None:
    books, faults = Counter[str](), Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        report = run(seed, HANDS)
        assert report.hands >= HANDS
        books += report.books
        faults += report.faults
    assert set(books) == {"classic", "happy", "rob"}
    assert faults["process killed"]


def test_a_longer_run_meets_most_faults() -> None:
    report = run(1, 30)
    assert set(report.books) == {"classic", "happy", "rob"}
    assert {"won", "fled", "void"} <= set(report.ends)
    assert len(report.faults) > 10, sorted(report.faults)


def test_a_seed_is_the_same_run_again_whatever_the_order_of_sets() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _SAME],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for hash_seed in ("1", "2")
    }
    here = simulate(7, 3)
    assert found == {f"{here.digest} {here.events}\n"}
    assert simulate(8, 3).digest != here.digest


def test_a_failing_seed_fails_again_byte_for_byte_and_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    (leak,) = [mutation for mutation in MUTATIONS if mutation.name == "a view that leaks one card"]
    with leak.planted():
        one, other = simulate(5, 20), simulate(5, 20)
    assert one.violation is not None
    assert (str(one.violation), one.digest, one.last) == (str(other.violation), other.digest, other.last)
    show(one, 20)
    shown = capsys.readouterr().out
    assert str(one.violation) in shown
    assert one.last[-1] in shown
    assert "make sim SEED=5 HANDS=20" in shown


def test_several_processes_find_what_one_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "HANDS_A_RUN", 2)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(command, "CORES", cores)
        assert command.main(7, 5) == 0
        figures = json.loads(capsys.readouterr().out.splitlines()[-1])
        found.append({name: value for name, value in figures.items() if name not in ("cores", "hands_per_s")})
    assert found[0] == found[1]
    assert found[0]["runs"] == 3


def test_the_first_run_that_is_wrong_ends_it_and_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def planted(seed: int, hands: int) -> Report:
        return Report(seed, hands, violation=Violation("planted") if seed > 4 else None)

    monkeypatch.setattr(command, "CORES", 1)
    monkeypatch.setattr(command, "simulate", planted)
    assert command.main(4, 250) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "see it again: make sim SEED=5 HANDS=100" in lines
    assert json.loads(lines[-1])["runs"] == 2
    assert json.loads(lines[-1])["violation"] == "planted"
