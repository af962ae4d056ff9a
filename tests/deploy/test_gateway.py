"""The gateway lets in who has a token, as the player that it names, to the public calls, and nobody else anywhere."""

from __future__ import annotations

import datetime
import hmac
import http.client
import json
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2
from deploy.local import gateway, ports, servers
from deploy.local.stack import Stack
from servicekit import errors
from tests.deploy.door import claims, key_of, rest, seconds, status_of

WITHOUT_TOKEN = {"Login", "Register", "Refresh", "ListKeys"}
FILES = (lobby_pb2, matchmaking_pb2, table_pb2, ledger_pb2)
METHODS = [
    (f"/{service.full_name}/{method.name}", method)
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
PUBLIC = [path for path, method in METHODS if "Internal" not in path and method.name not in WITHOUT_TOKEN]
INTERNAL = [path for path, _ in METHODS if "Internal" in path]
NEVER = [
    *INTERNAL,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.health.v1.Health/Check",
    "/ddz.lobby.v1.LobbyService/",
    "/ddz.lobby.v1.LobbyService/NoSuchCall",
    "/ddz.none.v1.NoService/Call",
]


def test_the_configuration_is_valid_for_any_number_of_nodes(tmp_path: Path) -> None:
    nodes = {name: [1000 + number] for number, name in enumerate(ports.SERVICES)} | {"table": [2000, 2001, 2002]}
    path = gateway.prepare(tmp_path, gateway.Doors(1, 2, 3), nodes, gateway.Limits())
    command = [str(servers.envoy_binary()), "--mode", "validate", "-c", str(path), "-l", "warning"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_healthz_says_that_all_services_are_up(stack: Stack) -> None:
    assert rest(stack.address, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("path", PUBLIC)
def test_no_public_call_without_a_token(stack: Stack, path: str) -> None:
    assert status_of(stack.address, path, {}) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("path", NEVER)
@pytest.mark.parametrize("logged_in", [True, False])
def test_what_is_not_public_is_not_there(stack: Stack, session: lobby_pb2.Session, path: str, logged_in: bool) -> None:
    metadata = {"authorization": f"Bearer {session.access_token}"} if logged_in else {}
    expected = (
        {grpc.StatusCode.UNIMPLEMENTED}
        if logged_in or "LobbyService" not in path
        else {grpc.StatusCode.UNAUTHENTICATED}
    )
    assert status_of(stack.address, path, metadata) in expected


def test_there_are_internal_calls_to_hide() -> None:
    assert len(INTERNAL) >= 8
    assert len(PUBLIC) >= 20


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "somebody"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"exp": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)},
        {"exp": None},
        {"nbf": datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(stack: Stack, changed: dict[str, Any]) -> None:
    kid, key = key_of(stack)
    good = jwt.encode(claims(), key, algorithm="ES256", headers={"kid": kid})
    assert rest(stack.address, "GET", "/v1/balance", token=good)[0] == 200
    bad = jwt.encode(claims(**changed), key, algorithm="ES256", headers={"kid": kid})
    status, answer, _ = rest(stack.address, "GET", "/v1/balance", token=bad)
    assert status in {401, 403}
    assert "balance" not in answer


def test_a_token_of_a_foreign_key_is_refused(stack: Stack) -> None:
    kid, _ = key_of(stack)
    foreign = ec.generate_private_key(ec.SECP256R1())
    for headers in ({"kid": kid}, {"kid": "unknown"}, {}):
        token = jwt.encode(claims(), foreign, algorithm="ES256", headers=headers)
        assert rest(stack.address, "GET", "/v1/balance", token=token)[0] == 401


def test_an_unsigned_token_is_refused(stack: Stack) -> None:
    kid, _ = key_of(stack)
    token = jwt.encode(claims(), "", algorithm="none", headers={"kid": kid})
    assert rest(stack.address, "GET", "/v1/balance", token=token)[0] == 401


def test_the_public_key_is_no_secret_to_sign_with(stack: Stack) -> None:
    kid, _ = key_of(stack)
    status, told, _ = rest(stack.address, "GET", "/.well-known/jwks.json")
    assert (status, "d" in told["keys"][0]) == (200, False)
    public = json.dumps(told)
    head, body = (
        jwt.utils.base64url_encode(json.dumps(part, default=seconds).encode())
        for part in ({"alg": "HS256", "typ": "JWT", "kid": kid}, claims())
    )
    signature = hmac.digest(public.encode(), head + b"." + body, "sha256")
    token = b".".join((head, body, jwt.utils.base64url_encode(signature))).decode()
    assert rest(stack.address, "GET", "/v1/balance", token=token)[0] == 401


@pytest.mark.parametrize("name", ["x-player-id", "X-Player-Id", "x_player_id"])
def test_who_i_am_is_what_the_token_says(stack: Stack, session: lobby_pb2.Session, name: str) -> None:
    status, answer, _ = rest(
        stack.address, "GET", "/v1/balance", token=session.access_token, headers={name: "somebody-else"}
    )
    if "_" in name:
        assert status == 400
    else:
        assert answer["balance"]["playerId"] == session.player_id


def test_an_identity_header_is_no_token(stack: Stack, session: lobby_pb2.Session) -> None:
    assert rest(stack.address, "GET", "/v1/balance", headers={"x-player-id": session.player_id})[0] == 401
    path = "/ddz.ledger.v1.LedgerService/GetBalance"
    assert status_of(stack.address, path, {"x-player-id": session.player_id}) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "path",
    [
        "/v1/login/../balance",
        "/v1/login/%2e%2e/balance",
        "/v1/login%2f..%2fbalance",
        "//v1/balance",
        "/v1//balance",
        "/%761/balance",
        "/V1/balance",
        "/v1/balance/",
        "/v1/balance?access_token=",
        "/v1/login?x=/v1/balance",
        "/v1/login/balance",
        "/ddz.lobby.v1.LobbyService/Login/../../ddz.ledger.v1.LedgerService/GetBalance",
    ],
)
def test_no_spelling_of_a_path_goes_around_the_token(stack: Stack, path: str) -> None:
    for headers in ({}, {"x-envoy-original-path": "/v1/login", "x-original-url": "/v1/login"}):
        status, answer, _ = rest(stack.address, "GET", path, headers=headers)
        assert status >= 400
        assert "playerId" not in str(answer)


def test_a_refusal_reaches_rest_with_its_details(stack: Stack, session: lobby_pb2.Session) -> None:
    status, answer, _ = rest(stack.address, "GET", "/v1/hands/none", token=session.access_token)
    assert status == 404
    assert answer["details"][0]["@type"].endswith("/ddz.common.v1.Refusal")
    assert answer["details"][0]["reason"] == "REASON_NOT_FOUND"


async def test_a_refusal_reaches_grpc_with_its_details(stack: Stack, session: lobby_pb2.Session) -> None:
    async with grpc.aio.insecure_channel(stack.address) as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        metadata = (("authorization", f"Bearer {session.access_token}"),)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetHand(ledger_pb2.GetHandRequest(hand_id="none"), metadata=metadata, timeout=10)
    refusal = errors.from_rpc_error(caught.value)
    assert refusal is not None
    assert refusal.reason == "NOT_FOUND"


def test_what_the_gateway_refuses_looks_like_what_a_service_refuses(stack: Stack, session: lobby_pb2.Session) -> None:
    own = session.access_token
    for path, token, status, code in (
        ("/v1/balance", "", 401, 16),
        ("/v1/none", own, 404, 5),
        ("/v1/hands/none?nonsense=1", own, 400, 3),
    ):
        found, answer, _ = rest(stack.address, "GET", path, token=token)
        assert (found, answer["code"], answer["details"]) == (status, code, [])


def test_a_body_has_a_limit(stack: Stack) -> None:
    body = {"guest": {"deviceKey": "x" * 100_000}}
    assert rest(stack.address, "POST", "/v1/login", body=body)[0] in {400, 413}
    deep = ("[" * 10_000 + "]" * 10_000).encode()
    assert rest(stack.address, "POST", "/v1/login", body=deep)[0] == 400
    assert rest(stack.address, "POST", "/v1/login", body=b"\x00\xff not json")[0] == 400


def test_tls_speaks_http2_with_a_certificate_for_localhost(stack: Stack) -> None:
    context = ssl.create_default_context(cadata=stack.certificate.decode())
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(
        socket.create_connection(("127.0.0.1", stack.ports.gateway_tls)),
        server_hostname="localhost",
    ) as connection:
        assert connection.selected_alpn_protocol() == "h2"


def test_grpc_web_from_a_browser(stack: Stack) -> None:
    request = lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key="grpc-web-device-key")).SerializeToString()
    headers = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1", "origin": "https://localhost:8443"}
    connection = http.client.HTTPConnection(stack.address, timeout=10)
    frame = b"\x00" + len(request).to_bytes(4, "big") + request
    connection.request("POST", "/ddz.lobby.v1.LobbyService/Login", body=frame, headers=headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.getheader("access-control-allow-origin") == "https://localhost:8443"
    response = lobby_pb2.LoginResponse.FromString(data[5 : 5 + int.from_bytes(data[1:5], "big")])
    assert response.session.player_id
    assert b"grpc-status:0" in data
