"""A node without NATS: it starts, serves, and hears of others once NATS is there."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from ddz.table.v1 import table_pb2, table_pb2_grpc
from deploy.local import ports
from servicekit import clients, server
from services.table import service as table_service
from services.table.settings import Settings
from tests.e2e.proxy import Proxy
from tests.services.table.stack import Client, Stack, act, fresh, terms


async def test_a_node_starts_without_nats_and_hears_of_others_once_it_is_there(stack: Stack) -> None:
    (port,) = ports.free(1)
    parts = urlsplit(stack.nats_url)
    url = stack.nats_url.replace(f":{parts.port}", f":{port}")
    config = server.ServerConfig("127.0.0.1:0", "127.0.0.1:0", "INFO", 1.0)
    settings = Settings(node_id=fresh("node"), drain_s=1.0, report_s=600.0)  # nothing is healed by the sweep
    async with (
        clients.nats_bus(url, name="late", wait=False) as bus,
        table_service.running(settings, stack.redis_url, bus, f"127.0.0.1:{stack.ledger_port}", b"") as service,
        server.serving(config, service) as grpc_port,
        server.channel(f"127.0.0.1:{grpc_port}") as channel,
    ):
        players = await stack.players()
        table_id = await stack.open(terms("happy"), players[:2])
        stub = table_pb2_grpc.TableServiceStub(channel)
        client = await Client(players[0].player_id, table_id, stub).open()
        assert isinstance(await client.act(ready=table_pb2.Ready(ready=True)), table_pb2.Accepted)
        assert service.node.news.listening() == 0
        await act(stack.nodes[0], table_id, players[1].player_id, ready=table_pb2.Ready(ready=True))

        passing = Proxy(f"{parts.hostname}:{parts.port}")
        async with await asyncio.start_server(passing.accept, "127.0.0.1", port):
            await client.until_told("ready_set", times=2)  # what nobody here could hear is read once it listens
            await act(stack.nodes[0], table_id, players[1].player_id, ready=table_pb2.Ready(ready=False))
            await client.until_told("ready_set", times=3)
            await client.close()
        await passing.end()
