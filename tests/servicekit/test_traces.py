"""Spans go to a collector if there is one, and names of what is being done go along either way."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from deploy.local import ports
from doudizhu.refusal import Refusal
from servicekit import ids, logs, traces
from servicekit.server import ServerConfig, channel, serving
from tests.collector import Collector, collecting

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{CALLER}-01"
GET_HAND = "ddz.ledger.v1.LedgerService/GetHand"


class Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    """Refuses a hand, and asks itself once more for the first of two."""

    names = ("ddz.ledger.v1.LedgerService",)

    def __init__(self) -> None:
        self.itself: Any = None  # as another service calls it
        self.asked: Any = None  # as the gateway does
        self.known: list[dict[str, str]] = []

    def register(self, server: grpc.aio.Server) -> None:
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self, server)

    async def drain(self) -> None:
        pass

    async def GetHand(self, request: ledger_pb2.GetHandRequest, context: Any) -> ledger_pb2.GetHandResponse:
        self.known.append(ids.known())
        logs.get("test").warning("asked")
        if request.hand_id == "first":
            answer: ledger_pb2.GetHandResponse = await self.itself.GetHand(ledger_pb2.GetHandRequest(hand_id="second"))
            return answer
        if request.hand_id == "second":
            return ledger_pb2.GetHandResponse()
        raise Refusal("NOT_FOUND", "these words are for the caller alone")


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    service = cast("Any", Ledger)()  # it answers one of the service's calls only
    config = ServerConfig(grpc_address="127.0.0.1:0", metrics_address="127.0.0.1:0", drain_s=0.0)
    async with serving(config, service) as port:
        target = f"127.0.0.1:{port}"
        async with channel(target) as inside, grpc.aio.insecure_channel(target) as outside:
            service.itself = ledger_pb2_grpc.LedgerServiceStub(inside)
            service.asked = ledger_pb2_grpc.LedgerServiceStub(outside)
            yield service


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What has been logged since, as a service logs it."""
    root, written = logging.getLogger(), io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    before, level = root.handlers[:], root.level
    logs.configure("test", "INFO")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)


async def ask(ledger: Ledger, hand_id: str, **metadata: str) -> None:
    headers = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
    with contextlib.suppress(grpc.aio.AioRpcError):
        await ledger.asked.GetHand(ledger_pb2.GetHandRequest(hand_id=hand_id), metadata=headers)


@contextlib.asynccontextmanager
async def telling(ratio: float = 1.0) -> AsyncIterator[Collector]:
    """Spans are told until left; then all of them have come."""
    [port] = ports.free(1)
    with collecting(port) as collector:
        told = traces.told("test", "test-1", f"127.0.0.1:{port}", ratio)
        told.__enter__()
        try:
            yield collector
        finally:
            await asyncio.to_thread(told.__exit__, None, None, None)


def traces_of(collector: Collector) -> set[str]:
    """Of the calls of this service: a process of tests may have others at work."""
    return {span.trace_id for span in collector.spans if span.name == GET_HAND}


async def test_without_a_collector_the_log_names_the_callers_trace_and_so_do_further_calls(
    ledger: Ledger, lines: Any
) -> None:
    with traces.told("test", "", "", 1.0):
        await ask(ledger, "first", traceparent=GIVEN, x_player_id="p1")
    common = {"trace": TRACE, "span": CALLER}
    assert ledger.known == [{**common, "player": "p1", "hand": "first"}, {**common, "hand": "second"}]
    assert [{**line, **known} == line for line, known in zip(lines(), ledger.known, strict=True)] == [True, True]
    assert traces.begin("x", traces.SpanKind.INTERNAL, traces.parent(GIVEN)) is not None
    with traces.within(traces.parent(GIVEN)):
        assert traces.news_headers() is None


async def test_who_names_no_trace_or_none_that_is_one_is_served_all_the_same(ledger: Ledger) -> None:
    for named in ("", "00-0-0-0", "x" * 2_000):
        await ask(ledger, "second", traceparent=named)
    await ask(ledger, "second")
    assert ledger.known == [{"hand": "second"}] * 4


async def test_calls_are_spans_below_those_of_their_callers(ledger: Ledger) -> None:
    async with telling() as collector:
        await ask(ledger, "first", traceparent=GIVEN, x_player_id="p1")
    first = collector.one(lambda span: span.parent_id == CALLER)
    client = collector.one(lambda span: span.parent_id == first.span_id)
    second = collector.one(lambda span: span.parent_id == client.span_id)
    assert {span.trace_id for span in (first, client, second)} == {TRACE}
    assert [span.whole.kind for span in (first, client, second)] == [2, 3, 2]  # server, client, server
    assert first.attributes == {
        "rpc.system": "grpc",
        "rpc.service": "ddz.ledger.v1.LedgerService",
        "rpc.method": "GetHand",
        "rpc.grpc.status_code": 0,
        "ddz.player_id": "p1",
        "ddz.hand_id": "first",
    }
    assert [known["span"] for known in ledger.known] == [first.span_id, second.span_id]


async def test_a_refusal_is_told_by_its_status_alone(ledger: Ledger) -> None:
    async with telling() as collector:
        await ask(ledger, "none", traceparent=GIVEN)
    span = collector.one(lambda span: span.parent_id == CALLER)
    assert span.attributes["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
    assert span.whole.status.code == 0  # the caller's mistake is none of ours
    assert "these words" not in str(span.whole)


async def test_a_trace_that_is_not_told_where_it_began_is_told_nowhere(ledger: Ledger) -> None:
    async with telling() as collector:
        await ask(ledger, "first", traceparent=GIVEN.removesuffix("01") + "00")
    assert not traces_of(collector)
    async with telling(ratio=0.0) as collector:
        await ask(ledger, "first")
        await ask(ledger, "second", traceparent=GIVEN)
    assert traces_of(collector) == {TRACE}


async def test_news_go_on_in_their_trace_and_what_hears_others_does_not(ledger: Ledger) -> None:
    async with telling() as collector:
        with traces.span("told") as told:
            headers = traces.news_headers()
            with traces.heard("ddz.x", None), traces.span("nobody's"):
                pass
        with traces.heard("ddz.x", headers), contextlib.ExitStack() as until:
            assert headers is not None
            traces.hearing("ddz.y", traces.telling("ddz.y", headers[traces.HEADER], until), until)
        assert not traces.telling("ddz.y", None, contextlib.ExitStack())
    root = f"{told.get_span_context().span_id:016x}"
    names = {span.name: span for span in collector.spans}
    assert names["nobody's"].parent_id == ""
    assert names["process ddz.x"].parent_id == names["publish ddz.y"].parent_id == root
    assert names["process ddz.y"].parent_id == names["publish ddz.y"].span_id


async def test_a_timer_is_nobodys(ledger: Ledger) -> None:
    fired = asyncio.get_running_loop().create_future()
    with traces.within(traces.parent(GIVEN)):
        ids.bind(table="t1")
        asyncio.get_running_loop().call_later(0, lambda: fired.set_result(ids.known()), context=traces.nobodys())
        assert ids.known() == {"trace": TRACE, "span": CALLER, "table": "t1"}
    assert await fired == {}


async def test_a_collector_that_is_away_costs_its_spans_and_one_line(ledger: Ledger, lines: Any) -> None:
    [port] = ports.free(1)
    told = traces.told("test", "", f"127.0.0.1:{port}", 1.0)
    told.__enter__()
    for _ in range(600):  # more than go at once
        await ask(ledger, "second")
    await asyncio.to_thread(told.__exit__, None, None, None)
    assert len(ledger.known) == 600
    assert [line["message"] for line in lines() if line["logger"] == "ddz.traces"] == [
        "the collector of traces does not answer"
    ]
