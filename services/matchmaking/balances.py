"""Balances from the ledger. Who asks while a call is under way is asked for in the next one, together."""

from __future__ import annotations

import asyncio
from typing import Final

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import logs, metrics, remote

log = logs.get("balances")

_TIMEOUT_S: Final = 3.0
_AT_ONCE: Final = 100  # what one call may ask for


class Balances:
    """Chips and rating of players as they stand when asked."""

    def __init__(self, ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub) -> None:
        self._ledger = ledger
        self._waiting: dict[str, asyncio.Future[ledger_pb2.Balance]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, player_id: str) -> ledger_pb2.Balance:
        """The player's balance; raises Refusal UNAVAILABLE when the ledger does not answer."""
        future = self._waiting.get(player_id)
        if future is None:
            future = self._waiting[player_id] = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await asyncio.shield(future)

    async def _work(self) -> None:
        while self._waiting:
            batch = dict(list(self._waiting.items())[:_AT_ONCE])
            for player_id in batch:
                del self._waiting[player_id]
            request = ledger_pb2.ListBalancesRequest(player_ids=list(batch))
            try:
                answer = await remote.ask(self._ledger.ListBalances(request, timeout=_TIMEOUT_S), "ledger")
                found = list(zip(batch.values(), answer.balances, strict=True))
            except Exception as error:
                if not isinstance(error, Refusal):
                    metrics.FAULTS.labels("balances").inc()
                    log.exception("unexpected exception")
                for future in batch.values():
                    future.set_exception(error)
                    future.exception()  # whoever asked may have gone
                continue
            for future, balance in found:
                future.set_result(balance)
