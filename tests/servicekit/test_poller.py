"""Services read their sockets by gRPC's older poller (docs/decisions/0025): this grpcio still knows the switch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.local import servers
from deploy.local.folders import ROOT

_TALK = """
import asyncio
{before}
import grpc

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        await channel.channel_ready()
    await server.stop(None)

asyncio.run(main())
"""


@pytest.mark.parametrize(("before", "of_a_service"), [("import services", True), ("", False)])
def test_a_service_has_no_thread_between_socket_and_loop(before: str, of_a_service: bool) -> None:
    told = {"GRPC_TRACE": "event_engine_endpoint", "GRPC_VERBOSITY": "DEBUG", "PYTHONPATH": f"{ROOT}:{ROOT / 'libs'}"}
    done = subprocess.run(
        [sys.executable, "-c", _TALK.format(before=before)],
        env=servers.environment() | told,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("posix_endpoint.cc" not in done.stderr) is of_a_service
