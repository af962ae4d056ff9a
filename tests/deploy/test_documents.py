"""What the documents compute is what the code and the figures say."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from deploy.local import variables
from deploy.local.folders import ROOT
from deploy.local.ports import SERVICES


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "docs" / "scaling.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_scaling_tables_are_what_the_figures_come_to(scaling: ModuleType) -> None:
    text = scaling.DOCUMENT.read_text(encoding="utf-8")
    assert scaling.written(text) == text
    code = scaling.DOCUMENT.with_suffix(".py").read_text(encoding="utf-8")
    figures = re.findall(r"^\| `([a-z0-9_]+)` \|", text, re.MULTILINE)
    assert len(figures) == len(set(figures))
    assert [name for name in figures if not re.search(rf"\bf\.{name}\b", code)] == []  # no figure is for show
    changed = re.sub(r"(`move_us` \|) [0-9.]+", r"\1 999", text)
    assert scaling.written(changed) != changed
    with pytest.raises(AttributeError, match="no figure move_us"):
        scaling.written(text.replace("`move_us`", "`moves_us`"))


def test_the_arithmetic_of_a_thousand_players(scaling: ModuleType) -> None:
    """By hand: 900 at 300 tables, a hand every 150 s, 30 moves each, 0.1 ms a move and none for heartbeats."""
    values = {"seated_share": 0.9, "hand_s": 150, "moves_per_hand": 30, "move_us": 100, "push_us": 0, "aim": 0.5}
    figures = scaling.Figures(scaling.DOCUMENT.read_text(encoding="utf-8"))
    figures._values |= values
    size = scaling.Size(1_000, figures)
    assert (size.tables, size.hands, size.moves) == pytest.approx((300, 2, 60))
    assert size.cores()["table"] == pytest.approx(0.006)
    assert scaling.Size(1_000_000, figures).provisioned()["table"] == 12
    thousand, million = (scaling.Size(online, figures) for online in (1_000, 1_000_000))
    assert million.cores() == pytest.approx({part: 1_000 * cores for part, cores in thousand.cores().items()})
    assert scaling.limits(figures) == sorted(scaling.limits(figures))


def test_every_variable_is_documented_with_its_unit_and_default() -> None:
    text = variables.DOCUMENT.read_text(encoding="utf-8")
    assert variables.written(variables.DOCUMENT) == text
    found = variables.variables()
    assert set(found) == {variables.EVERYWHERE, *SERVICES}
    assert found["table"]["DDZ_TABLE_HEARTBEAT_S"].unit == "s"
    assert found["ledger"]["DDZ_RELIEF_CHIPS"][:3] == ("DDZ_RELIEF_CHIPS", "chips", "1000")
    assert found["lobby"]["DDZ_ROOMS_FILE"][1:3] == ("path", None)
    named = {
        name
        for path in [*(ROOT / "libs" / "servicekit").glob("*.py"), *(ROOT / "services").rglob("*.py")]
        for name in re.findall(r"\bsetting\(\s*\"(DDZ_[A-Z_]+)\"", path.read_text(encoding="utf-8"))
    }
    assert {name for rows in found.values() for name in rows} == named
