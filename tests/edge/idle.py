"""Streams from one address that stay open and say nothing, as many as an attacker likes."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import http.client
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import grpc

from ddz.lobby.v1 import lobby_pb2
from ddzclient import Gateway, Player, Session
from ddzclient.player import play_room
from deploy.local.stack import Stack
from tests.edge import fort

ATTACKER: Final = "127.0.0.2"
_STREAMS_A_CONNECTION: Final = 200  # the gateway allows no more
_STREAMS_A_PLAYER: Final = 25
_PAUSE_S: Final = 0.1  # between two connections
_SAID_NO_S: Final = 5.0
_WATCH: Final = "/ddz.lobby.v1.LobbyService/WatchLobby"
_PLAY: Final = "/ddz.table.v1.TableService/Play"


class Idle:
    """Streams by turns of a lobby's watchers, who hear its first message, and of players who never send a word."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._calls: list[Any] = []
        self._held = contextlib.AsyncExitStack()
        self.opened = 0
        self.refused: collections.Counter[str] = collections.Counter()  # by status

    async def open(self, count: int) -> None:
        """Opens so many from the attacker's address; returns when each is open or refused."""
        door = await self._held.enter_async_context(_from(ATTACKER, self._stack.ports.gateway))
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
        tokens = [fort.token(self._stack, f"p9{number:06}") for number in range(-(-count // _STREAMS_A_PLAYER))]
        async with asyncio.TaskGroup() as group:
            for first in range(0, count, _STREAMS_A_CONNECTION):
                channel = await self._held.enter_async_context(grpc.aio.insecure_channel(door, options=options))
                for number in range(first, min(first + _STREAMS_A_CONNECTION, count)):
                    group.create_task(self._one(channel, number, tokens[number // _STREAMS_A_PLAYER]))
                await asyncio.sleep(_PAUSE_S)

    async def _one(self, channel: grpc.aio.Channel, number: int, token: str) -> None:
        """One stream; a silent one counts as open when it has not been refused for a moment."""
        raw: Any = cast("Any", channel)
        metadata = (("authorization", f"Bearer {token}"), ("x-table-id", f"none-{number}"))
        try:
            if number % 2:
                call = raw.stream_stream(_PLAY)(metadata=metadata)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SAID_NO_S):
                        await call.initial_metadata()
                        await call.read()
                if call.done():
                    self.refused[(await call.code()).name] += 1
                    return
            else:
                call = raw.unary_stream(_WATCH)(lobby_pb2.WatchLobbyRequest().SerializeToString(), metadata=metadata)
                await call.read()
        except grpc.aio.AioRpcError as error:
            self.refused[error.code().name] += 1
            return
        self._calls.append(call)
        self.opened += 1

    async def close(self) -> None:
        """Ends them all."""
        for call in self._calls:
            call.cancel()
        await self._held.aclose()


@contextlib.asynccontextmanager
async def _from(source: str, port: int) -> AsyncIterator[str]:
    """The address of a proxy whose connections to the port come from `source`; raises OSError where there is none."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


def streams(stack: Stack) -> dict[str, float]:
    """How many streams each process serves, by its name."""
    found = {}
    for service, nodes in stack.ports.services.items():
        for number, node in enumerate(nodes, 1):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.metrics, timeout=10)) as connection:
                connection.request("GET", "/metrics")
                lines = connection.getresponse().read().decode().splitlines()
            values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("ddz_streams{")]
            found[f"{service}-{number}"] = sum(values)
    return found


async def _back_to(stack: Stack, before: dict[str, float]) -> dict[str, float]:
    """What each process still serves once that is no more than before, or after a minute."""
    deadline = time.monotonic() + 60.0
    while True:
        left = await asyncio.to_thread(streams, stack)
        if all(left[name] <= before[name] for name in before) or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.1)


async def siege(stack: Stack, count: int, per_process: int) -> dict[str, Any]:
    """Opens so many, lets others play a hand meanwhile, ends them; `wrong` tells in sentences what did not hold."""
    before = await asyncio.to_thread(streams, stack)
    idle, wrong = Idle(stack), []
    await idle.open(count)
    held = await asyncio.to_thread(streams, stack)
    wrong += [f"{name} holds {found:.0f} streams" for name, found in held.items() if found > before[name] + per_process]
    async with asyncio.timeout(120), contextlib.AsyncExitStack() as doors:
        gateways = [await doors.enter_async_context(Gateway(stack.address)) for _ in range(3)]
        others = [await Session.guest(one, f"others-{uuid.uuid4()}") for one in gateways]
        hands = await asyncio.gather(*(play_room(other, fort.QUIET_ROOM, Player(), 1) for other in others))
        settled = (await others[0].hand(hands[0][0])).settlement.hand_id
    wrong += [] if settled else ["the others could not play"]
    await idle.close()
    left = await _back_to(stack, before)
    wrong += [f"{name} still holds {found:.0f} streams" for name, found in left.items() if found > before[name]]
    wrong += await fort.unhealthy(stack)
    told = {"streams": count, "open": idle.opened, "refused": dict(idle.refused), "held": held}
    return {**told, "hands_of_others": 1, "wrong": wrong}
