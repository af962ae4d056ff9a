"""What tests knock at the gateway with: REST calls, gRPC calls, log-ins and tokens."""

from __future__ import annotations

import datetime
import http.client
import json
from typing import Any

import grpc
import jwt

from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from deploy.local import gateway
from deploy.local.stack import Stack


def rest(
    address: str, method: str, path: str, *, token: str = "", body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, dict[str, str]]:
    """One REST call: status, parsed JSON (or the text), headers in lower case."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        sent = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        connection.request(method, path, body=data, headers=sent | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        found = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, json.loads(text) if "json" in found.get("content-type", "") else text, found
    finally:
        connection.close()


def log_in(stack: Stack, name: str) -> lobby_pb2.Session:
    """A guest's session, over gRPC."""
    with grpc.insecure_channel(stack.address) as channel:
        request = lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key=name.ljust(16, ".")))
        return lobby_pb2_grpc.LobbyServiceStub(channel).Login(request, timeout=10).session


def status_of(address: str, path: str, metadata: dict[str, str]) -> grpc.StatusCode:
    """How a gRPC call of a path with an empty request ends."""
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        try:
            call(b"", metadata=tuple(metadata.items()), timeout=10)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def key_of(stack: Stack) -> tuple[str, Any]:
    """The lobby's own signing key, with its id."""
    key = json.loads(gateway.private_keys(stack.folder / "gateway").read_text())["keys"][0]
    return key["kid"], jwt.PyJWK(key).key


def claims(**changed: Any) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    good = {"iss": "ddz-lobby", "aud": "ddz", "sub": "p1", "iat": now, "exp": now + datetime.timedelta(minutes=5)}
    return {name: value for name, value in (good | changed).items() if value is not None}


def seconds(moment: datetime.datetime) -> int:
    return int(moment.timestamp())
