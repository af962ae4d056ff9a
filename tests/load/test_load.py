"""`make load`: what it refuses, how its figures add up, and a short load of all kinds of people on the real system."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddz.table.v1 import events_pb2, table_pb2
from tests.load.__main__ import main
from tests.load.meter import Meter, Times
from tests.load.people import Sleeper
from tests.load.plan import Kind, Mix, PlanError, check_address
from tests.load.thresholds import verdicts

HERE = Path(__file__).parent
DURATIONS = st.lists(st.floats(0.1, 60_000), min_size=1)


@given(DURATIONS, st.floats(0.01, 1.0))
def test_a_quantile_is_right_to_five_percent(durations_ms: list[float], share: float) -> None:
    times = Times()
    for ms in durations_ms:
        times.add(ms)
    rank = next(rank for rank in range(1, len(durations_ms) + 1) if rank >= share * len(durations_ms))
    exact = sorted(durations_ms)[rank - 1]
    assert exact * 0.999 <= times.quantile_ms(share) <= exact * 1.051


@given(DURATIONS, DURATIONS)
def test_meters_add_up_over_processes(one: list[float], other: list[float]) -> None:
    whole, left, right = Meter(), Meter(), Meter()
    for meter, durations in ((left, one), (right, other)):
        for ms in durations:
            for each in (whole, meter):
                each.time("act", ms / 1000)
                each.count("error:X")
    left.merge(Meter.from_json(json.loads(json.dumps(right.to_json()))))
    assert left == whole
    assert left.of("error") == {"X": len(one) + len(other)}


@pytest.mark.parametrize("address", ["8.8.8.8:443", "192.168.1.1:80", "[2001:db8::1]:443"])
def test_what_is_not_this_machine_is_refused_unless_it_is_said_to_be_ones_own(address: str) -> None:
    with pytest.raises(PlanError, match="--i-own-this"):
        check_address(address, mine=False)
    check_address(address, mine=True)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1"])
def test_this_machine_is_not_refused(address: str) -> None:
    check_address(address, mine=False)


@pytest.mark.parametrize("address", ["127.0.0.1", "host:port", ":80", "127.0.0.1:99999999999"])
def test_what_is_no_address_is_one_sentence(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--at", address]) == 1
    assert capfd.readouterr().err.count(".\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("people: {player: 1, ghost: 1}", "people names 'ghost'"),
        ("people: {player: 0}", "the weights of people are all 0"),
        ("people: {player: x}", "player is a number from 0 on, not 'x'"),
        ("people: {player: 1}\nrooms: []", "rooms gives a weight for each name"),
        ("people: {player: 1}\nrooms: {a: 1}\nthink_median_s: -1", "think_median_s is a number from 0 on, not -1"),
        ("[1", "cannot be read"),
        ("1", "a list of fields is wanted"),
    ],
)
def test_a_bad_mix_names_its_field(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "mix.yaml").write_text(text)
    with pytest.raises(PlanError, match=sentence):
        Mix.load(tmp_path / "mix.yaml")


def test_the_mix_that_comes_with_it_brings_everybody() -> None:
    assert set(Mix.load(HERE / "mix.yaml").people) == set(Kind)


def test_a_sleeper_readies_himself_and_lets_his_clocks_run_out() -> None:
    slept: list[str] = []
    sleeper = Sleeper(lambda: slept.append(state.hand_id))
    seat = events_pb2.SeatView()
    state = events_pb2.Snapshot(
        hand_id="t-1", clock=events_pb2.Clock(phase=events_pb2.PHASE_READY), seats=[seat, seat, seat]
    )
    assert sleeper.answer(state) == table_pb2.Ready(ready=True)
    for phase in (events_pb2.PHASE_SEED, events_pb2.PHASE_BID, events_pb2.PHASE_PLAY):
        state.clock.phase = phase
        assert sleeper.answer(state) is None
    assert not slept
    for hand_id in ("t-1", "t-1", "t-2"):
        state.hand_id, state.seats[0].trustee = hand_id, True
        assert sleeper.answer(state) is None
    assert slept == ["t-1", "t-2"]
    state.clock.phase = events_pb2.PHASE_READY
    assert sleeper.answer(state) == table_pb2.Trustee(on=False), "he is back for the next hand"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("speed: {at_most: 1}", "there is no figure 'speed'; there are hands"),
        ("hands: {below: 1}", "hands has at_most or at_least"),
        ("hands: 5", "hands has at_most or at_least"),
    ],
)
def test_a_bad_threshold_names_its_figure(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "limits.yaml").write_text(text)
    with pytest.raises(PlanError, match=sentence):
        verdicts(tmp_path / "limits.yaml", {"hands": 3})


def test_thresholds_hold_or_break(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("hands: {at_least: 3, at_most: 3}\nact_p99_ms: {at_most: 9.5}")
    assert [one.ok for one in verdicts(tmp_path / "limits.yaml", {"hands": 3, "act_p99_ms": 9.6})] == [
        True,
        True,
        False,
    ]


def test_nobody_there_is_a_run_that_breaks_its_thresholds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        at = f"--at=127.0.0.1:{taken.getsockname()[1]}"
        argv = [at, "--people=1", "--ramp=0", "--hold=1", "--down=0", f"--report={tmp_path / 'report.html'}"]
        assert main([*argv, f"--thresholds={HERE / 'thresholds.yaml'}"]) == 1
    told = capfd.readouterr()
    found = json.loads(told.out.splitlines()[-1])
    assert found["ok"] is False
    assert found["errors"] == {"Unreachable": 1}
    assert "broken: hands is 0" in told.err


def test_all_kinds_of_people_play_on_the_real_system(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.html"
    argv = ["--people=24", "--processes=2", "--ramp=1", "--hold=6", "--down=1", "--pace=flat-out", f"--report={report}"]
    (tmp_path / "mix.yaml").write_text(
        "people: {player: 12, reconnector: 3, fleer: 3, observer: 3, idle: 3}\n"
        "rooms: {classic-beginner: 1, happy-beginner: 1, rob-beginner: 1}\nthink_median_s: 1\nthink_longest_s: 1\n"
    )
    assert main([*argv, f"--mix={tmp_path / 'mix.yaml'}"]) == 0
    found = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert found["errors"] == {}
    assert found["hands"] > 0
    assert found["actions"] > 20
    assert found["lobby_news"] > 0
    page = report.read_text()
    assert page.count("<svg") == 4
    assert "24 people" in page
