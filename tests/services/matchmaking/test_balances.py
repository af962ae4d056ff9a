"""Balances for who joins: asked for together, and whoever waits is answered, whatever the ledger does."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2
from services.matchmaking.balances import Balances


class Ledger:
    """Answers each call as the next of `plan` says: with an error, or with so many balances too few."""

    def __init__(self, *plan: Exception | int) -> None:
        self.plan = [*plan]
        self.calls: list[list[str]] = []
        self.called = asyncio.Event()

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, timeout: float
    ) -> ledger_pb2.ListBalancesResponse:
        self.calls.append(list(request.player_ids))
        self.called.set()
        step = self.plan.pop(0) if self.plan else 0
        if isinstance(step, Exception):
            raise step
        known = request.player_ids[: len(request.player_ids) - step]
        return ledger_pb2.ListBalancesResponse(balances=[ledger_pb2.Balance(player_id=player) for player in known])


def rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "x")


@pytest.mark.parametrize("broken", [rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED), ValueError("ours"), 1])
async def test_an_unexpected_answer_reaches_who_waits_and_the_next_are_asked_for(broken: Exception | int) -> None:
    ledger = Ledger(broken)
    balances = Balances(ledger)  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        failed = await asyncio.gather(balances.get("p1"), balances.get("p2"), return_exceptions=True)
        assert all(isinstance(each, Exception) for each in failed)
        assert (await balances.get("p1")).player_id == "p1"
    assert ledger.calls == [["p1", "p2"], ["p1"]]


async def test_who_asks_during_a_call_is_asked_for_in_the_next_one() -> None:
    ledger = Ledger()
    balances = Balances(ledger)  # type: ignore[arg-type]

    async def late() -> Any:
        await ledger.called.wait()
        return await balances.get("p3")

    found = await asyncio.gather(balances.get("p1"), balances.get("p2"), balances.get("p1"), late())
    assert [each.player_id for each in found] == ["p1", "p2", "p1", "p3"]
    assert sum("p1" in call for call in ledger.calls) == 1
