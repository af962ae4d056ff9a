"""The gateway lets in who has a token, as the player that it names, to the public calls, and nobody else anywhere."""

from __future__ import annotations

import contextlib
import datetime
import hmac
import http.client
import json
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from deploy.local import gateway, ports, servers
from deploy.local.leash import Leash
from deploy.local.stack import Stack
from servicekit import errors

NEW_KEY = {
    **jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True),
    "kid": "new",
    "alg": "ES256",
    "use": "sig",
}
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


@pytest.fixture(scope="module")
def session(stack: Stack) -> lobby_pb2.Session:
    return log_in(stack, "gateway-test")


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


def _seconds(moment: datetime.datetime) -> int:
    return int(moment.timestamp())


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
        jwt.utils.base64url_encode(json.dumps(part, default=_seconds).encode())
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


def test_only_the_metrics_of_the_admin_interface_are_seen(stack: Stack) -> None:
    metrics = f"127.0.0.1:{stack.ports.gateway_metrics}"
    status, text, _ = rest(metrics, "GET", "/metrics")
    assert status == 200
    assert "envoy_http_downstream_rq_total" in text
    for path in ("/", "/config_dump", "/certs", "/logging", "/stats", "/metrics/../config_dump"):
        assert rest(metrics, "GET", path)[0] == 404
    assert rest(metrics, "POST", "/quitquitquit")[0] == 404
    assert stat.S_IMODE((stack.folder / "gateway" / "admin.sock").stat().st_mode) == 0o600


@pytest.fixture(scope="module")
def strict(stack: Stack, leash: Leash, scratch: Path) -> Iterator[str]:
    """The address of a second gateway before the same services, with tight limits, that asks for keys every second."""
    folder = scratch / "strict"
    folder.mkdir()
    plain, tls, metrics = ports.free(3)
    doors = gateway.Doors(plain, tls, metrics)
    nodes = {service: [node.grpc for node in found] for service, found in stack.ports.services.items()}
    limits = gateway.Limits(player_per_s=1, player_burst=3, login_per_s=1, login_burst=4)
    path = gateway.prepare(folder, doors, nodes, limits, keys_cache_s=1)
    with servers.gateway(leash, folder, path, doors.metrics) as process:
        address = f"127.0.0.1:{doors.plain}"
        process.wait_until(lambda: rest(address, "GET", "/healthz")[0] == 200)
        yield address


def test_keys_rotate_without_a_restart_and_two_are_good_at_once(stack: Stack, strict: str) -> None:
    """docs/operations.md: a key is made known, then it signs, then the old one goes."""
    file = gateway.private_keys(stack.folder / "gateway")
    held = file.read_text()
    first = json.loads(held)["keys"][0]
    old, new = (
        jwt.encode(claims(sub="p900001"), jwt.PyJWK(key).key, algorithm="ES256", headers={"kid": key["kid"]})
        for key in (first, NEW_KEY)
    )

    def good() -> list[bool]:
        return [rest(strict, "GET", "/v1/balance", token=token)[0] != 401 for token in (old, new)]

    def rotate(keys: list[dict[str, Any]], expected: list[bool]) -> None:
        file.write_text(json.dumps({"keys": keys}))
        deadline = time.monotonic() + 20.0
        while good() != expected:
            assert time.monotonic() < deadline, (good(), expected)
            time.sleep(0.05)

    try:
        rotate([first], [True, False])
        rotate([first, NEW_KEY], [True, True])
        rotate([NEW_KEY, first], [True, True])
        signed = log_in(stack, "rotated").access_token
        assert jwt.get_unverified_header(signed)["kid"] == "new"
        assert rest(strict, "GET", "/v1/balance", token=signed)[0] == 200
        rotate([NEW_KEY], [False, True])
        assert [key["kid"] for key in rest(stack.address, "GET", "/.well-known/jwks.json")[1]["keys"]] == ["new"]
    finally:
        rotate([first], [True, False])


def test_calls_of_a_player_have_a_limit_of_their_own(stack: Stack, strict: str) -> None:
    one, other = log_in(stack, "limited-one"), log_in(stack, "limited-other")
    answers = [rest(strict, "GET", "/v1/balance", token=one.access_token) for _ in range(30)]
    refused = [answer for status, answer, _ in answers if status == 429]
    assert answers[0][0] == 200
    assert refused
    assert refused[0]["code"] == 8
    path = "/ddz.ledger.v1.LedgerService/GetBalance"
    codes = {status_of(strict, path, {"authorization": f"Bearer {one.access_token}"}) for _ in range(10)}
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
    assert rest(strict, "GET", "/v1/balance", token=other.access_token)[0] == 200


def test_log_ins_from_an_address_have_a_limit(strict: str) -> None:
    body = {"guest": {"deviceKey": "too-many-log-ins"}}
    assert 429 in {rest(strict, "POST", "/v1/login", body=body)[0] for _ in range(30)}


def test_one_node_serves_a_table_whatever_the_door(stack: Stack, session: lobby_pb2.Session) -> None:
    tables = [f"affinity-{number}" for number in range(12)]
    with grpc.insecure_channel(stack.address) as channel:
        stub = table_pb2_grpc.TableServiceStub(channel)
        for table in tables:
            metadata = (("authorization", f"Bearer {session.access_token}"), ("x-table-id", table))
            with pytest.raises(grpc.RpcError):
                stub.GetTable(table_pb2.GetTableRequest(table_id=table), metadata=metadata, timeout=10)
            assert rest(stack.address, "GET", f"/v1/tables/{table}", token=session.access_token)[0] == 404
    found = nodes_by_table(stack, tables)
    assert all(len(nodes) == 1 for nodes in found.values()), found
    assert len(set().union(*found.values())) == 2


def nodes_by_table(stack: Stack, tables: list[str]) -> dict[str, set[str]]:
    """Which nodes the access log names for each table, once it has two lines for each."""
    deadline = time.monotonic() + 10.0
    while True:
        lines = [json.loads(line) for line in (stack.folder / "gateway" / "access.log").read_text().splitlines()]
        found = {
            table: [
                line["upstream"] for line in lines if table in (line["table"], str(line["path"]).rpartition("/")[2])
            ]
            for table in tables
        }
        if all(len(nodes) == 2 for nodes in found.values()):
            return {table: set(nodes) for table, nodes in found.items()}
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_rest_streams_one_json_object_a_line_from_a_snapshot_on(stack: Stack) -> None:
    token = log_in(stack, "rest-stream").access_token
    body = {"requestId": "rest-stream-1"}
    status, opened, _ = rest(stack.address, "POST", "/v1/rooms/happy-beginner/tables", token=token, body=body)
    assert status == 200, opened
    with contextlib.closing(http.client.HTTPConnection(stack.address, timeout=10)) as connection:
        headers = {"authorization": f"Bearer {token}"}
        connection.request("GET", f"/v1/tables/{opened['tableId']}/events", headers=headers)
        with connection.getresponse() as answer:
            assert answer.status == 200
            first = json.loads(answer.readline())
    assert first["snapshot"]["tableId"] == opened["tableId"]


def test_the_access_log_holds_no_token(stack: Stack, session: lobby_pb2.Session) -> None:
    marked = f"/v1/balance?access_token={session.access_token}"
    status, answer, _ = rest(stack.address, "GET", marked)
    assert (status, answer["balance"]["playerId"]) == (200, session.player_id)
    log = stack.folder / "gateway" / "access.log"
    deadline = time.monotonic() + 10.0
    while '"/v1/balance"' not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert '"/v1/balance"' in log.read_text()
    assert session.access_token not in log.read_text()
