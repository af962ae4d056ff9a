"""Every alert is tested, quiet and firing, and has an entry in the runbook that its annotation links."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.folders import ROOT

RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.rules.yml"))
TESTS = sorted((ROOT / "deploy" / "prometheus" / "tests").glob("*.test.yml"))
RUNBOOK = ROOT / "docs" / "operations.md"


def alerts() -> dict[str, dict[str, Any]]:
    found = [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in found}) == len(found), "two alerts share a name"
    return {rule["alert"]: rule for rule in found}


def test_each_alert_has_an_entry_in_the_runbook_that_it_links() -> None:
    text = RUNBOOK.read_text(encoding="utf-8").partition("\n## Alerts\n")[2].partition("\n## ")[0]
    entries = dict(re.findall(r"^### (\w+)\n(.+)$", text, re.MULTILINE))
    assert entries.keys() == alerts().keys()
    assert {
        name: rule["annotations"]["runbook"]
        for name, rule in alerts().items()
        if rule["annotations"]["runbook"] != f"docs/operations.md#{name.lower()}"
    } == {}


def test_each_alert_says_how_urgent_it_is_in_one_sentence() -> None:
    for name, rule in alerts().items():
        assert rule["labels"].keys() == {"severity"}, name
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert re.fullmatch(r"[^\n]{10,120}\.", rule["annotations"]["summary"]), name


def test_each_alert_is_tried_quiet_and_firing() -> None:
    tried = {test["name"]: test for path in TESTS for test in yaml.safe_load(path.read_text())["tests"]}
    assert tried.keys() == alerts().keys()
    for name, test in tried.items():
        quiet, firing = test["promql_expr_test"]
        assert f'alertname="{name}"' in quiet["expr"]
        assert "exp_samples" not in quiet, name
        assert f'alertname="{name}"' in firing["expr"]
        assert firing["exp_samples"], name


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_promtool_finds_them_so(path: Path) -> None:
    promtool(["test", "rules", path])


def test_the_configuration_is_one() -> None:
    promtool(["check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yml"])


def promtool(arguments: list[str | Path]) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("alerts are tried by promtool: apt-get install prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
