"""The connection to the gateway: one channel, the stubs of the public services, and calls that are tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import grpc

from ddz.admin.v1 import admin_pb2_grpc
from ddz.ledger.v1 import ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2_grpc
from ddz.matchmaking.v1 import matchmaking_pb2_grpc
from ddz.table.v1 import table_pb2_grpc
from ddzclient.backoff import Backoff
from ddzclient.errors import is_transient, translate

Request = TypeVar("Request")
Response = TypeVar("Response")
Metadata = Sequence[tuple[str, str | bytes]]

LOCAL_GATEWAY: Final = "127.0.0.1:24080"  # where `make up` listens unless it is told another port
TIMEOUT_S: Final = 10.0
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own for every Gateway
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class Gateway:
    """A channel to the gateway that any number of sessions share; use it as an async context manager.

    `address` is host:port. With `tls` the gateway's certificate must be known to the system, or be given as PEM in
    `root_certificates`. `timeout_s` is how long one call may take with all its attempts.
    """

    def __init__(
        self,
        address: str,
        *,
        tls: bool = False,
        root_certificates: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        if tls or root_certificates is not None:
            credentials = grpc.ssl_channel_credentials(root_certificates)
            self._channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self.lobby = lobby_pb2_grpc.LobbyServiceStub(self._channel)
        self.matchmaking = matchmaking_pb2_grpc.MatchmakingServiceStub(self._channel)
        self.table = table_pb2_grpc.TableServiceStub(self._channel)
        self.ledger = ledger_pb2_grpc.LedgerServiceStub(self._channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the channel and every stream on it."""
        await self._channel.close()

    async def call(
        self,
        rpc: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        metadata: Metadata = (),
        repeat: bool = True,
    ) -> Response:
        """One unary call; with `repeat` it is tried again for `timeout_s` seconds while it fails in passing.

        Raises Refusal, Unreachable or ServerFault (errors.py), never an error of grpc.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self.timeout_s
        backoff = Backoff()
        while True:
            try:
                return await rpc(
                    request, metadata=grpc.aio.Metadata(*metadata), timeout=max(ends_at - loop.time(), 0.001)
                )
            except grpc.aio.AioRpcError as failed:
                error = translate(failed)
            if not repeat or not is_transient(error):
                raise error
            try:
                async with asyncio.timeout_at(ends_at):
                    await backoff.wait()
            except TimeoutError:
                raise error from None
