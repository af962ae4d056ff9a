"""A TCP proxy on loopback whose connections can be cut, as networks do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Proxy:
    """Passes bytes on; `cut` ends all connections at once, without a word to either side."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.address = ""

    def cut(self) -> int:
        """Ends every connection; returns how many there were."""
        count = len(self._writers) // 2
        for writer in self._writers:
            writer.transport.abort()
        return count

    async def end(self) -> None:
        """Cuts, and returns when nothing is left."""
        while self._serving:
            self.cut()
            await asyncio.wait(self._serving)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes a connection."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        self._writers -= {writer, far_writer}

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def proxy(target: str) -> AsyncIterator[Proxy]:
    """A running proxy to host:port."""
    passing = Proxy(target)
    server = await asyncio.start_server(passing.accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    passing.address = f"{host}:{port}"
    try:
        yield passing
    finally:
        server.close()
        await passing.end()
