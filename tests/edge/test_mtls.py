"""mTLS between the processes: the system works with it, and who has no certificate of its authority is outside."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddzclient import Gateway, Player, Session
from ddzclient.player import play_room
from deploy.local import certificates
from deploy.local.stack import Stack
from servicekit import tls
from servicekit.config import ConfigError
from servicekit.server import channel
from tests.edge import fort

REFUSED = {grpc.StatusCode.UNAVAILABLE}


def inside(folder: Path, process: str) -> tls.Inside:
    told = certificates.settings(folder, process)
    found = tls.Inside.read(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"])
    assert found is not None
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> tls.Inside:
    """A certificate with the right name, of an authority of the caller's own."""
    folder = tmp_path_factory.mktemp("foreign")
    certificates.inside(folder, ["stranger"])
    return inside(folder, "stranger")


def processes(walls: Stack) -> Iterator[str]:
    for nodes in walls.ports.services.values():
        yield from (f"127.0.0.1:{node.grpc}" for node in nodes)


async def health(connection: grpc.aio.Channel) -> grpc.StatusCode:
    async with connection:
        try:
            await health_pb2_grpc.HealthStub(connection).Check(health_pb2.HealthCheckRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_a_hand_is_played_and_settled(walls: Stack) -> None:
    async with contextlib.AsyncExitStack() as held:
        doors = [await held.enter_async_context(Gateway(walls.address)) for _ in range(3)]
        players = [await Session.guest(door, f"mtls-{uuid.uuid4()}") for door in doors]
        async with asyncio.timeout(60):
            hands = await asyncio.gather(*(play_room(player, fort.QUIET_ROOM, Player(), 1) for player in players))
        assert hands[0] == hands[1] == hands[2]
        assert (await players[0].hand(hands[0][0])).settlement.hand_id == hands[0][0]
    found = await fort.audit(walls)
    assert (list(found.faults), found.chips_sum) == ([], 0)


async def test_every_process_refuses_who_shows_no_certificate_or_a_foreign_one(
    walls: Stack, foreign: tls.Inside
) -> None:
    assert walls.inside is not None
    only_believes = grpc.ssl_channel_credentials(walls.inside.authority)
    believes_but_shows_foreign = replace(walls.inside, certificate=foreign.certificate, key=foreign.key)
    for target in processes(walls):
        options = walls.inside.channel_options()
        assert await health(grpc.aio.insecure_channel(target)) in REFUSED
        assert await health(grpc.aio.secure_channel(target, only_believes, options=options)) in REFUSED
        assert await health(channel(target, believes_but_shows_foreign)) in REFUSED
        assert await health(channel(target, foreign)) in REFUSED
        assert await health(channel(target, walls.inside)) is grpc.StatusCode.OK


async def test_who_is_refused_moves_no_chip(walls: Stack, foreign: tls.Inside) -> None:
    assert walls.inside is not None
    request = ledger_pb2.GrantRequest(key="stolen", player_id="p1", chips=1_000_000, kind="gift")
    stranger = replace(walls.inside, certificate=foreign.certificate, key=foreign.key)
    before = await fort.audit(walls)
    async with channel(walls.grpc_address("ledger"), stranger) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ledger_pb2_grpc.LedgerInternalServiceStub(connection).Grant(request, timeout=10)
    assert refused.value.code() in REFUSED
    assert (await fort.audit(walls)).transfers == before.transfers


async def test_a_server_with_a_foreign_certificate_or_another_name_is_not_believed(
    walls: Stack, foreign: tls.Inside
) -> None:
    assert walls.inside is not None
    for shown, believed in ((foreign, walls.inside), (walls.inside, replace(walls.inside, name="other.internal"))):
        server = grpc.aio.server()
        port = server.add_secure_port("127.0.0.1:0", shown.server_credentials())
        await server.start()
        assert await health(channel(f"127.0.0.1:{port}", believed)) in REFUSED
        await server.stop(0)


async def test_an_operator_shows_a_certificate_too(walls: Stack) -> None:
    env = certificates.settings(walls.folder / "inside", certificates.OPERATOR)
    env |= {"DDZ_LEDGER_TARGET": walls.grpc_address("ledger")}
    for told, code in ((env, 0), ({"DDZ_LEDGER_TARGET": env["DDZ_LEDGER_TARGET"]}, 2)):
        command = [sys.executable, "-m", "ddzclient.cli", "admin", "audit", "--skip-records"]
        run = await asyncio.create_subprocess_exec(
            *command, env={"PATH": "/usr/bin:/bin", **told}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await run.communicate()
        assert run.returncode == code, (out, err)


@pytest.mark.parametrize("missing", ["DDZ_TLS_CERT", "DDZ_TLS_KEY", "DDZ_TLS_CA"])
def test_half_a_setting_is_named(tmp_path: Path, missing: str) -> None:
    certificates.inside(tmp_path, ["one"])
    told = certificates.settings(tmp_path, "one") | {missing: ""}
    with pytest.raises(ConfigError, match=missing):
        tls.Inside.read(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"])
    told[missing] = str(tmp_path / "none")
    with pytest.raises(ConfigError, match=rf"{missing} cannot be read"):
        tls.Inside.read(told["DDZ_TLS_CERT"], told["DDZ_TLS_KEY"], told["DDZ_TLS_CA"])
