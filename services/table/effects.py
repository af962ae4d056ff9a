"""What is pending outside, done: the ledger opens, settles and voids hands, and seeds are drawn.

Every call has a key that follows from the table's state, so it is repeated until it is answered, on whatever node.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from doudizhu import Refusal
from servicekit import errors, logs, metrics, remote
from services.table import commands, life
from services.table.table import Table
from services.table.terms import Reason
from services.table.wire_values import three

log = logs.get("effects")

T = TypeVar("T")

_TIMEOUT_S: Final = 5.0
_OPEN_HANDS: Final = 1_000
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
# A call that was under way when its table was closed comes to the ledger within this time, unless it is lost or stuck.
_LATE_S: Final = 2.0
_TRANSIENT: Final = {errors.Trouble.UNAVAILABLE, errors.Trouble.OVERLOADED, errors.Trouble.DRAINING, "RATE_LIMITED"}
# A player whose last hand is still being settled elsewhere is waited for so long before he is refused.
_IN_HAND_TRIES: Final = 6


class Seeds:
    """Server seeds of 32 bytes: from the system's randomness, or from a fixed seed for demonstrations and tests."""

    def __init__(self, fixed: bytes) -> None:
        self._fixed = fixed

    def draw(self, deal_id: str) -> bytes:
        """A new seed; the same for the same deal when there is a fixed one."""
        return hmac.digest(self._fixed, deal_id.encode(), "sha256") if self._fixed else os.urandom(32)


class Ledger:
    """Calls of the ledger that are repeated until they are answered."""

    def __init__(
        self,
        stub: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
        settled: ledger_pb2_grpc.LedgerServiceAsyncStub,
    ) -> None:
        self._stub = stub
        self._settled = settled

    async def open(self, effect: life.OpenHand, table: Table) -> commands.Command:
        """LedgerOpened or LedgerRefused."""
        request = ledger_pb2.OpenHandRequest(
            hand_id=effect.hand_id,
            player_ids=effect.player_ids,
            minimum_chips=effect.minimum_chips,
            table_id=table.table_id,
        )
        tries = 0
        while True:
            tries += 1
            try:
                opened = await _insist(lambda: self._stub.OpenHand(request, timeout=_TIMEOUT_S))
            except Refusal as refusal:
                if refusal.reason == Reason.PLAYER_IN_HAND and tries < _IN_HAND_TRIES:
                    await asyncio.sleep(_FIRST_PAUSE_S * 2**tries)
                    continue
                log.info("hand refused", extra={"hand": effect.hand_id, "reason": refusal.reason})
                data = refusal.data
                return commands.LedgerRefused(
                    effect.hand_id, refusal.reason, data.get("player_id", ""), int(data.get("balance", 0))
                )
            return commands.LedgerOpened(effect.hand_id, three(opened.carried_chips))

    async def settle(self, hand_id: str, record: hand_pb2.HandRecord) -> commands.Command:
        """LedgerSettled, with what the ledger did if it was settled otherwise; LedgerVoided when it never will be."""
        request = ledger_pb2.SettleRequest(record=record)
        try:
            answer = await _insist(lambda: self._stub.Settle(request, timeout=_TIMEOUT_S))
        except Refusal as refusal:
            return await self._refused(hand_id, refusal)
        return _settled(answer.settlement)

    async def _refused(self, hand_id: str, refusal: Refusal) -> commands.Command:
        """What has become of a hand that the ledger refuses to settle; nobody stays seated in it."""
        if refusal.reason == "HAND_OVER":  # voided by an operator
            return commands.LedgerVoided(hand_id)
        metrics.FAULTS.labels("settle").inc()
        log.error("the ledger refuses to settle", extra={"hand": hand_id, "reason": refusal.reason})
        request = ledger_pb2.GetHandRequest(hand_id=hand_id)
        try:
            found = await _insist(lambda: self._settled.GetHand(request, timeout=_TIMEOUT_S))
        except Refusal as absent:
            if absent.reason != errors.Trouble.NOT_FOUND:
                raise
            return await self.void(hand_id, f"not settled: {refusal.reason}")
        return _settled(found.settlement)

    async def void(self, hand_id: str, reason: str) -> commands.Command:
        """LedgerVoided."""
        request = ledger_pb2.VoidHandRequest(hand_id=hand_id, reason=reason)
        try:
            await _insist(lambda: self._stub.VoidHand(request, timeout=_TIMEOUT_S))
        except Refusal as refusal:
            metrics.FAULTS.labels("void").inc()
            log.error("the ledger refuses to void", extra={"hand": hand_id, "reason": refusal.reason})
        return commands.LedgerVoided(hand_id)

    async def void_if_open(self, hand_id: str, reason: str, *, opening: bool = False) -> bool:
        """Closes a hand for an operator; False when the ledger has none of this id, or has settled it.

        One that was `opening` may be on its way to the ledger, and is waited for; later still it is a lost hand, and
        void as one (Node.void_lost). Raises UNAVAILABLE.
        """
        request = ledger_pb2.VoidHandRequest(hand_id=hand_id, reason=reason)
        loop = asyncio.get_running_loop()
        until = loop.time() + (_LATE_S if opening else 0.0)
        while True:
            try:
                await remote.ask(self._stub.VoidHand(request, timeout=_TIMEOUT_S), "ledger")
            except Refusal as refusal:
                if refusal.reason not in (errors.Trouble.NOT_FOUND, "HAND_OVER", "KEY_CONFLICT"):
                    raise
                if refusal.reason != errors.Trouble.NOT_FOUND or loop.time() > until:
                    return False
            else:
                return True
            await asyncio.sleep(_FIRST_PAUSE_S)

    async def open_hands(self, older_than_ms: int) -> list[tuple[str, str]]:
        """Open hands and their tables, by id, the oldest first. Raises UNAVAILABLE."""
        request = ledger_pb2.ListOpenHandsRequest(older_than_ms=older_than_ms, limit=_OPEN_HANDS)
        found = await remote.ask(self._stub.ListOpenHands(request, timeout=_TIMEOUT_S), "ledger")
        return [(hand.hand_id, hand.table_id) for hand in found.hands]


def _settled(settlement: ledger_pb2.Settlement) -> commands.LedgerSettled:
    seats = settlement.seats
    return commands.LedgerSettled(
        hand_id=settlement.hand_id,
        chips=three(seat.chips for seat in seats),
        rake=three(seat.rake_chips for seat in seats),
        balances=three(seat.balance_after_chips for seat in seats),
        rating=three(seat.rating for seat in seats),
        ratings_after=three(seat.rating_after for seat in seats),
        system=settlement.system_chips,
    )


async def _insist(call: Callable[[], Awaitable[T]]) -> T:
    """Calls until there is an answer; raises the Refusal that is one."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await remote.ask(call(), "ledger")
        except Refusal as refusal:
            if refusal.reason not in _TRANSIENT:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
