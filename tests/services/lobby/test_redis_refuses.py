"""A Redis that cannot write for now: calls are refused as unavailable, and none is counted as a fault of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from ddz.lobby.v1 import lobby_pb2
from deploy.local import ports, servers
from deploy.local.leash import Leash
from tests.services.lobby.conftest import Settle, refusal_of


def faults() -> float:
    return REGISTRY.get_sample_value("ddz_faults_total", {"where": "rpc"}) or 0


@pytest.mark.parametrize(
    ("refuse", "allow"),
    [("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"), ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")],
)
async def test_what_redis_refuses_to_write_is_unavailable(
    found: Settle, leash: Leash, scratch: Path, refuse: str, allow: str
) -> None:
    folder = scratch / f"valkey-{refuse.partition(' ')[0].lower()}"
    with servers.valkey(leash, folder, ports.free(1)[0]) as own:
        async with found(redis_url=own.url) as town:
            person = await town.player()
            finding = lobby_pb2.FindTableRequest(code="AAAAAA")
            before, order = faults(), cast("Any", town.redis).execute_command
            await order(*refuse.split())
            assert (await refusal_of(person.call("FindTable", finding))).reason == "UNAVAILABLE"
            await order(*allow.split())
            assert (await refusal_of(person.call("FindTable", finding))).reason == "NOT_FOUND"
            assert faults() == before
