"""What the process serves, and what stands behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import grpc
from nats.aio.client import Client

from ddz.ledger.v1 import ledger_pb2_grpc
from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu.combos import all_readings
from doudizhu.rulebook import BOOKS
from servicekit import server
from servicekit.orders import Orders
from servicekit.pipe import Pipe
from servicekit.tls import Inside
from services.table.effects import Ledger, Seeds
from services.table.node import Node
from services.table.servicer import TableInternalServicer, TableServicer
from services.table.settings import Settings
from services.table.steward import Steward
from services.table.store import SCRIPTS, Store


class TableService:
    """The two gRPC services of a table node."""

    names: Sequence[str] = [service.full_name for service in table_pb2.DESCRIPTOR.services_by_name.values()]

    def __init__(self, node: Node, steward: Steward) -> None:
        self.node = node
        self._steward = steward

    def register(self, to: grpc.aio.Server) -> None:
        """Adds the servicers."""
        TableServicer(self.node).register(to)
        table_pb2_grpc.add_TableInternalServiceServicer_to_server(TableInternalServicer(self.node, self._steward), to)

    def watched_by(self, say_healthy: Callable[[bool], Awaitable[None]]) -> None:
        """Learns whom to tell that it takes no calls for a while (servicekit.server.Pausing)."""
        self._steward.say_healthy = say_healthy

    async def drain(self) -> None:
        """Sends the clients to other nodes and finishes what was asked."""
        await self.node.drain()


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    redis_url: str,
    bus: Client,
    ledger_target: str,
    deal_seed: bytes,
    inside: Inside | None = None,
) -> AsyncIterator[TableService]:
    """A node at work; raises OSError when Redis does not answer."""
    for book in BOOKS.values():
        all_readings(book)  # made at the first play, they would hold all tables up
    pipe = Pipe(redis_url, SCRIPTS)
    async with pipe.running(), server.channel(ledger_target, inside) as channel:
        ledger = Ledger(ledger_pb2_grpc.LedgerInternalServiceStub(channel), ledger_pb2_grpc.LedgerServiceStub(channel))
        store = Store(pipe, settings.shards)
        orders = Orders(store.orders)
        await orders.refresh()
        node = Node(settings, store, ledger, bus, Seeds(deal_seed), orders)
        steward = Steward(node, orders, ledger, bus)
        async with node.running(), steward.running():
            yield TableService(node, steward)
