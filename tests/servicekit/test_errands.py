"""Errands over a real NATS: asked of those who listen, or not at all."""

from __future__ import annotations

import nats.errors
import pytest
from nats.aio.client import Client as NatsClient

from ddz.admin.v1 import orders_pb2
from servicekit import clients, errands
from servicekit.lasting import always

PATIENCE_S = 10.0


async def test_without_the_bus_nothing_is_asked() -> None:
    with pytest.raises(nats.errors.Error):
        await errands.send(NatsClient(), orders_pb2.Errand(), listen_s=0.1)


async def test_what_nobody_waits_for_is_not_done_and_the_next_one_is(nats: str) -> None:
    done: list[str] = []

    async def answer(errand: orders_pb2.Errand) -> orders_pb2.Report | None:
        if not errand.HasField("set_draining"):
            return None
        done.append(errand.set_draining.node_id)
        return orders_pb2.Report(node=orders_pb2.Node(node_id=errand.set_draining.node_id))

    def errand(node_id: str) -> orders_pb2.Errand:
        return orders_pb2.Errand(set_draining=orders_pb2.SetDraining(node_id=node_id))

    async with clients.nats_bus(nats, name="test") as bus, always(test=lambda: errands.answering(bus, answer)):
        while not await errands.send(bus, errand("first"), listen_s=1.0, first=True):
            assert not done, "it does not listen yet"
        done.clear()
        await bus.publish(errands.SUBJECT, errand("nobody's").SerializeToString())
        [report] = await errands.send(bus, errand("last"), listen_s=PATIENCE_S, first=True)
    assert (report.node.node_id, done) == ("last", ["last"])
