"""The metrics that the code declares: names by convention, known labels, documented, and each to be seen somewhere."""

from __future__ import annotations

import re

from deploy.grafana.boards import BOARDS
from deploy.local import measured, prometheus
from deploy.local.folders import ROOT

LABELS = {
    "act", "book", "by", "client", "code", "error", "flow", "kind", "method", "outcome", "reason", "result", "room",
    "stage", "where", "why",
}  # fmt: skip


def declared() -> list[measured.Metric]:
    folders = [ROOT / "libs" / "servicekit", *(ROOT / "services").glob("*")]
    return [one for folder in folders for one in measured.metrics(folder)]


def test_every_metric_is_found_in_the_code() -> None:
    sources = [*(ROOT / "libs" / "servicekit").glob("*.py"), *(ROOT / "services").rglob("*.py")]
    named = {name for path in sources for name in re.findall(r'"(ddz_[a-z_]+)",?\s+"[A-Z0-9]', path.read_text())}
    assert {one.name.removesuffix("_total") for one in declared()} == named


def test_names_follow_conventions_and_labels_are_known() -> None:
    names = [one.name for one in declared()]
    assert len(names) == len(set(names))
    for one in declared():
        assert re.fullmatch("ddz(_[a-z]+)+", one.name), one
        assert one.name.endswith("_total") == (one.kind == "counter"), one
        assert "_total_total" not in one.name, one
        assert not re.search("_(ms|millis|minutes|hours|s|kb)(_total)?$", one.name), f"{one}: seconds and bytes"
        assert re.match("(?i)from .* to |time|how late", one.what) is None or one.name.endswith("_seconds"), one
        assert set(one.labels) <= LABELS, one
        assert re.fullmatch(r"[A-Z0-9][^|\n]+[^.]", one.what), one


def test_every_metric_is_on_a_dashboard() -> None:
    shown = " ".join(expression for board in BOARDS for _, expression in board.expressions())
    assert [one.name for one in declared() if not re.search(rf"\b{one.name}(_bucket|_count)?\b", shown)] == []


def test_the_document_lists_them_as_they_are() -> None:
    assert measured.DOCUMENT.read_text(encoding="utf-8") == measured.document()


def test_the_local_stack_puts_its_ports_in_the_place_of_names() -> None:
    found = {name: ["127.0.0.1:1"] for name in ("lobby", "matchmaking", "ledger", "table", "gateway")}
    made = prometheus.configuration(found, interval="1s")
    assert made["global"]["scrape_interval"] == "1s"
    assert [job["static_configs"] for job in made["scrape_configs"]] == [[{"targets": ["127.0.0.1:1"]}]] * 5
    assert all(path.startswith("/") for path in made["rule_files"])
