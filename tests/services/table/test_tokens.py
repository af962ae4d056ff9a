"""Streams end with the token that opened them, and their players come back unnoticed (docs/decisions/0024)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest

from ddz.table.v1 import table_pb2
from ddzclient.table import TableView
from services.table import servicer
from services.table.fanout import EXPIRED, Stream
from services.table.servicer import TableServicer
from tests.services.table.stack import Stack, metadata, until
from tests.services.table.test_streams import close, happy_hand


def soon() -> float:
    """When a token runs out that is good for a moment yet."""
    return time.time() + 1.5


async def test_a_stream_ends_with_its_token_and_the_player_comes_back_unnoticed(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    short = await stack.client(ids[0], table_id).open(until_s=soon())
    await until(lambda: short.ended)
    goodbye = short.goodbye()
    assert short.error is None
    assert goodbye is not None
    assert (goodbye.why, goodbye.reconnect) == (EXPIRED, True)
    assert short.snapshot is not None
    again = await stack.client(ids[0], table_id, node=1).open(short.seq, short.snapshot.epoch, until_s=time.time() + 60)
    await again.act(trustee=table_pb2.Trustee(on=True))
    told = await clients[1].until_told("trustee_set")
    assert told.seat == 0
    assert clients[1].names().count("trustee_set") == 1
    assert all(event.presence_set.connected for event in clients[1].events if event.HasField("presence_set"))
    assert again.snapshot is None  # it went on where it was
    await close([again, *clients[1:]])


async def test_who_does_not_come_back_with_a_new_token_is_played_for(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servicer, "_BACK_S", 0.05)
    table_id, ids, clients = await happy_hand(stack)
    short = await stack.client(ids[0], table_id).open(until_s=soon())
    await clients[1].until_told("trustee_set")
    assert short.ended
    assert (clients[1].last("presence_set").seat, clients[1].last("presence_set").connected) == (0, False)
    await close(clients[1:])


async def test_a_watcher_is_told_too(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    request = table_pb2.WatchRequest(table_id=table_id)
    call: Any = stack.nodes[0].stub.Watch(request, metadata=metadata(ids[0], soon()))
    frames = [frame async for frame in call]
    assert [frame.goodbye.why for frame in frames if frame.HasField("goodbye")] == [EXPIRED]
    await close(clients[1:])


@pytest.mark.parametrize("until_s", [1.0, float("nan"), float("-inf")])
async def test_no_stream_begins_with_a_token_that_has_run_out(stack: Stack, until_s: float) -> None:
    table_id, ids, clients = await happy_hand(stack)
    late = await stack.client(ids[0], table_id).open(until_s=until_s)
    await until(lambda: late.ended)
    assert late.error is not None
    assert late.error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert not late.frames
    assert not clients[0].ended
    await close(clients)


async def test_no_command_is_done_after_the_goodbye() -> None:
    """The client leaves the goodbye unread, and goes on sending."""
    stream = Stream("p1", "c1", limit=4)
    command = table_pb2.PlayRequest(table_id="t1", command=table_pb2.Command(command_id="c", ready=table_pb2.Ready()))
    done: list[str] = []

    class Node:
        async def act(self, table_id: str, player_id: str, command: table_pb2.Command) -> int:
            done.append(command.command_id)
            return 1

    async def requests() -> AsyncIterator[table_pb2.PlayRequest]:
        stream.goodbye_expired()
        yield command

    await TableServicer(cast("Any", Node()))._read(command, requests(), stream)
    assert len(done) == 1


async def test_the_sdk_comes_back_by_itself(stack: Stack) -> None:
    """Its first token ends under way, and the next one that it has is out already: its clock is slow."""
    table_id, ids, clients = await happy_hand(stack)
    tokens = [soon(), 1.0]
    renewals = []

    async def headers(_table_id: str) -> list[tuple[str, str | bytes]]:
        return list(metadata(ids[0], tokens.pop(0) if tokens else time.time() + 60))

    async def renew() -> None:
        renewals.append(1)

    async with TableView(stack.nodes[0].stub, table_id, ids[0], headers, renew) as view:
        await until(lambda: view.reconnects == 2 and view.connected)
        assert len(renewals) == 1
        await view.act(table_pb2.Trustee(on=True))
        await clients[1].until_told("trustee_set")
        assert clients[1].names().count("trustee_set") == 1
    await close(clients[1:])
