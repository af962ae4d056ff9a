"""Many idle streams from one address: its limit holds, and others are served as before."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local.stack import Stack
from tests.edge import idle
from tests.edge.fort import Bystanders

STREAMS = 300
LIMIT = 60  # the fixture's


async def test_an_address_holds_so_many_streams_and_others_play(walls: Stack, hand: Bystanders) -> None:
    """`make chaos-streams` does the same with 10,000."""
    before = await hand.look()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", walls.ports.gateway, local_addr=(idle.ATTACKER, 0))
    except OSError:
        pytest.skip("this system has one address of loopback")
    writer.close()
    found = await idle.siege(walls, STREAMS, LIMIT)
    assert found["wrong"] == []
    assert await hand.look() == before
    assert LIMIT <= found["open"] < STREAMS
    assert found["refused"].keys() <= {"RESOURCE_EXHAUSTED", "UNAVAILABLE"}
