"""What earlier releases have stored is read by this one: logs fold to the same tables, records verify."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from ddzclient.books import book_of
from ddzclient.verify import verify
from services.ledger.replay import replay
from services.table import log
from tests.golden import make

FILES = sorted(make.FOLDER.glob("*.json"))


def golden(kind: str) -> list[Any]:
    """Every table or hand of every file, with a name for its test."""
    return [
        pytest.param(one, id=f"{path.stem}-{number}")
        for path in FILES
        for number, one in enumerate(json.loads(path.read_text(encoding="utf-8"))[kind])
    ]


def missing(stored: Any, found: Any, at: str = "") -> list[str]:
    """Where `found` does not say what `stored` says; that it says more is fine: releases add fields."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [line for key, value in stored.items() for line in missing(value, found.get(key), f"{at}.{key}")]
    if isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        pairs = zip(stored, found, strict=True)
        return [line for number, pair in enumerate(pairs) for line in missing(*pair, f"{at}[{number}]")]
    return [] if stored == found else [f"{at}: {stored} is {found}"]


def test_every_book_has_files_of_a_release_and_of_this_one() -> None:
    for book in make.BOOKS:
        assert any(path.name.startswith(f"{book}-") for path in FILES)
        assert make.FOLDER / f"{book}-{make.version()}.json" in FILES, "run `make golden` and commit what it adds"


@pytest.mark.parametrize("stored", golden("tables"))
def test_a_log_folds_to_the_table_that_it_was(stored: dict[str, Any]) -> None:
    table = make.folded(stored["table_id"], stored["log"])
    assert missing(stored["seen"], make.snapshots(table)) == []


@pytest.mark.parametrize("stored", golden("tables"))
def test_a_log_that_was_cut_folds_to_what_it_did(stored: dict[str, Any]) -> None:
    for cut in stored["cuts"]:
        table = make.folded(stored["table_id"], [cut["checkpoint"], *stored["log"][cut["after"] :]])
        assert missing(cut["seen"], make.snapshots(table)) == []


@pytest.mark.parametrize("stored", golden("tables"))
def test_sequence_numbers_have_no_gap(stored: dict[str, Any]) -> None:
    decoded = [log.decode(stored["table_id"], bytes.fromhex(entry)) for entry in stored["log"]]
    numbers = [one.seq for entry in decoded for one in entry.stamped]
    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))


@pytest.mark.parametrize("stored", golden("hands"))
def test_a_record_verifies_with_its_settlement(stored: dict[str, Any]) -> None:
    record = hand_pb2.HandRecord.FromString(bytes.fromhex(stored["record"]))
    settlement = ledger_pb2.Settlement.FromString(bytes.fromhex(stored["settlement"]))
    assert verify(record, settlement) == []
    assert missing(stored["outcome"], MessageToDict(record.outcome, preserving_proto_field_name=True)) == []
    assert settlement == make.settlement(record)
    replayed = replay(record, book_of(record.terms))  # as the ledger's audit does
    assert replayed.multiplier == record.outcome.multiplier
    assert replayed.fled == (record.outcome.fled if record.outcome.HasField("fled") else None)


def test_what_is_there_is_never_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    kept = make.FOLDER / f"classic-{make.version()}.json"
    kept.write_text("kept")
    make.main()
    assert kept.read_text() == "kept"
    assert json.loads((make.FOLDER / f"rob-{make.version()}.json").read_text())["hands"]
