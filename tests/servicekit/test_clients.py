"""The client of Redis follows the primary, and what a server refuses for now is no fault of ours: on real Valkeys."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from deploy.local import ports, servers
from deploy.local.leash import Leash
from servicekit import clients


@pytest.fixture(scope="module")
def pair(leash: Leash, scratch: Path) -> Iterator[list[str]]:
    """The URLs of two Valkeys of their own."""
    with contextlib.ExitStack() as stack:
        names = ["first", "second"]
        yield [
            stack.enter_context(servers.valkey(leash, scratch / f"valkey-{name}", ports.free(1)[0])).url
            for name in names
        ]


class Address:
    """One address that leads to whichever server is the primary; who is connected stays where he is."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Forwards until left; yields the URL."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"redis://:{urlsplit(self.url).password}@127.0.0.1:{port}/0"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", urlsplit(self.url).port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.create_task(self._copy(source, target)))

    @staticmethod
    async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(target):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()


async def values(redis: Redis) -> set[bytes | str | None]:
    """What a key has, by eight connections at once."""
    return set(await asyncio.gather(*(redis.get("test") for _ in range(8))))


async def test_after_a_failover_every_connection_leads_to_the_new_primary(pair: list[str]) -> None:
    address = Address(pair[0])
    async with clients.redis(pair[0]) as old, clients.redis(pair[1]) as new, address.open() as url:
        await new.config_set("requirepass", str(urlsplit(pair[0]).password))
        await old.set("test", "old")
        await new.set("test", "new")
        async with clients.redis(url) as redis:
            assert await values(redis) == {b"old"}
            try:
                await old.replicaof("127.0.0.1", "1")
                with pytest.raises(clients.AWAY):  # the address leads to the old one yet
                    await redis.set("another", "1")
                address.url = pair[1]
                assert await redis.set("another", "1")
                assert await values(redis) == {b"new"}
            finally:
                await old.replicaof("NO", "ONE")


async def test_a_redis_without_room_is_away(pair: list[str]) -> None:
    async with clients.redis(pair[0]) as redis:
        await redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(clients.AWAY):
                await redis.set("test", "more")
        finally:
            await redis.config_set("maxmemory", 0)
        assert await redis.set("test", "more")
