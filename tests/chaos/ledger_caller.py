"""Who plays hand after hand while the ledger is killed, and knows to the chip what his players must have."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddzclient.errors import is_transient, translate
from doudizhu.refusal import Refusal
from tests.services.ledger.played import played

REPEATS = 0.08  # of acknowledged requests are sent again on purpose
CALL_TIMEOUT_S = 8.0


@dataclass
class Tally:
    """What happened, counted; what should not have, told."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    settled: dict[str, ledger_pb2.Settlement] = field(default_factory=dict)
    voided: set[str] = field(default_factory=set)
    granted: dict[str, ledger_pb2.Balance] = field(default_factory=dict)
    reversed: dict[str, ledger_pb2.ReverseResponse] = field(default_factory=dict)

    def check(self, right: bool, kind: str, sentence: str) -> None:
        if not right:
            self.counts[kind] += 1
            self.wrong.append(f"{kind}: {sentence}")


class Caller:
    """One table's worth of requests, and the knowledge of what must come of them."""

    def __init__(self, number: int, stub: ledger_pb2_grpc.LedgerInternalServiceAsyncStub, tally: Tally) -> None:
        self.number, self.stub, self.tally = number, stub, tally
        self.rng = random.Random(number)
        self.players = [f"p{number}-{seat}" for seat in range(3)]
        self.chips = dict.fromkeys(self.players, 0)
        self.hands = self.gifts = 0
        self.open = ""
        self.known: list[tuple[Callable[[Any], Awaitable[Any]], Any, Any]] = []

    async def ask(self, rpc: Any, request: Any) -> Any:
        """Sends until it is acknowledged; then, sometimes, sends something known again."""
        self.tally.counts["requests"] += 1
        answer = await self.insist(rpc, request)
        if isinstance(answer, Refusal):
            self.tally.check(False, "refused", f"{request} {answer}")
            raise answer
        self.known.append((rpc, request, answer))
        if self.rng.random() < REPEATS:
            await self.repeat()
        return answer

    async def insist(self, rpc: Any, request: Any) -> Any:
        """The answer, or the Refusal that is one."""
        pause_s = 0.02
        while True:
            self.tally.counts["sent"] += 1
            try:
                return await rpc(request, timeout=CALL_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                translated = translate(error)
                if isinstance(translated, Refusal) and not is_transient(translated):
                    return translated
                if not is_transient(translated):
                    raise translated from None
            self.tally.counts["resent"] += 1
            await asyncio.sleep(pause_s * self.rng.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, 0.5)

    async def repeat(self) -> None:
        """A known request again: the first answer and nothing more; a hand that is over is not opened again."""
        rpc, request, first = self.rng.choice(self.known[-50:])
        self.tally.counts["repeats"] += 1
        self.tally.counts["requests"] += 1
        over = isinstance(request, ledger_pb2.OpenHandRequest) and request.hand_id != self.open
        again = await self.insist(rpc, request)
        if isinstance(again, Refusal):
            right = over and again.reason == "HAND_OVER"
        else:
            right = not over and again.result == ledger_pb2.RESULT_REPLAYED
            again.result = first.result
            right = right and again == first
        self.tally.check(right, "doubled", f"a repeat of {request} got {again}, at first it was {first}")

    async def work(self, until: asyncio.Event) -> None:
        for player_id in self.players:
            await self.gift(player_id, 50_000)
        while not until.is_set():
            if self.rng.random() < 0.05:
                await self.gift(self.rng.choice(self.players), self.rng.randint(1, 500))
            await self.hand()

    async def gift(self, player_id: str, chips: int) -> None:
        self.gifts += 1
        request = ledger_pb2.GrantRequest(
            key=f"gift:{self.number}-{self.gifts}", player_id=player_id, chips=chips, kind="gift"
        )
        reply = await self.ask(self.stub.Grant, request)
        self.chips[player_id] += chips
        self.tally.granted[request.key] = reply.balance
        self.tally.check(reply.balance.chips == self.chips[player_id], "doubled", f"{player_id} has {reply.balance}")

    async def hand(self) -> None:
        self.hands += 1
        hand_id = f"m{self.number}-{self.hands}"
        self.rng.shuffle(self.players)
        request = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=self.players, table_id="chaos")
        self.open = hand_id
        opened = await self.ask(self.stub.OpenHand, request)
        expected = [self.chips[player_id] for player_id in self.players]
        self.tally.check(list(opened.carried_chips) == expected, "lost", f"{hand_id} carries {opened}, not {expected}")
        if self.rng.random() < 0.05:
            self.open = ""
            await self.ask(self.stub.VoidHand, ledger_pb2.VoidHandRequest(hand_id=hand_id, reason="chaos"))
            self.tally.voided.add(hand_id)
            return
        book, flee_after = self.rng.choice(["classic", "happy", "rob"]), self.rng.choice([None, 2, 3, 4, 5])
        record = played(self.rng, hand_id, self.players, book=book, base=2, rake=3, flee_after=flee_after, quick=True)
        self.open = ""
        reply = await self.ask(self.stub.Settle, ledger_pb2.SettleRequest(record=record))
        self.tally.settled[hand_id] = reply.settlement
        for seat in reply.settlement.seats:
            self.chips[seat.player_id] += seat.chips
            self.tally.check(
                seat.balance_after_chips == self.chips[seat.player_id], "doubled", f"{hand_id}: {seat} is not expected"
            )
        if self.rng.random() < 0.02:
            await self.reverse(hand_id)

    async def reverse(self, hand_id: str) -> None:
        request = ledger_pb2.ReverseRequest(hand_id=hand_id, operator="chaos", reason="chaos")
        reply = await self.ask(self.stub.Reverse, request)
        self.tally.reversed[hand_id] = reply
        for balance, moved in zip(reply.balances, reply.chips, strict=True):
            self.chips[balance.player_id] += moved
            self.tally.check(
                balance.chips == self.chips[balance.player_id], "doubled", f"reversal of {hand_id}: {balance}"
            )
