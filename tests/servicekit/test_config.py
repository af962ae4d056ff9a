"""Configuration: what is missing or unreadable is named in one sentence."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

import pytest

from servicekit import logs
from servicekit.config import ConfigError, describe, load, setting


@dataclass(frozen=True, slots=True)
class Config:
    url: str = setting("DDZ_TEST_URL", "where to")
    limit_s: float = setting("DDZ_TEST_LIMIT_S", "how long", 1.5)
    on: bool = setting("DDZ_TEST_ON", "whether", False)


def test_defaults_and_values_are_read() -> None:
    assert load(Config, {"DDZ_TEST_URL": "x", "DDZ_TEST_ON": "true"}) == Config("x", 1.5, True)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"DDZ_TEST_URL is not set \(where to\)"):
        load(Config, {})


@pytest.mark.parametrize(("name", "text"), [("DDZ_TEST_LIMIT_S", "soon"), ("DDZ_TEST_ON", "maybe")])
def test_an_unreadable_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a .*, not '{text}'"):
        load(Config, {"DDZ_TEST_URL": "x", name: text})


def test_the_documentation_is_generated() -> None:
    assert describe(Config)[:2] == [
        ("DDZ_TEST_URL", "str", "required", "where to"),
        ("DDZ_TEST_LIMIT_S", "float", "1.5", "how long"),
    ]


def test_a_log_line_is_json_with_its_ids(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("table", "INFO")
        logs.get("actor").info("hand settled", extra={"table": "m1", "hand": "m1-1"})
    finally:
        root.handlers[:], root.level = handlers, level
    line = json.loads(capsys.readouterr().err)
    assert (line["service"], line["table"], line["hand"]) == ("table", "m1", "m1-1")
