"""Maintenance as table nodes know it: what is there goes on, and who comes back is told how it stands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import grpc
import pytest

from ddz.admin.v1 import orders_pb2
from ddz.table.v1 import table_pb2
from servicekit.orders import nothing
from tests.services.table.stack import Stack, fresh, terms, until
from tests.services.table.test_streams import close, happy_hand


@contextlib.contextmanager
def closed(stack: Stack) -> Iterator[None]:
    """Both nodes have read that there is maintenance."""
    every = [node.service.node.orders for node in stack.nodes]
    with pytest.MonkeyPatch.context() as patch:
        for orders in every:
            patch.setattr(orders, "_read", nothing)
            orders.take(orders_pb2.Orders(maintenance="back at noon"))
        try:
            yield
        finally:
            for orders in every:
                orders.take(orders_pb2.Orders())


async def test_a_match_that_was_opened_is_found_by_the_same_call_in_maintenance(stack: Stack) -> None:
    """Its answer was lost: refused, the players would get their tickets back while their hand is live."""
    request = table_pb2.OpenRequest(table_id=fresh("t"), terms=terms("rob"), players=await stack.players())
    await stack.nodes[0].internal.Open(request)
    with closed(stack):
        for node in stack.nodes:
            assert (await node.internal.Open(request)).seq
        request.table_id = fresh("t")
        with pytest.raises(grpc.aio.AioRpcError, match="Closed for maintenance"):
            await stack.nodes[1].internal.Open(request)


async def test_who_comes_back_after_maintenance_is_told_that_it_is_over(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    with closed(stack):
        await until(lambda: any(frame.notice.maintenance for frame in clients[0].frames))
        snapshot = clients[0].snapshot
        assert snapshot is not None
        after_seq, epoch = clients[0].seq, snapshot.epoch
        await clients[0].close()
    back = await stack.client(ids[0], table_id).open(after_seq, epoch)
    await until(lambda: any(frame.HasField("notice") for frame in back.frames))
    assert [frame.notice.maintenance for frame in back.frames if frame.HasField("notice")] == [False]
    assert not any(frame.HasField("snapshot") for frame in back.frames)
    await close([back, *clients[1:]])
