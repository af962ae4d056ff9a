"""What the gateway does with a call on its way: routes, retries, time-outs, limits, headers, formats, logs."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, cast

import grpc
import jwt
import pytest

from ddz.ledger.v1 import ledger_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2
from deploy.local import certificates, gateway
from deploy.local.leash import Leash
from tests.deploy.upstream import Door, door, empty, unavailable

MANY: Final = {"player_per_s": 1_000, "player_burst": 1_000, "login_per_s": 1_000, "login_burst": 1_000}
OWN = gateway.Limits(**MANY, answer_s=60, headers_s=60, request_s=60)
HASTY = gateway.Limits(**MANY, answer_s=1, headers_s=1, request_s=2)
FILES = (lobby_pb2, matchmaking_pb2, table_pb2, ledger_pb2)
PUBLIC = [
    f"/{service.full_name}/{method.name}"
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if "Internal" not in service.full_name and method.name != "ListKeys"
]
# Reads, what a key makes safe, and what gives the same answer again (docs of each in the proto).
REPEATED = {
    *(path for path in PUBLIC if "MatchmakingService" in path and "Watch" not in path),
    *(path for path in PUBLIC if "LedgerService" in path),
    "/ddz.table.v1.TableService/Act",
    "/ddz.table.v1.TableService/GetTable",
}
# How Envoy lets those be told that it trusts.
FORGED = {
    "x-envoy-max-retries": "9",
    "x-envoy-retry-on": "5xx",
    "x-envoy-retry-grpc-on": "unavailable",
    "x-envoy-upstream-rq-timeout-ms": "90000",
}


@pytest.fixture(scope="module")
async def own(leash: Leash, scratch: Path) -> AsyncIterator[Door]:
    """A gateway that shows a certificate which it was given by path."""
    shown = scratch / "shown"
    shown.mkdir()
    certificates.door(shown / "chain.pem", shown / "chain.key")
    trust = gateway.Trust(shown / "chain.pem", shown / "chain.key")
    async with door(leash, scratch / "own-door", OWN, trust) as found:
        await until(lambda: status(found, "GET", "/healthz"), 200)
        yield found


@pytest.fixture(scope="module")
async def hasty(leash: Leash, scratch: Path) -> AsyncIterator[Door]:
    """A gateway that waits for nobody."""
    async with door(leash, scratch / "hasty-door", HASTY) as found:
        await until(lambda: status(found, "GET", "/healthz"), 200)
        yield found


@pytest.fixture(autouse=True)
def _fresh(own: Door) -> None:
    for upstream in own.upstreams:
        upstream.answer = empty
        upstream.calls.clear()


async def until(ask: Callable[[], Any], wanted: Any) -> None:
    """Asks, in a thread, until the answer is the wanted one."""
    deadline = time.monotonic() + 20.0
    while (found := await asyncio.to_thread(ask)) != wanted:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


def ask(
    own: Door, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """One HTTP/1.1 call: status, body, headers in lower case."""
    with contextlib.closing(http.client.HTTPConnection(own.address, timeout=20)) as connection:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}


def status(own: Door, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    try:
        return ask(own, method, path, headers)[0]
    except OSError:
        return 0


def bearer(own: Door, player_id: str = "p1") -> dict[str, str]:
    return {"authorization": f"Bearer {own.token(player_id)}"}


async def call(
    own: Door, path: str, metadata: dict[str, str] | None = None, timeout_s: float = 20.0
) -> grpc.StatusCode:
    """How a gRPC call with an empty request ends."""
    async with grpc.aio.insecure_channel(own.address, options=(("grpc.enable_retries", 0),)) as channel:
        method = cast("Any", channel).unary_unary(path)
        try:
            await method(b"", metadata=tuple((bearer(own) | (metadata or {})).items()), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_every_public_call_reaches_its_service_once(own: Door) -> None:
    for path in PUBLIC:
        assert await call(own, path) is grpc.StatusCode.OK
    assert [method for method, _ in own.services.calls] == [path for path in PUBLIC if "TableService" not in path]
    at_tables = [method for table in own.tables for method, _ in table.calls]
    assert sorted(at_tables) == sorted(path for path in PUBLIC if "TableService" in path)


async def test_only_what_may_be_repeated_is_sent_again(own: Door) -> None:
    for upstream in own.upstreams:
        upstream.answer = unavailable
    seen = {}
    for path in PUBLIC:
        assert await call(own, path, dict(FORGED)) is grpc.StatusCode.UNAVAILABLE
        seen[path] = sum(len(upstream.calls) for upstream in own.upstreams)
        for upstream in own.upstreams:
            upstream.calls.clear()
    assert seen == {path: 3 if path in REPEATED else 1 for path in PUBLIC}


async def twenty_tables(own: Door) -> list[int]:
    """How many of twenty calls about different tables each node got; each must have been answered."""
    for table in own.tables:
        table.calls.clear()
    for number in range(20):
        assert await call(own, "/ddz.table.v1.TableService/Act", {"x-table-id": f"t{number}"}) is grpc.StatusCode.OK
    return [len(table.calls) for table in own.tables]


async def test_a_node_that_only_says_it_is_healthy_is_left_alone(own: Door) -> None:
    """Until then its calls are repeated on the other node, so that nobody notices."""
    deadline = time.monotonic() + 60.0
    while not all(await twenty_tables(own)):
        assert time.monotonic() < deadline
    ill, _ = own.tables
    ill.answer = unavailable
    while (await twenty_tables(own))[0]:
        assert time.monotonic() < deadline
    ejected = "envoy_cluster_outlier_detection_ejections_enforced_consecutive_gateway_failure"
    assert (await asyncio.to_thread(own.metrics))[f'{ejected}{{envoy_cluster_name="table"}}'] >= 1
    ill.answer = empty
    while not all(await twenty_tables(own)):
        assert time.monotonic() < deadline


async def test_a_node_that_is_back_is_sent_to_at_once(own: Door) -> None:
    """Envoy would tell its workers a second late of what it learns within a second of other such news: by then the
    node that they still send to may have died.
    """
    await until(lambda: own.healthy("table"), 2)
    away, _ = own.tables
    await away.be_healthy(False)
    await until(lambda: own.healthy("table"), 1)
    assert (await twenty_tables(own))[0] == 0
    await away.be_healthy(True)
    await until(lambda: own.healthy("table"), 2)
    assert all(await twenty_tables(own))


async def test_who_lost_his_node_is_sent_on_however_many_they_are(leash: Leash, scratch: Path) -> None:
    """What has not reached a server costs nobody anything when it is sent to another one."""
    many = 200
    async with door(leash, scratch / "crowded-door", OWN) as own:
        dying, left = own.tables
        everybody = asyncio.Event()

        async def once_all_are_there(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            if len(left.calls) == many:
                everybody.set()
            await everybody.wait()
            yield b""

        left.answer = once_all_are_there
        await dying.die()
        path = "/ddz.table.v1.TableService/Watch"
        found = await asyncio.gather(*(call(own, path, {"x-table-id": f"t{number}"}) for number in range(many)))
    assert found == [grpc.StatusCode.OK] * many


async def silent(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def test_a_call_that_is_not_answered_ends_and_a_stream_goes_on(hasty: Door) -> None:
    for upstream in hasty.upstreams:
        upstream.answer = silent
    before = len(hasty.log())
    names = ("ledger.v1.LedgerService/GetBalance", "table.v1.TableService/GetTable")
    waits = [call(hasty, f"/ddz.{name}", dict(FORGED)) for name in names]
    ended = await asyncio.gather(*waits, call(hasty, "/ddz.table.v1.TableService/Watch", timeout_s=3.0))
    assert ended == [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED]
    why: dict[str, str] = {}
    while not {"GetBalance", "GetTable", "Watch"} <= why.keys():
        await asyncio.sleep(0.05)
        why = {line["path"].rpartition("/")[2]: line["details"] for line in hasty.log()[before:]}
    assert (why["GetBalance"], why["GetTable"]) == ("response_timeout", "response_timeout")
    assert "timeout" not in why["Watch"]  # the caller's own


def slow(port: int, begin: bytes, more: bytes) -> tuple[bytes, float]:
    """Sends `begin`, then `more` again and again until there is an answer or an end; the answer, and after how long."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as connection:
        connection.sendall(begin)
        while time.monotonic() - begun < 15.0:
            with contextlib.suppress(TimeoutError):
                return connection.recv(4096), time.monotonic() - begun
            with contextlib.suppress(OSError):
                connection.sendall(more)
    return b"", time.monotonic() - begun


async def test_who_sends_slowly_is_not_waited_for(hasty: Door) -> None:
    head = b"POST /v1/%s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n%s\r\n{"
    auth = f"authorization: Bearer {hasty.token()}\r\n".encode()
    tries = [
        (b"GET /v1/rooms HTTP/1.1\r\nhost: x\r\n", b"x-more: 1\r\n"),
        (head % (b"login", b""), b" "),
        (head % (b"relief", auth), b" "),
        (b"\x16\x03\x01\x02", b"\x00"),
    ]
    doors = (hasty.doors.plain, hasty.doors.plain, hasty.doors.plain, hasty.doors.tls)
    ends = await asyncio.gather(
        *(asyncio.to_thread(slow, port, *parts) for port, parts in zip(doors, tries, strict=True))
    )
    assert all(b" 200 " not in answer for answer, _ in ends)
    assert all(after_s < 14.0 for _, after_s in ends), ends


@pytest.mark.parametrize("headers", [{"x-long": "x" * 20_000}, {f"x-{number}": "1" for number in range(80)}])
async def test_headers_have_a_limit(own: Door, headers: dict[str, str]) -> None:
    assert await asyncio.to_thread(status, own, "GET", "/v1/balance", bearer(own) | headers) == 431
    assert not own.services.calls


async def test_a_service_is_told_who_calls_and_from_where_whatever_the_caller_says(own: Door) -> None:
    forged = FORGED | {"x-forwarded-for": "192.0.2.7", "x-player-bot": "true"}
    forged |= {"x-player-name": "forged", "x-player-avatar": "7", "x-envoy-original-path": "/v1/tables/forged"}
    forged |= {"x-player-until": "9" * 10}
    assert await asyncio.to_thread(status, own, "GET", "/v1/balance", bearer(own, "p77") | forged) == 200
    [(_, seen)] = own.services.calls
    assert seen["x-player-id"] == "p77"
    assert seen["x-player-until"] == str(jwt.decode(own.token("p77"), options={"verify_signature": False})["exp"])
    first, last = str(seen["x-forwarded-for"]).split(",")
    assert (first, last.strip() == "192.0.2.7") == ("192.0.2.7", False)
    assert not {"x-player-bot", "x-player-name", "x-player-avatar", "authorization", *FORGED} & seen.keys()
    assert seen["x-envoy-original-path"] == "/v1/balance"


async def test_a_trace_goes_through_the_log_and_to_the_service(own: Door) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    given = bearer(own) | {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    for headers in (given, bearer(own)):
        assert await asyncio.to_thread(status, own, "GET", "/v1/transfers", headers) == 200
    ids = [str(seen["traceparent"]).split("-")[1] for _, seen in own.services.calls]
    assert ids[0] == trace
    assert len(ids[1]) == 32
    assert ids[1] != trace
    await until(lambda: [line["trace"] for line in own.log() if line["path"] == "/v1/transfers"], ids)
    assert {"at", "request", "method", "status", "grpc_status", "player", "peer", "duration_ms"} <= own.log()[-1].keys()


async def test_every_answer_has_the_headers_that_browsers_heed(own: Door) -> None:
    asked = [("GET", "/", {}), ("GET", "/v1/balance", {}), ("GET", "/nowhere", {}), ("GET", "/v1/balance", bearer(own))]
    answers = [await asyncio.to_thread(ask, own, *each) for each in asked]
    assert [answer[0] for answer in answers] == [200, 401, 404, 200]
    for _, _, headers in answers:
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["strict-transport-security"].startswith("max-age=")
        assert headers["server"] == "ddz"
        assert not [name for name in headers if name.startswith("x-envoy")]
    assert "script-src 'self'" in answers[0][2]["content-security-policy"]
    assert all(headers["cache-control"] == "no-store" for _, _, headers in answers[1:])


@pytest.mark.parametrize(("origin", "allowed"), [("https://localhost:8443", True), ("https://evil.example", False)])
async def test_only_the_pages_own_origins_may_call(own: Door, origin: str, allowed: bool) -> None:
    headers = {"origin": origin, "access-control-request-method": "POST"}
    headers |= {"access-control-request-headers": "authorization,x-grpc-web"}
    _, _, found = await asyncio.to_thread(ask, own, "OPTIONS", "/ddz.table.v1.TableService/Act", headers)
    assert (found.get("access-control-allow-origin") == origin) is allowed
    assert ("authorization" in found.get("access-control-allow-headers", "")) is allowed
    _, _, found = await asyncio.to_thread(ask, own, "GET", "/v1/balance", bearer(own) | {"origin": origin})
    assert (found.get("access-control-allow-origin") == origin) is allowed


async def two_rooms(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    for online in (1, 2):
        yield lobby_pb2.WatchLobbyResponse(online=online).SerializeToString()


@pytest.mark.parametrize(
    ("accept", "content_type", "begin", "between"),
    [("*/*", "application/json", b"{", b"\n"), ("text/event-stream", "text/event-stream", b"data: {", b"\n\n")],
)
async def test_a_stream_comes_as_lines_or_as_server_sent_events(
    own: Door, accept: str, content_type: str, begin: bytes, between: bytes
) -> None:
    own.services.answer = two_rooms
    answer = await asyncio.to_thread(ask, own, "GET", f"/v1/lobby?access_token={own.token()}", {"accept": accept})
    assert answer[2]["content-type"] == content_type
    parts = answer[1].removesuffix(between).split(between)
    assert [part.startswith(begin) for part in parts] == [True, True]
    assert [b'"online":%d' % online in part for online, part in zip((1, 2), parts, strict=True)] == [True, True]
    unary = await asyncio.to_thread(ask, own, "GET", "/v1/balance", bearer(own) | {"accept": accept})
    assert unary[2]["content-type"] == "application/json"


async def test_grpc_comes_by_tls_with_the_certificate_that_was_given(own: Door, scratch: Path) -> None:
    credentials = grpc.ssl_channel_credentials((scratch / "shown" / "chain.pem").read_bytes())
    async with grpc.aio.secure_channel(f"localhost:{own.doors.tls}", credentials) as channel:
        method = cast("Any", channel).unary_unary("/ddz.ledger.v1.LedgerService/GetBalance")
        assert await method(b"", metadata=tuple(bearer(own).items()), timeout=10) == b""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("AES128-SHA")  # no forward secrecy
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", own.doors.tls)) as plain, pytest.raises(OSError):  # noqa: PT011
        old.wrap_socket(plain, server_hostname="localhost")


def from_address(port: int, source: str, times: int) -> list[int]:
    """The statuses of so many calls without a token from an address of loopback."""
    found = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
    for _ in range(times):
        connection.request("GET", "/v1/balance")
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
    connection.close()
    return found


async def test_an_address_has_its_calls_and_the_gateway_its_connections(leash: Leash, scratch: Path) -> None:
    limits = gateway.Limits(address_per_s=1, address_burst=20, connections=8)
    async with door(leash, scratch / "tight-door", limits) as tight:
        try:
            many = await asyncio.to_thread(from_address, tight.doors.plain, "127.0.0.2", 40)
        except OSError:
            pytest.skip("this system has one address of loopback")
        assert set(many) == {401, 429}
        assert await asyncio.to_thread(from_address, tight.doors.plain, "127.0.0.3", 5) == [401] * 5
        with contextlib.ExitStack() as held:
            for _ in range(30):
                connection = held.enter_context(socket.create_connection(("127.0.0.1", tight.doors.plain), timeout=10))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert connection.recv(100) == b""
        await until(lambda: status(tight, "GET", "/healthz") > 0, True)


async def once(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Says one thing and stays open."""
    yield b""
    await asyncio.Event().wait()


async def test_a_service_has_as_many_streams_as_people_open(own: Door) -> None:
    """Envoy's own limit for a service is 1,024, and a table has three."""
    own.services.answer = once
    async with contextlib.AsyncExitStack() as held:
        for number in range(8):
            options = (("grpc.use_local_subchannel_pool", 1),)
            channel = await held.enter_async_context(grpc.aio.insecure_channel(own.address, options=options))
            watch = cast("Any", channel).unary_stream("/ddz.lobby.v1.LobbyService/WatchLobby")
            calls = [watch(b"", metadata=tuple(bearer(own, f"p{number}").items())) for _ in range(150)]
            assert await asyncio.gather(*(one.read() for one in calls)) == [b""] * 150
        own.services.answer = empty
        assert await call(own, "/ddz.ledger.v1.LedgerService/GetBalance") is grpc.StatusCode.OK
