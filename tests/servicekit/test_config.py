"""Configuration: what is missing or unreadable is named in one sentence."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from servicekit import logs
from servicekit.config import ConfigError, describe, is_address, load, setting


@dataclass(frozen=True, slots=True)
class Config:
    url: str = setting("DDZ_TEST_URL", "where to")
    limit_s: float = setting("DDZ_TEST_LIMIT_S", "how long", 1.5)
    on: bool = setting("DDZ_TEST_ON", "whether", False)
    count: int = setting("DDZ_TEST_COUNT", "how many", 4, least=1)
    word: str = setting("DDZ_TEST_WORD", "which", "red", choices=("red", "blue"))
    address: str = setting("DDZ_TEST_ADDRESS", "where", "h:1", form=(is_address, "host:port"))


def test_defaults_and_values_are_read() -> None:
    assert load(Config, {"DDZ_TEST_URL": "x", "DDZ_TEST_ON": "true"}) == Config("x", 1.5, True)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"DDZ_TEST_URL is not set \(where to\)"):
        load(Config, {})


@pytest.mark.parametrize(("name", "text"), [("DDZ_TEST_LIMIT_S", "soon"), ("DDZ_TEST_ON", "maybe")])
def test_an_unreadable_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a .*, not '{text}'"):
        load(Config, {"DDZ_TEST_URL": "x", name: text})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("DDZ_TEST_COUNT", "0", "at least 1, not '0'"),
        ("DDZ_TEST_COUNT", "-3", "at least 1, not '-3'"),
        ("DDZ_TEST_WORD", "loud", "one of red, blue, not 'loud'"),
        ("DDZ_TEST_ADDRESS", "9100", "host:port, not '9100'"),
        ("DDZ_TEST_ADDRESS", "h:65536", "host:port, not 'h:65536'"),
        ("DDZ_TEST_LIMIT_S", "nan", "a float, not 'nan'"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_can(name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be {words}\\.$"):
        load(Config, {"DDZ_TEST_URL": "x", name: text})


PLACES = {
    "DDZ_REDIS_URL": "redis://127.0.0.1:1/0",
    "DDZ_NATS_URL": "nats://127.0.0.1:1",
    "DDZ_POSTGRES_DSN": "postgresql://127.0.0.1:1/ddz",
    "DDZ_LEDGER_TARGET": "127.0.0.1:1",
    "DDZ_TABLE_TARGET": "127.0.0.1:1",
    "DDZ_ROOMS_FILE": "none.yaml",
    "DDZ_JWT_KEYS_FILE": "none.json",
    "DDZ_GRPC_ADDRESS": "127.0.0.1:0",
    "DDZ_METRICS_ADDRESS": "127.0.0.1:0",
}


@pytest.mark.parametrize(
    ("service", "name", "text", "wish"),
    [
        ("table", "DDZ_TABLE_SHARDS", "0", "at least 1"),
        ("table", "DDZ_DEAL_SEED", "xyz", "hex digits, two a byte"),
        ("ledger", "DDZ_LEDGER_BATCH", "0", "at least 1"),
        ("lobby", "DDZ_LOG_LEVEL", "loud", "one of DEBUG, INFO, WARNING, ERROR"),
        ("matchmaking", "DDZ_METRICS_ADDRESS", "9100", "host:port"),
    ],
)
def test_a_service_exits_with_one_sentence(service: str, name: str, text: str, wish: str) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command = [sys.executable, "-m", f"services.{service}"]
    environment = kept | PLACES | {name: text}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, f"{service}: {name} must be {wish}, not {text!r}.\n")


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
