"""What the lobby refuses to start with, in one sentence; and keys that rotate while it runs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import jwt
import pytest

from deploy.local.servers import Postgres
from services.lobby import service
from services.lobby.account import Account
from services.lobby.tokens import KeysError, Tokens
from tests.services.lobby.conftest import signing_key

SOMEBODY = Account(7, "张三", 3, bot=False, granted=True, created_at_ms=0)


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command = [sys.executable, "-m", "services.lobby", *arguments]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=60, check=False)


def environment(config: service.Config) -> dict[str, str]:
    return {
        "DDZ_GRPC_ADDRESS": "127.0.0.1:0",
        "DDZ_METRICS_ADDRESS": "127.0.0.1:0",
        "DDZ_POSTGRES_DSN": config.postgres_dsn,
        "DDZ_REDIS_URL": config.redis_url,
        "DDZ_NATS_URL": config.nats_url,
        "DDZ_LEDGER_TARGET": "127.0.0.1:1",
        "DDZ_TABLE_TARGET": "127.0.0.1:1",
        "DDZ_ROOMS_FILE": config.rooms_file,
        "DDZ_JWT_KEYS_FILE": config.jwt_keys_file,
    }


def test_it_does_not_start_while_the_schema_is_behind(config: service.Config, postgres: Postgres) -> None:
    postgres.psql("CREATE DATABASE behind")
    dsn = config.postgres_dsn.rsplit("/", 1)[0] + "/behind"
    done = run(environment(config) | {"DDZ_POSTGRES_DSN": dsn})
    assert done.returncode == 1
    assert "python -m services.lobby migrate" in done.stderr


def test_it_does_not_start_with_a_bad_rooms_file(config: service.Config, tmp_path: Path) -> None:
    file = tmp_path / "rooms.yaml"
    file.write_text("rooms:\n- room_id: one\n  colour: red\n")
    done = run(environment(config) | {"DDZ_ROOMS_FILE": str(file)})
    assert done.returncode == 1
    assert f"{file}:3: room one: colour is not a field of Room" in done.stderr


def test_it_does_not_start_without_a_setting(config: service.Config) -> None:
    incomplete = environment(config)
    del incomplete["DDZ_REDIS_URL"]
    done = run(incomplete)
    assert done.returncode == 1
    assert "DDZ_REDIS_URL is not set" in done.stderr


def test_migrating_again_does_nothing(config: service.Config, postgres: Postgres) -> None:
    done = run({"DDZ_POSTGRES_OWNER_DSN": postgres.dsn("ddz_owner")}, "migrate")
    assert (done.returncode, done.stdout) == (0, "lobby: nothing to do\n")


def test_the_public_keys_are_printed_for_the_gateway(keys_file: Path) -> None:
    done = run({"DDZ_JWT_KEYS_FILE": str(keys_file)}, "jwks")
    keys = json.loads(done.stdout)["keys"]
    assert [key["kid"] for key in keys] == ["new", "old"]
    assert all(set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"} for key in keys)


# ---- keys -----------------------------------------------------------------------------------------------------------


def keys(path: Path, *kids: str, known: dict[str, dict[str, object]]) -> None:
    for kid in kids:
        known.setdefault(kid, signing_key(kid))
    path.write_text(json.dumps({"keys": [known[kid] for kid in kids]}))


def test_keys_rotate_while_it_runs_and_two_are_good_at_once(tmp_path: Path) -> None:
    path, known = tmp_path / "keys.json", dict[str, dict[str, object]]()
    keys(path, "one", known=known)
    issuer = Tokens(path, 900)
    first, _ = issuer.access(SOMEBODY, "张三")
    keys(path, "two", "one", known=known)
    os.utime(path, ns=(1, 1))  # another time of change, whatever the file system's grain
    second, _ = issuer.access(SOMEBODY, "张三")
    assert [jwt.get_unverified_header(token)["kid"] for token in (first, second)] == ["one", "two"]
    public = jwt.PyJWKSet.from_dict({"keys": issuer.public()})
    for token in (first, second):
        key = public[jwt.get_unverified_header(token)["kid"]]
        assert jwt.decode(token, key.key, algorithms=["ES256"], audience="ddz", issuer="ddz-lobby")["sub"] == "p7"


def test_a_keys_file_that_breaks_while_it_runs_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys(path, "one", known={})
    issuer = Tokens(path, 900)
    path.write_text("{")
    os.utime(path, ns=(1, 1))
    token, _ = issuer.access(SOMEBODY, "张三")
    assert jwt.get_unverified_header(token)["kid"] == "one"
    assert [key["kid"] for key in issuer.public()] == ["one"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [5]}',
        '{"keys": [{"kty": "EC"}]}',
        '{"keys": [{"kty": "EC", "crv": "P-256", "kid": 5}]}',
        '{"keys": [{"kty": "RSA", "kid": "one"}]}',
        '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "x": "AA", "y": "AA", "d": "AA"}]}',
    ],
)
def test_a_keys_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(KeysError):
        Tokens(path, 900)
    with pytest.raises(KeysError):
        Tokens(tmp_path / "none.json", 900)


def test_two_keys_of_one_kid_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [signing_key("one"), signing_key("one")]}))
    with pytest.raises(KeysError):
        Tokens(path, 900)


def test_a_public_key_cannot_sign(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    public = {name: value for name, value in signing_key(secrets.token_hex(4)).items() if name != "d"}
    path.write_text(json.dumps({"keys": [public]}))
    with pytest.raises(KeysError):
        Tokens(path, 900)
