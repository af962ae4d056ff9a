"""`ddz top`: figures from two looks at the metrics, and what it says when there is nothing to look at."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from rich.console import Console

from ddzclient.cli import top
from ddzclient.cli.figures import duration, number, per_second, processes, sections
from ddzclient.cli.scrapes import Pair, Scrape, parse
from deploy.local import ports

BOUNDS = (0.1, 0.5, 1.0)


def pair(before: dict[str, str], after: dict[str, str], seconds: float = 10.0) -> Pair:
    """Two looks at processes whose texts are given by name."""
    one, two = ({name: parse(text) for name, text in look.items()} for look in (before, after))
    return Pair(Scrape(100.0, one), Scrape(100.0 + seconds, two))


def histogram(*seconds: float) -> str:
    """The text of a histogram that has taken these in."""
    counts = [f'ddz_x_seconds_bucket{{le="{bound}"}} {sum(s <= bound for s in seconds)}' for bound in BOUNDS]
    all_of_them = f'ddz_x_seconds_bucket{{le="+Inf"}} {len(seconds)}'
    return "\n".join([*counts, all_of_them, f"ddz_x_seconds_count {len(seconds)}", f"ddz_x_seconds_sum {sum(seconds)}"])


def test_rates_are_summed_over_processes_and_by_a_label() -> None:
    before = 'ddz_acts_total{kind="play",by="clock"} 5\nddz_acts_total{kind="pass",by="clock"} 1'
    after = 'ddz_acts_total{kind="play",by="clock"} 25\nddz_acts_total{kind="pass",by="clock"} 1'
    both = pair({"a": before, "b": before}, {"a": after, "b": after})
    assert both.rates("ddz_acts_total", "kind") == {"play": 4.0, "pass": 0.0}
    assert both.rate("ddz_acts_total", kind="play") == 4.0
    assert both.of("a").rate("ddz_acts_total", kind="play", by="clock") == 2.0
    assert both.rate("ddz_acts_total", kind="bid") == 0.0


def test_a_process_that_restarted_began_at_nothing_and_a_new_one_counts_from_its_first_look() -> None:
    found = pair({"a": "ddz_x_total 1000"}, {"a": "ddz_x_total 30", "b": "ddz_x_total 70"})
    assert found.rate("ddz_x_total") == 3.0


def test_a_gauge_is_summed_or_the_greatest() -> None:
    text = {"a": 'ddz_waiting{room="one"} 4', "b": 'ddz_waiting{room="one"} 6\nddz_waiting{room="two"} 1'}
    found = pair(text, text)
    assert found.level("ddz_waiting") == 11
    assert found.levels("ddz_waiting", "room", max) == {"one": 6, "two": 1}
    assert found.level("ddz_none") == 0


def test_a_quantile_is_what_prometheus_would_say() -> None:
    found = pair({"a": histogram()}, {"a": histogram(*[0.05] * 50, *[0.3] * 40, *[0.9] * 10)})
    assert found.quantile("ddz_x_seconds", 0.5) == pytest.approx(0.1)
    assert found.quantile("ddz_x_seconds", 0.7) == pytest.approx(0.3)
    assert found.quantile("ddz_x_seconds", 0.95) == pytest.approx(0.75)
    assert found.mean("ddz_x_seconds") == pytest.approx(0.235)
    assert pair({"a": histogram()}, {"a": histogram(7.0)}).quantile("ddz_x_seconds", 0.5) == 1.0
    assert math.isnan(pair({"a": histogram(1.0)}, {"a": histogram(1.0)}).quantile("ddz_x_seconds", 0.5))


@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=30), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_where_it_belongs(seconds: list[float], share: float) -> None:
    found = pair({"a": histogram()}, {"a": histogram(*seconds)}).quantile("ddz_x_seconds", share)
    exact = sorted(seconds)[max(math.ceil(share * len(seconds) - 1e-9), 1) - 1]
    lower, upper = next((low, high) for low, high in zip((0.0, *BOUNDS), BOUNDS, strict=False) if exact <= high)
    assert lower - 1e-6 <= found <= upper + 1e-6


def test_texts_are_short() -> None:
    assert [per_second(value) for value in (0, 0.254, 12.34, 1234.5)] == ["0", "0.25/s", "12.3/s", "1,234/s"]
    assert [duration(value) for value in (math.nan, 0.00042, 0.0123, 3.44)] == ["-", "0.42 ms", "12 ms", "3.4 s"]
    assert [number(value) for value in (math.nan, 1234)] == ["-", "1,234"]


def test_a_process_that_is_silent_or_lacks_a_server_is_seen() -> None:
    text = 'ddz_client_up{client="redis"} 0\nddz_client_up{client="nats"} 1\nprocess_cpu_seconds_total '
    found = pair({"table-1": text + "4"}, {"table-1": text + "9"})
    first, second = processes(found, ("table-1", "table-2"))
    assert (first.cpu, first.behind, first.well) == ("50 %", "redis away", False)
    assert (second.behind, second.well) == ("does not answer", False)


def test_the_boxes_hold_what_the_dashboards_show() -> None:
    before = 'ddz_table_hands_total{book="rob",result="fled"} 0\nddz_ledger_chips_total{flow="rake"} 0'
    after = 'ddz_table_hands_total{book="rob",result="fled"} 5\nddz_ledger_chips_total{flow="rake"} 100'
    boxes = {section.title: dict(section.rows) for section in sections(pair({"a": before}, {"a": after}))}
    titles = ["Edge", "Matchmaking", "Tables", "Hands", "Time, median and p99", "Ledger", "Chips a minute"]
    assert list(boxes) == titles
    assert (boxes["Hands"]["rob"], boxes["Hands"]["fled"]) == ("0.50/s", "0.50/s")
    assert boxes["Chips a minute"]["rake"] == "600"


@pytest.fixture
def address() -> Iterator[str]:
    """Where a process tells a few metrics."""
    registry = CollectorRegistry()
    Gauge("ddz_client_up", "Up", ["client"], registry=registry).labels("redis").set(1)
    Counter("ddz_refusals", "Refusals", registry=registry)
    Histogram("ddz_rpc_seconds", "Calls", ["code"], registry=registry).labels("OK").observe(1)
    port = ports.free(1)[0]
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    yield f"127.0.0.1:{port}"
    server.shutdown()
    server.server_close()
    thread.join()


def ddz_top(*words: str) -> int:
    parser = argparse.ArgumentParser()
    top.configure(parser)
    return top.run(parser.parse_args(list(words)))


def test_it_shows_a_stack_by_its_file(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stack.json").write_text(
        json.dumps({"addresses": {"REST": "http://127.0.0.1:1/", "metrics of table-1": f"http://{address}/metrics"}})
    )
    assert ddz_top("--once", "--every", "0.1", "--stack", str(tmp_path / "stack.json")) == 0
    printed = capsys.readouterr().out
    assert "table-1" in printed
    assert "redis" in printed
    assert "Matchmaking" in printed


def test_who_does_not_answer_is_listed_among_those_who_do(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    silent = f"127.0.0.1:{ports.free(1)[0]}"
    assert ddz_top("--once", "--every", "0.1", "--from", address, silent) == 0
    assert "does not answer" in capsys.readouterr().out


def test_nothing_to_look_at_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = f"127.0.0.1:{ports.free(1)[0]}"
    assert ddz_top("--from", silent) == 2
    assert capsys.readouterr().err == f"Nobody answers at http://{silent}/metrics.\n"
    missing = tmp_path / "stack.json"
    wanted = f"{missing} tells of no stack: start one with `make up`, or give --from.\n"
    for text in (None, "{", "[]", "{}", '{"addresses": {}}'):
        if text is not None:
            missing.write_text(text)
        assert (ddz_top("--stack", str(missing)), capsys.readouterr().err) == (2, wanted)


def test_the_screen_fits_a_terminal_of_80_columns() -> None:
    text = {"table-1": 'ddz_client_up{client="redis"} 1'}
    console = Console(width=80, record=True, force_terminal=False)
    with console.capture() as printed:
        console.print(top.picture(pair(text, text), ("table-1",)))
    assert max(map(len, printed.get().splitlines())) <= 80
