"""The one thing that a gateway asks the lobby by itself: the keys that tokens are checked with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from services.lobby.tokens import public_set


class _Keys(lobby_pb2_grpc.LobbyServiceServicer):
    def __init__(self, keys_file: Path) -> None:
        self._found = json_format.ParseDict(public_set(keys_file), lobby_pb2.ListKeysResponse())

    def ListKeys(self, request: lobby_pb2.ListKeysRequest, context: Any) -> lobby_pb2.ListKeysResponse:
        return self._found


@contextlib.contextmanager
def serving_keys(keys_file: Path, port: int) -> Iterator[None]:
    """A lobby that tells its keys and nothing else."""
    server = grpc.server(ThreadPoolExecutor(2))
    lobby_pb2_grpc.add_LobbyServiceServicer_to_server(cast("Any", _Keys)(keys_file), server)
    checks = health.HealthServicer()
    checks.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield
    finally:
        server.stop(None)
