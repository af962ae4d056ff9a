"""The gateway's keys, limits, routes by table and streams over REST; what it shows and writes of itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ddz.lobby.v1 import lobby_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from deploy.local import gateway, ports, servers
from deploy.local.leash import Leash
from deploy.local.stack import Stack
from tests.deploy.door import claims, log_in, rest, status_of

NEW_KEY = {
    **jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True),
    "kid": "new",
    "alg": "ES256",
    "use": "sig",
}


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
    codes = (status_of(strict, path, {"authorization": f"Bearer {one.access_token}"}) for _ in range(200))
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
    assert rest(strict, "GET", "/v1/balance", token=other.access_token)[0] == 200


def test_log_ins_from_an_address_have_a_limit(strict: str) -> None:
    body = {"guest": {"deviceKey": "too-many-log-ins"}}
    assert 429 in (rest(strict, "POST", "/v1/login", body=body)[0] for _ in range(200))


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
