"""A Prometheus that looks at a stack every second, a little load on that stack, and what Prometheus answers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import re
import urllib.parse
import urllib.request
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2
from ddzclient import Gateway, Refusal, Session, demo
from deploy.grafana.panels import Board
from deploy.local import ports, prometheus
from deploy.local.leash import Leash
from deploy.local.stack import Stack
from servicekit import server

HANDS = 6  # two of each book
_WINDOW = "[60s]"


@dataclass(frozen=True)
class Watch:
    """Asks one Prometheus."""

    port: int

    async def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of its HTTP API; raises HTTPError for an expression that is none."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"

        def read() -> Any:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]

        return await asyncio.to_thread(read)

    async def is_empty(self, expression: str) -> bool:
        """Whether an expression of a panel has no value now, not even 0."""
        found = await self.ask("query", query=expression.replace("[$__rate_interval]", _WINDOW))
        return all(math.isnan(float(series["value"][1])) for series in found["result"])

    async def empty_panels(self, boards: Sequence[Board]) -> list[str]:
        """The panels of which an expression has no value."""
        return [
            f"{board.title}: {title}: {expression}"
            for board in boards
            for title, expression in board.expressions()
            if await self.is_empty(expression)
        ]

    async def series(self) -> list[dict[str, str]]:
        """The labels of everything of ours that was ever seen."""
        found: list[dict[str, str]] = await self.ask("series", **{"match[]": '{__name__=~"ddz_.*"}'})
        return found


@contextlib.asynccontextmanager
async def watching(leash: Leash, program: Path, folder: Path, stack: Stack) -> AsyncIterator[Watch]:
    """A Prometheus that has seen every process of the stack."""
    port = ports.free(1)[0]
    found = prometheus.targets(stack.ports)
    with prometheus.running(leash, program, folder, port, found, interval="1s"):
        watch = Watch(port)
        async with asyncio.timeout(30):
            while await watch.is_empty(f"sum(up) == {sum(map(len, found.values()))}"):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        yield watch


async def load(stack: Stack) -> None:
    """Hands of every book, people in the lobby, and some things that are refused."""
    async with server.channel(stack.grpc_address("ledger")) as channel, Gateway(stack.address) as gateway:
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(channel)

        async def audit() -> ledger_pb2.AuditResponse:
            return await ledger.Audit(ledger_pb2.AuditRequest(), timeout=10)

        session = await Session.guest(gateway, f"watched-{uuid.uuid4()}")
        lobby = gateway.lobby.WatchLobby(lobby_pb2.WatchLobbyRequest(), metadata=await session.metadata())
        await lobby.read()
        seed = uuid.uuid4().int % 1_000_000
        report = await demo.play(
            stack.address, hands=HANDS, seed=seed, audit=audit, console=Console(file=io.StringIO())
        )
        assert report.ok, report.faults
        ticket = await session.join("classic-beginner")
        await session.cancel(ticket.ticket_id)
        with contextlib.suppress(Refusal):
            await session.hand("none")
        with contextlib.suppress(Refusal):
            await Session.log_in(gateway, f"nobody{seed}", "wrong password")
        lobby.cancel()


def names(expression: str) -> set[str]:
    """The metrics that an expression asks for, as they are called in Python."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bddz_\w+", expression)}
