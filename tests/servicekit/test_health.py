"""Health as probes ask for it: a service that pauses is not to be called, and not to be ended either."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import grpc

from servicekit import health, server


class Paused:
    """A service that serves nothing; `say_healthy` once it is watched."""

    names: Sequence[str] = ("test.Nothing",)
    say_healthy: Callable[[bool], Awaitable[None]]

    def register(self, _server: grpc.aio.Server) -> None:
        """Nothing to call."""

    def watched_by(self, say_healthy: Callable[[bool], Awaitable[None]]) -> None:
        self.say_healthy = say_healthy

    async def drain(self) -> None:
        """Nothing to finish."""


async def test_a_service_that_pauses_stays_alive() -> None:
    config = server.ServerConfig("127.0.0.1:0", "127.0.0.1:0", drain_s=0.0)
    service = Paused()
    async with server.serving(config, service) as port:
        own = replace(config, grpc_address=f"0.0.0.0:{port}")

        async def wrong(name: str = "") -> str:
            return await asyncio.to_thread(health.check, own, name)

        assert (await wrong(), await wrong(server.ALIVE)) == ("", "")
        await service.say_healthy(False)
        not_serving = f"127.0.0.1:{port} says NOT_SERVING."
        assert (await wrong(), await wrong("test.Nothing"), await wrong(server.ALIVE)) == (not_serving, not_serving, "")
        await service.say_healthy(True)
        assert (await wrong(), await wrong(server.ALIVE)) == ("", "")
