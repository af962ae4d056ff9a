"""TableView over every way in which a stream can end, lag, repeat itself or lie idle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from ddz.common.v1 import common_pb2
from ddz.table.v1.events_pb2 import Event, Snapshot
from ddz.table.v1.table_pb2 import Leave, PlayResponse, Ready
from ddzclient.client import Gateway
from ddzclient.errors import TableGone, Unreachable
from ddzclient.table import TableView
from doudizhu.refusal import Refusal
from tests.client.scripted import (
    Requests,
    Script,
    ScriptedTable,
    accepted,
    events,
    goodbye,
    heartbeat,
    ready,
    refused,
    scripted_table,
    serve,
    snapshot,
)


async def _metadata(table_id: str) -> list[tuple[str, str | bytes]]:
    return [("x-table-id", table_id)]


class Renewals:
    """Counts how often a new token was asked for."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


@contextlib.asynccontextmanager
async def viewing(
    *scripts: Script, timeout_s: float = 30.0, silence_s: float = 30.0, renewals: Renewals | None = None
) -> AsyncIterator[tuple[TableView, ScriptedTable]]:
    servicer = scripted_table(*scripts)
    async with serve(table=servicer) as address, Gateway(address) as gateway:
        view = TableView(
            gateway.table, "t1", "p1", _metadata, renewals or Renewals(), timeout_s=timeout_s, silence_s=silence_s
        )
        async with asyncio.timeout(10), view:
            yield view, servicer


def frames(*found: PlayResponse, then_wait: bool = True) -> Script:
    """Sends frames; then the stream stays open, or ends in good order."""

    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        for frame in found:
            yield frame
        if then_wait:
            await asyncio.Event().wait()

    return script


async def test_events_are_folded_into_the_snapshot() -> None:
    async with viewing(frames(snapshot(3), events(ready(4, 0), ready(5, 1)))) as (view, _):
        state = await view.until(lambda state: state.seq == 5)
        assert [seat.ready for seat in state.seats] == [True, True, False]


async def test_a_goodbye_is_followed_by_a_stream_that_resumes_after_what_is_known() -> None:
    first = frames(snapshot(3, epoch=7), events(ready(4)), goodbye(reconnect=True))
    second = frames(events(ready(5, 1)))
    async with viewing(first, second) as (view, servicer):
        await view.until(lambda state: state.seq == 5)
        assert [(first.after_seq, first.epoch) for first in servicer.firsts] == [(0, 0), (4, 7)]
        assert view.reconnects == 1


async def test_a_stream_that_just_ends_is_made_anew() -> None:
    async with viewing(frames(snapshot(3), then_wait=False), frames(events(ready(4)))) as (view, servicer):
        await view.until(lambda state: state.seq == 4)
        assert [first.after_seq for first in servicer.firsts] == [0, 3]


async def test_a_gap_is_fetched_again() -> None:
    first = frames(snapshot(3), events(ready(5, 1)))
    second = frames(events(ready(4, 0), ready(5, 1)))
    async with viewing(first, second) as (view, servicer):
        state = await view.until(lambda state: state.seq == 5)
        assert servicer.firsts[1].after_seq == 3
        assert [seat.ready for seat in state.seats] == [True, True, False]


async def test_a_heartbeat_ahead_of_what_is_known_is_a_gap() -> None:
    async with viewing(frames(snapshot(3), heartbeat(5)), frames(events(ready(4), ready(5)))) as (view, servicer):
        await view.until(lambda state: state.seq == 5)
        assert [first.after_seq for first in servicer.firsts] == [0, 3]


async def test_an_event_that_comes_twice_counts_once() -> None:
    async with viewing(frames(snapshot(3), events(ready(4, on=False)), events(ready(4), ready(5, 1)))) as (view, _):
        state = await view.until(lambda state: state.seq == 5)
        assert [seat.ready for seat in state.seats] == [False, True, False]


async def test_updates_are_each_event_once_and_in_order_over_a_break() -> None:
    go_on = asyncio.Event()

    async def first(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        await go_on.wait()
        yield events(ready(4))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    second = frames(events(ready(4), ready(5)), snapshot(2, epoch=2), events(ready(3)), goodbye(reconnect=False))
    async with viewing(first, second) as (view, _):
        seen = []
        async for update in view.updates():
            seen.append((type(update), update.seq))
            go_on.set()
        assert seen == [(Snapshot, 3), (Event, 4), (Event, 5), (Snapshot, 2), (Event, 3)]


async def test_a_command_is_accepted_once_its_events_are_known() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        request = await anext(requests)
        assert request.command.WhichOneof("action") == "ready"
        yield accepted(request, 5)
        yield events(ready(4))
        yield events(ready(5, 1))
        await asyncio.Event().wait()

    async with viewing(script) as (view, _):
        assert await view.act(Ready(ready=True)) == 5
        assert view.state.seq == 5


async def test_a_command_without_fields_is_sent() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        request = await anext(requests)
        assert request.command.WhichOneof("action") == "leave"
        yield accepted(request, 3)
        await asyncio.Event().wait()

    async with viewing(script) as (view, _):
        await view.act(Leave())


async def test_a_refusal_is_raised_with_all_it_says() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        yield refused(await anext(requests), common_pb2.REASON_NOT_YOUR_TURN, turn="2")
        await asyncio.Event().wait()

    async with viewing(script) as (view, _):
        with pytest.raises(Refusal) as refusal:
            await view.act(Ready(ready=True))
        assert (refusal.value.reason, refusal.value.field, refusal.value.data) == (
            "NOT_YOUR_TURN",
            "cards",
            {"turn": "2"},
        )
        assert view.state.seq == 3


async def test_a_command_without_an_answer_is_sent_again_under_its_id() -> None:
    ids = []

    async def first(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        ids.append((await anext(requests)).command.command_id)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def second(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        request = await anext(requests)
        ids.append(request.command.command_id)
        yield events(ready(4))
        yield accepted(request, 4)
        await asyncio.Event().wait()

    async with viewing(first, second) as (view, _):
        assert await view.act(Ready(ready=True), command_id="mine") == 4
        assert ids == ["mine", "mine"]


async def test_a_command_that_is_refused_in_passing_is_sent_again() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        yield refused(await anext(requests), common_pb2.REASON_OVERLOADED)
        yield accepted(await anext(requests), 3)
        await asyncio.Event().wait()

    async with viewing(script) as (view, _):
        assert await view.act(Ready(ready=True)) == 3


async def test_a_last_goodbye_ends_everything_that_waits() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        await anext(requests)
        yield goodbye(reconnect=False, why="closed")

    async with viewing(script) as (view, _):
        waiting = asyncio.create_task(view.until(lambda state: state.seq == 99))
        with pytest.raises(TableGone, match="closed"):
            await view.act(Ready(ready=True))
        with pytest.raises(TableGone):
            await waiting
        with pytest.raises(TableGone):
            await view.act(Ready(ready=True))
        assert [update.seq async for update in view.updates()] == [3]


async def test_a_table_that_refuses_the_player_cannot_be_entered() -> None:
    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        raise Refusal("NOT_FOUND", "there is no such table", field="table_id")
        yield snapshot()

    with pytest.raises(Refusal, match="no such table"):
        async with viewing(script):
            pass


async def test_a_token_that_is_refused_is_renewed() -> None:
    async def first(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Jwt is expired")
        yield snapshot()

    renewals = Renewals()
    async with viewing(first, frames(snapshot(3)), renewals=renewals) as (view, _):
        assert view.state.seq == 3
        assert renewals.count == 1


async def test_a_table_that_says_nothing_cannot_be_entered() -> None:
    with pytest.raises(Unreachable, match=r"within 0\.2 s"):
        async with viewing(frames(), timeout_s=0.2):
            pass


async def test_an_answer_that_does_not_come_in_time_may_still_come_about() -> None:
    async with viewing(frames(snapshot(3))) as (view, _):
        with pytest.raises(Unreachable, match="no answer to mine within"):
            await view.act(Ready(ready=True), command_id="mine", timeout_s=0.05)


async def test_silence_is_a_lost_connection() -> None:
    async with viewing(frames(snapshot(3)), frames(events(ready(4))), silence_s=0.3) as (view, servicer):
        await view.until(lambda state: state.seq == 4)
        assert servicer.firsts[1].after_seq == 3


async def test_leaving_the_block_ends_the_stream() -> None:
    ended = asyncio.Event()

    async def script(requests: Requests, context: Any) -> AsyncIterator[PlayResponse]:
        yield snapshot(3)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with viewing(script) as (view, _):
        await view.close()
        await asyncio.wait_for(ended.wait(), 5)
        with pytest.raises(TableGone, match="closed by the client"):
            await view.until(lambda state: state.seq == 99)
