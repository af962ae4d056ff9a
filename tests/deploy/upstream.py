"""A gateway before a server of the test's own, which answers as the test says and remembers what reached it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.client
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import jwt
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ddz.lobby.v1 import lobby_pb2
from deploy.local import gateway, ports, servers
from deploy.local.leash import Leash
from deploy.local.process import Process

Answer = Callable[[Any, Any], AsyncIterator[bytes]]


async def empty(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Reads all and answers with one message without a field."""
    async for _ in requests:
        pass
    yield b""


async def unavailable(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Reads all and says that it cannot now, as a server does that ends."""
    async for _ in requests:
        pass
    await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
    yield b""


class Upstream(grpc.GenericRpcHandler):
    """Serves every method of every service; when the gateway asks for keys, the public halves of a private JWK set."""

    def __init__(self, keys: Path) -> None:
        self._keys = keys
        self._checks = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self.answer: Answer = empty
        self.calls: list[tuple[str, dict[str, str | bytes]]] = []  # method and metadata

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.startswith("/grpc."):
            return None

        if details.method == "/ddz.lobby.v1.LobbyService/ListKeys":
            private = json.loads(self._keys.read_text())["keys"]
            public = [{name: value for name, value in key.items() if name != "d"} for key in private]
            keys = json_format.ParseDict({"keys": public}, lobby_pb2.ListKeysResponse())
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: keys.SerializeToString())

        async def call(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            self.calls.append((details.method, dict(context.invocation_metadata())))
            async for message in self.answer(requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(call)  # on the wire a unary call is a stream of one

    async def die(self) -> None:
        """Ends with all its connections; its port is nobody's from now on."""
        assert self._server is not None
        await self._server.stop(0)

    async def be_healthy(self, healthy: bool) -> None:
        """Says so from now on."""
        said = health_pb2.HealthCheckResponse.SERVING if healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        await self._checks.set("", said)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """The port on which it listens."""
        server = self._server = grpc.aio.server()
        health_pb2_grpc.add_HealthServicer_to_server(self._checks, server)
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        await self.be_healthy(True)
        try:
            yield port
        finally:
            await server.stop(0)


@dataclass(frozen=True)
class Door:
    """A gateway, and what stands behind it: one server for lobby, matchmaking and ledger, two for table."""

    folder: Path
    doors: gateway.Doors
    services: Upstream
    tables: tuple[Upstream, Upstream]
    process: Process
    players: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.doors.plain}"

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return (self.services, *self.tables)

    def token(self, player_id: str = "p1") -> str:
        """A good token."""
        if player_id not in self.players:
            key = json.loads(gateway.private_keys(self.folder).read_text())["keys"][0]
            ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=15)
            claims = {"iss": "ddz-lobby", "aud": "ddz", "sub": player_id, "exp": ends}
            token = jwt.encode(claims, jwt.PyJWK(key).key, algorithm="ES256", headers={"kid": key["kid"]})
            self.players[player_id] = token
        return self.players[player_id]

    async def wait_until_it_opens(self) -> None:
        """Asks until a call with a token is answered and every server is healthy."""
        deadline = time.monotonic() + 20.0
        while not await self._is_open():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)

    async def _is_open(self) -> bool:
        async with grpc.aio.insecure_channel(self.address) as channel:
            ask = cast("Any", channel).unary_unary("/ddz.ledger.v1.LedgerService/GetBalance")
            try:
                await ask(b"", metadata=(("authorization", f"Bearer {self.token()}"),), timeout=5)
            except grpc.aio.AioRpcError:
                return False
        found = [await asyncio.to_thread(self.healthy, name) for name in ("lobby", "matchmaking", "ledger", "table")]
        return found == [1, 1, 1, 2]

    def healthy(self, service: str) -> float:
        """How many servers of a service the gateway holds for healthy."""
        return self.metrics()[f'envoy_cluster_membership_healthy{{envoy_cluster_name="{service}"}}']

    def metrics(self) -> dict[str, float]:
        """What Prometheus would see, by series."""
        with contextlib.closing(
            http.client.HTTPConnection(f"127.0.0.1:{self.doors.metrics}", timeout=10)
        ) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def log(self) -> list[dict[str, Any]]:
        """The access log's lines so far."""
        return [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]


@contextlib.asynccontextmanager
async def door(
    leash: Leash, folder: Path, limits: gateway.Limits, trust: gateway.Trust | None = None
) -> AsyncIterator[Door]:
    """Starts all of it; returns when a token is good, so that every service is healthy and the keys are known."""
    keys = gateway.private_keys(folder)
    services, tables = Upstream(keys), (Upstream(keys), Upstream(keys))
    async with contextlib.AsyncExitStack() as held:
        one = await held.enter_async_context(services.serving())
        two = [await held.enter_async_context(table.serving()) for table in tables]
        plain, tls, metrics = ports.free(3)
        doors = gateway.Doors(plain, tls, metrics, trust or gateway.Trust())
        nodes = {"lobby": [one], "matchmaking": [one], "ledger": [one], "table": two}
        path = gateway.prepare(folder, doors, nodes, limits)
        process = held.enter_context(servers.gateway(leash, folder, path, doors.metrics))
        found = Door(folder, doors, services, tables, process)
        await found.wait_until_it_opens()
        yield found
