"""The servers of the stack answer, keep their data, ask for their password, and say why they cannot start."""

from __future__ import annotations

import socket
import venv
from pathlib import Path

import asyncpg
import nats as nats_client
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from deploy.local import ports, servers
from deploy.local.leash import Leash
from deploy.local.process import StackError


async def test_postgres_answers_with_fsync_on(postgres: servers.Postgres) -> None:
    connection = await asyncpg.connect(postgres.superuser_dsn)
    try:
        assert await connection.fetchval("SHOW fsync") == "on"
        assert await connection.fetchval("SELECT current_database()") == "ddz"
        assert (await connection.fetchval("SHOW server_version")).startswith("18")
    finally:
        await connection.close()


async def test_postgres_asks_for_the_password(postgres: servers.Postgres) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"postgresql://postgres:wrong@127.0.0.1:{postgres.port}/ddz")


async def test_valkey_answers_and_keeps_a_log(valkey: str) -> None:
    async with Redis.from_url(valkey) as client:
        assert await client.ping()
        assert (await client.config_get("appendonly"))["appendonly"] == "yes"


async def test_valkey_asks_for_the_password(valkey: str) -> None:
    open_url = f"redis://{valkey.partition('@')[2]}"
    async with Redis.from_url(open_url) as client:
        with pytest.raises(AuthenticationError):
            await client.ping()


async def test_nats_stores_a_message(nats: str) -> None:
    client = await nats_client.connect(nats)
    try:
        stream = client.jetstream()
        await stream.add_stream(name="TEST", subjects=["test.servers"])
        assert (await stream.publish("test.servers", b"news")).seq == 1
        await stream.delete_stream("TEST")
    finally:
        await client.close()


@pytest.mark.parametrize("name", ["a path", "地主 path"])
async def test_servers_start_below_any_path(leash: Leash, scratch: Path, name: str) -> None:
    folder = scratch / name
    folder.mkdir()
    one, two, three = ports.free(3)
    with servers.valkey(leash, folder / "valkey", one) as valkey, servers.nats(leash, folder / "nats", two):
        async with Redis.from_url(valkey.url) as client:
            assert (await client.config_get("dir"))["dir"] == str(folder / "valkey")
        assert (folder / "nats" / "jetstream").is_dir()
    with servers.postgres(leash, folder / "postgres", three):
        assert (folder / "postgres" / "data").is_dir()


def test_a_python_of_ours_finds_what_is_installed_below_any_path(leash: Leash, tmp_path: Path) -> None:
    environment = tmp_path / "地主 environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "project.pth").write_text(str(tmp_path / "地主"), encoding="utf-8")
    code = f"import sys; assert {str(tmp_path / '地主')!r} in sys.path"
    (tmp_path / "地主").mkdir()
    process = servers.run(leash, "python", [environment / "bin" / "python", "-c", code], tmp_path)
    assert process.popen.wait() == 0, process.tail()


async def test_postgres_keeps_its_data_over_a_restart(leash: Leash, scratch: Path) -> None:
    folder = scratch / "postgres-twice"
    for create in (True, False):
        with servers.postgres(leash, folder, ports.free(1)[0]) as server:
            if create:
                server.psql("CREATE TABLE kept AS SELECT 42 AS n", "ddz")
            assert server.psql("SELECT n FROM kept", "ddz") == "42"


def test_a_server_that_cannot_start_shows_the_end_of_its_log(leash: Leash, scratch: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(StackError, match="Valkey ended with code 1 as it started"),
            servers.valkey(leash, scratch / "valkey-taken", taken.getsockname()[1]),
        ):
            pytest.fail("a server stands on a taken port")


def test_a_taken_port_is_named_with_its_purpose() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StackError, match=f"Port {taken.getsockname()[1]}, wanted for the gateway, is taken"):
            ports.claim({"the gateway": taken.getsockname()[1]})
