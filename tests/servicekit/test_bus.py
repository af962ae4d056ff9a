"""A bus that is silent for a while, or for good, leaves no client deaf: on a real NATS that is stopped and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client as NatsClient

from deploy.local import ports, servers
from deploy.local.leash import Leash
from servicekit import clients


@pytest.fixture(scope="module")
def own(leash: Leash, scratch: Path) -> Iterator[servers.Server]:
    """A NATS of its own."""
    with servers.nats(leash, scratch / "nats-bus", ports.free(1)[0]) as server:
        yield server


@contextlib.contextmanager
def silent(server: servers.Server) -> Iterator[None]:
    """It does nothing until left, and then everything that it was asked for."""
    server.process.popen.send_signal(signal.SIGSTOP)
    os.waitpid(server.process.popen.pid, os.WUNTRACED)  # until all its threads stand still
    try:
        yield
    finally:
        server.process.popen.send_signal(signal.SIGCONT)


async def hears(bus: NatsClient) -> bool:
    """Whether it gets what is sent now."""
    subject = f"test.{secrets.token_hex(4)}"
    subscription = await bus.subscribe(subject)
    await bus.publish(subject, b"news")
    return bool((await subscription.next_msg(timeout=10)).data == b"news")


async def test_an_answer_that_comes_too_late_leaves_the_client_hearing(own: servers.Server) -> None:
    async with clients.nats_bus(own.url, name="test") as bus:
        await clients.answered(bus)
        with silent(own), pytest.raises(nats.errors.TimeoutError):
            await clients.answered(bus, timeout_s=0.1)
        assert await hears(bus)


async def test_an_asking_that_is_cancelled_leaves_the_client_hearing(own: servers.Server) -> None:
    async with clients.nats_bus(own.url, name="test") as bus:
        with silent(own):
            asking = asyncio.create_task(clients.answered(bus, timeout_s=10))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
        assert await hears(bus)


async def test_a_client_leaves_a_connection_that_says_nothing(
    own: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PING_S", 0.05)
    async with clients.nats_bus(own.url, name="test") as bus:
        with silent(own):
            async with asyncio.timeout(10):
                while not bus.is_reconnecting:  # noqa: ASYNC110 - the client has no event for it
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            while not bus.is_connected:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await hears(bus)


async def test_a_bus_that_is_away_does_not_answer(own: servers.Server) -> None:
    async with clients.nats_bus(own.url, name="test") as bus:
        await bus.close()
        with pytest.raises(nats.errors.ConnectionClosedError):
            await clients.answered(bus)
