"""Operators and tables: maintenance, a drained node, a table's log, a void."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import pytest

from ddz.admin.v1 import admin_pb2
from ddz.common.v1.common_pb2 import Notice
from ddz.table.v1 import events_pb2
from ddzclient import Player, Session, TableGone, TableView, find_table
from tests.e2e.office import Office, comes, refusal, refused_as


async def told(view: TableView, message: str) -> None:
    await view.until(lambda _: view.notice.message == message)


async def test_maintenance_holds_the_next_hand_and_outlives_every_process(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    late = await office.guest()
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    async with contextlib.AsyncExitStack() as doors:
        views = [await doors.enter_async_context(one.table(table_id)) for one in people]
        playing = [asyncio.create_task(Player().play(view, 3)) for view in views]
        try:
            async with asyncio.timeout(60):
                await views[0].until(lambda state: bool(state.seats[state.you].cards.cards))
            await office.do("SetMaintenance", on=True, message="back at noon")
            async with asyncio.timeout(60):
                for view in views:  # a node that has not heard of it yet may begin one more hand
                    await told(view, "back at noon")
            assert (await late.lobby()).notice == Notice(maintenance=True, message="back at noon")
            closed = await refusal(late.create_table("happy-beginner"))
            assert (closed.reason, closed.data["notice"]) == ("MAINTENANCE", "back at noon")
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.join("happy-beginner")))
            # The hand is played out, and no other begins.
            await comes(lambda: office.plays_no_hand(table_id))
            async with asyncio.timeout(60):
                held = await views[0].until(lambda state: state.clock.phase == events_pb2.PHASE_READY)
            names = [name for name in office.stack.fleet.names if not name.startswith("ledger")]
            await asyncio.to_thread(office.stack.fleet.restart, *names)
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.create_table("happy-beginner")))
            await comes(lambda: refused_as("MAINTENANCE", lambda: late.join("happy-beginner")))
            assert views[0].state.hand_id == held.hand_id
        finally:
            await office.do("SetMaintenance", on=False)
        async with asyncio.timeout(60):
            hands = await asyncio.gather(*playing)
        assert hands[0] == hands[1] == hands[2]
    assert (await late.lobby()).notice == Notice()
    assert (await refusal(office.do("SetMaintenance", on=True))).field == "message"


async def test_a_drained_node_gets_no_table_while_its_hand_goes_on(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    async with contextlib.AsyncExitStack() as doors:
        views = [await doors.enter_async_context(one.table(table_id)) for one in people]
        nodes: dict[str, Any] = {}

        async def both_answer() -> bool:  # one that is slow for a second does so the next time
            nodes.update(await office.nodes())
            return set(nodes) == {"table-1", "table-2"}

        await comes(both_answer)
        drained = max(nodes, key=lambda name: int(nodes[name].streams))
        try:
            act_id = secrets.token_hex(8)
            told = await office.do("Drain", act_id, node_id=drained)
            assert told.node.draining
            assert told == await office.do("Drain", act_id, node_id=drained)
            async with asyncio.timeout(60):
                hands = await asyncio.gather(*(Player().play(view, 1) for view in views))
            assert hands[0] == hands[1] == hands[2]
            assert any(view.reconnects for view in views)

            async def is_empty() -> bool:
                held = (await office.nodes()).get(drained)
                return held is not None and (held.draining, held.streams) == (True, 0)

            await comes(is_empty)
            for _ in range(4):
                one = await office.guest()
                made = await one.create_table("happy-beginner")
                async with one.table(made.table_id):
                    pass
            await comes(is_empty)
        finally:
            back = await office.do("Undrain", node_id=drained)
        assert not back.node.draining
    request = admin_pb2.DrainRequest(act_id=secrets.token_hex(8), reason="a test", node_id="table-9")
    pairs = await office.operator.metadata()
    nobody = office.gateway.call(office.gateway.admin.Drain, request, metadata=pairs, repeat=False)
    assert (await refusal(nobody)).reason == "UNAVAILABLE"


def wait(_view: object, _seat: int) -> None:
    """A policy that lets its clock run."""


async def live_hand(people: list[Session], doors: contextlib.AsyncExitStack) -> list[Any]:
    """Three at a table whose cards are dealt."""
    table_id = set(await asyncio.gather(*(find_table(one, "happy-beginner") for one in people))).pop()
    views = [await doors.enter_async_context(one.table(table_id)) for one in people]
    bots = [asyncio.create_task(Player(wait).play(view, 1)) for view in views]
    doors.callback(lambda: [bot.cancel() for bot in bots])
    async with asyncio.timeout(60):
        for view in views:
            await view.until(lambda state: len(state.seats[state.you].cards.cards) == 17)
    return views


async def test_a_look_at_a_log_shows_no_card_of_a_live_hand_and_a_void_ends_it(office: Office) -> None:
    people = [await office.guest() for _ in range(3)]
    chips = [(await one.balance()).chips for one in people]
    async with contextlib.AsyncExitStack() as doors:
        views = await live_hand(people, doors)
        table_id, hand_id = views[0].table_id, views[0].state.hand_id
        look = admin_pb2.ReadTableRequest(table_id=table_id)
        found = await office.operator.call(office.gateway.admin.ReadTable, look)
        assert found.live_hand_id == hand_id
        [dealt] = [event.dealt for event in found.events if event.HasField("dealt")]
        assert [(len(hand.cards), hand.count) for hand in dealt.hands] == [(0, 17)] * 3
        assert not dealt.bottom
        assert not any(event.committed.server_seed for event in found.events if event.HasField("committed"))
        assert not any(event.presence_set.connection for event in found.events if event.HasField("presence_set"))

        act_id = secrets.token_hex(8)
        first = await office.do("VoidTable", act_id, table_id=table_id)
        assert first.hand_id == hand_id
        assert first == await office.do("VoidTable", act_id, table_id=table_id)
        for view in views:
            with pytest.raises(TableGone, match="closed"):
                async with asyncio.timeout(30):
                    await view.until(lambda _: False)
        over = await office.operator.call(office.gateway.admin.ReadTable, look)
        [dealt] = [event.dealt for event in over.events if event.HasField("dealt")]
        assert [len(hand.cards) for hand in dealt.hands] == [17, 17, 17]
        assert [(await one.balance()).chips for one in people] == chips
        for one in people:  # the ledger holds nobody in the hand
            await one.create_table("happy-beginner")
    assert [act.act for act in await office.acts() if table_id in act.arguments_json] == [
        "ReadTable",
        "VoidTable",
        "ReadTable",
    ]
