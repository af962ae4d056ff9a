"""One trace goes from the edge to the settlement and its news; nothing that is told names a card or a secret."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ddz.ledger.v1 import ledger_pb2
from ddzclient import Gateway, Player, Session
from deploy.local import folders, gateway, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from tests.collector import Collector, Told, collecting

# All that a span of a service may say. No cards, no tokens, no seeds, and no free text.
ATTRIBUTES = {
    "rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code", "messaging.system", "messaging.destination.name",
    "ddz.table_id", "ddz.hand_id", "ddz.player_id", "ddz.batch_size", "ddz.waited_ms",
}  # fmt: skip


@dataclass(slots=True)
class Traced:
    """A stack that tells of its spans, and the first hand that was played there."""

    stack: whole.Stack
    collector: Collector
    leave: contextlib.ExitStack  # ends the collector
    hand: ledger_pb2.GetHandResponse | None = None
    secrets: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def traced(leash: Leash, scratch: Path) -> Iterator[Traced]:
    plan, (port,) = ports.plan(ports.free(ports.count(1)), 1), ports.free(1)
    options = whole.Options(
        rooms_file=folders.ROOT / "deploy" / "rooms.fast.yaml",
        drain_s=2.0,
        traces=gateway.Traces(("127.0.0.1", port)),
        extra={"DDZ_LOG_LEVEL": "DEBUG"},
    )
    folder = scratch / "traced"
    folder.mkdir()
    with contextlib.ExitStack() as leave:
        collector = leave.enter_context(collecting(port))
        with whole.running(leash, folder, plan, options) as running:
            yield Traced(running, collector, leave)


async def play(stack: whole.Stack) -> tuple[ledger_pb2.GetHandResponse, tuple[str, ...]]:
    """A hand of three friends, as the ledger keeps it, and the secrets that they were told."""
    async with Gateway(stack.address) as door:
        keys = [f"traced-{uuid.uuid4()}" for _ in range(3)]
        players = [await Session.guest(door, key) for key in keys]
        made = await players[0].create_table("happy-beginner", private=True)
        for friend in players[1:]:
            await friend.sit(made.table_id, code=made.code)
        async with asyncio.timeout(60):
            (played,), *_ = await asyncio.gather(*(_play(player, made.table_id) for player in players))
        tokens = [word for player in players for word in (player._tokens.access_token, player._tokens.refresh_token)]
        return await players[0].hand(played), (*keys, *tokens)


async def _play(session: Session, table_id: str) -> list[str]:
    async with session.table(table_id) as table:
        return await Player().play(table, 1)


def above(collector: Collector, span: Told) -> list[tuple[str, str]]:
    """The span and all above it, up to the root."""
    found = [(span.service, span.name)]
    while span.parent_id:
        span = collector.parent(span)
        found.append((span.service, span.name))
    return found


def lines(folder: Path) -> list[dict[str, Any]]:
    """What the services have logged; gRPC's core has lines of its own."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*-[0-9].log"))
        for line in path.read_text().splitlines()
        if line.startswith("{")
    ]


async def test_one_trace_shows_a_last_card_from_the_edge_to_the_settlement(traced: Traced) -> None:
    traced.hand, traced.secrets = await play(traced.stack)
    hand_id = traced.hand.record.hand_id
    settle = "ddz.ledger.v1.LedgerInternalService/Settle"
    told = traced.collector
    served = await asyncio.to_thread(
        told.one,
        lambda one: one.name == settle and one.service == "ledger" and one.attributes["ddz.hand_id"] == hand_id,
    )
    path = await asyncio.to_thread(above, told, served)
    assert path[:3] == [("ledger", settle), ("table", settle), ("table", "SettleHand")]
    assert path[3] == ("table", "Play play")
    assert path[4] == ("table", "ddz.table.v1.TableService/Play")
    assert {service for service, _ in path[5:]} == {"gateway"}
    submit = told.one(lambda one: one.parent_id == served.span_id)
    commit = told.one(lambda one: one.name == "commit" and submit.span_id in one.links)
    assert (submit.name, submit.links) == ("submit SettleHand", (commit.span_id,))
    assert submit.attributes["ddz.waited_ms"] >= 0
    assert commit.attributes["ddz.batch_size"] >= 1
    news = told.one(lambda one: one.name == "publish ddz.hand.settled" and one.parent_id == submit.span_id)
    heard = await asyncio.to_thread(told.one, lambda one: one.parent_id == news.span_id)
    assert (heard.service, heard.name) == ("lobby", "process ddz.hand.settled")
    assert {one.trace_id for one in (submit, news, heard)} == {served.trace_id}
    door = [json.loads(line) for line in (traced.stack.folder / "gateway" / "access.log").read_text().splitlines()]
    [call] = [line for line in door if line["trace"] == served.trace_id]
    assert call["path"] == "/ddz.table.v1.TableService/Play"
    [card] = [span for span in told.spans if span.span_id == told.parent(told.parent(told.parent(served))).span_id]
    ids = {name: card.attributes[f"ddz.{name}_id"] for name in ("table", "hand", "player")}
    assert ids == {"table": call["table"], "hand": hand_id, "player": call["player"]}


async def test_nothing_that_is_told_or_logged_names_a_card_or_a_secret(traced: Traced) -> None:
    assert traced.hand is not None
    for span in traced.collector.spans:
        if span.service != "gateway":
            assert span.attributes.keys() <= ATTRIBUTES
        assert not span.whole.events
        assert not span.whole.status.message
    logs = "\n".join(path.read_text() for path in sorted(traced.stack.folder.rglob("*.log")))
    everything = logs + "\n".join(str(span.whole) for span in traced.collector.spans)
    assert "card" not in everything.lower()
    deals = [action.deal for action in traced.hand.record.actions if action.HasField("deal")]
    seeds = [seed.hex() for deal in deals for seed in (deal.server_seed, *deal.client_seeds) if seed]
    assert seeds
    for secret in (*traced.secrets, *seeds):
        assert secret not in everything


async def test_a_collector_that_is_gone_changes_nothing(traced: Traced) -> None:
    traced.leave.close()
    hand, _ = await play(traced.stack)
    assert hand.settlement.hand_id
    folder, fleet = traced.stack.folder / "services", traced.stack.fleet

    def complaints() -> Counter[str]:
        return Counter(line["service"] for line in lines(folder) if line["logger"] == "ddz.traces")

    def told_of() -> bool:  # whoever had something to tell
        return {"table", "ledger", "lobby"} <= complaints().keys()

    await asyncio.to_thread(fleet.process("table-1").wait_until, told_of)
    assert set(complaints().values()) == {1}
    assert not [line for line in lines(folder) if line["logger"].startswith("opentelemetry")]
    await asyncio.to_thread(fleet.restart, *fleet.names)  # they end, and begin, without it


def test_without_a_collector_nothing_is_told(stack: whole.Stack) -> None:
    door = json.loads((stack.folder / "gateway" / "envoy.json").read_text())
    [collector] = [one for one in door["static_resources"]["clusters"] if one["name"] == "collector"]
    assert collector["load_assignment"]["endpoints"] == [{"lb_endpoints": []}]
