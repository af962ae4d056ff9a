"""A machine of everything that may happen to the ledger, in any order, with the invariants after every step.

DDZ_LEDGER_EXAMPLES sets how many lives it has (default 12; `make sim-ledger` takes 100).
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar, TypeVar

import asyncpg
import nats
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from nats.aio.client import Client

from doudizhu import BOOKS, HAPPY, Outcome, RuleBook, Side, Stakes, settle
from doudizhu.refusal import Refusal
from servicekit import stream
from services.ledger.audit import audit
from services.ledger.grants import ClaimRelief, Given, Grant, ReliefTerms
from services.ledger.ledger import Opened, OpenHand, Settled, SettleHand, Voided, VoidHand
from services.ledger.relay import Publisher, Relay
from services.ledger.reversals import Reverse, Reversed
from services.ledger.transaction import Reply, Request, transact
from tests.services.ledger.harness import NOBODY_RELAYS, Database

T = TypeVar("T")
EXAMPLES = int(os.environ.get("DDZ_LEDGER_EXAMPLES", "12"))
RELIEF = ReliefTerms(chips=20, below_chips=10, per_day=2)
DAY = date(2026, 3, 1)
SEATS = st.integers(0, 2)
_machines = itertools.count(1)


@dataclass(frozen=True)
class Won:
    """What a player has."""

    chips: int = 0
    rating: int = 0


class LedgerMachine(RuleBasedStateMachine):
    """Six players. The model knows what each has, who sits where, and the first answer to every request."""

    dsn: ClassVar[str]
    nats_url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.name = f"x{next(_machines)}"
        self.numbers = itertools.count(1)
        self.players = {f"{self.name}-p{number}": Won() for number in range(6)}
        self.open: dict[str, OpenHand] = {}
        self.settled: dict[str, SettleHand] = {}
        self.changes: dict[str, Settled] = {}
        self.answers: list[tuple[Request, Reply]] = []
        self.claimed: dict[str, int] = {}
        self.connection: asyncpg.Connection = self.run(asyncpg.connect(self.dsn))
        self.bus: Client = self.run(nats.connect(self.nats_url))
        self.relay = Relay(self.dsn, self.nats_url)
        self.publisher = Publisher(self.bus)
        self.run(self.publisher.listen())
        self.run(stream.ensure(self.bus.jetstream()))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def ask(self, request: Request) -> Reply | Refusal:
        reply = self.run(transact(self.connection, [request]))[0]
        if not isinstance(reply, Refusal) and not reply.replayed:
            self.answers.append((request, reply))
        return reply

    def fresh(self) -> str:
        return f"{self.name}-{next(self.numbers)}"

    def seated(self, player_id: str) -> bool:
        return any(player_id in opened.player_ids for opened in self.open.values())

    def add(self, player_id: str, chips: int, rating: int = 0) -> None:
        has = self.players[player_id]
        self.players[player_id] = Won(has.chips + chips, has.rating + rating)

    @rule(player=SEATS | st.integers(3, 5), chips=st.sampled_from([1, 9, 100, 10_000]))
    def grant(self, player: int, chips: int) -> None:
        player_id = list(self.players)[player]
        reply = self.ask(Grant(self.fresh(), player_id, "gift", chips))
        assert isinstance(reply, Given)
        self.add(player_id, chips)
        assert reply.chips_after == self.players[player_id].chips

    @rule(player=st.integers(0, 5))
    def relief(self, player: int) -> None:
        player_id = list(self.players)[player]
        reply = self.ask(ClaimRelief(self.fresh(), player_id, DAY, RELIEF))
        may = not self.seated(player_id) and self.players[player_id].chips < RELIEF.below_chips
        if may and self.claimed.get(player_id, 0) < RELIEF.per_day:
            assert isinstance(reply, Given)
            self.claimed[player_id] = self.claimed.get(player_id, 0) + 1
            self.add(player_id, RELIEF.chips)
        else:
            assert isinstance(reply, Refusal)
            assert reply.reason in {"PLAYER_IN_HAND", "LIMIT_REACHED"}

    @rule(order=st.permutations(range(6)), minimum=st.sampled_from([0, 0, 0, 50]))
    def open_hand(self, order: list[int], minimum: int) -> None:
        player_ids = tuple(list(self.players)[index] for index in order[:3])
        request = OpenHand(self.fresh(), "table", player_ids, minimum)
        reply = self.ask(request)
        if any(self.seated(player_id) for player_id in player_ids):
            assert isinstance(reply, Refusal)
            assert reply.reason == "PLAYER_IN_HAND"
        elif min(self.players[player_id].chips for player_id in player_ids) < minimum:
            assert isinstance(reply, Refusal)
            assert reply.reason == "BELOW_MINIMUM"
        else:
            assert isinstance(reply, Opened)
            assert list(reply.hand.carried) == [self.players[player_id].chips for player_id in player_ids]
            self.open[request.hand_id] = request

    def end(self, book: RuleBook, outcome: Outcome, base: int, rake: int) -> None:
        hand_id, opened = next(iter(self.open.items()))
        request = SettleHand(hand_id, "room", opened.player_ids, book, outcome, base, rake, self.fresh().encode())
        before = [self.players[player_id] for player_id in opened.player_ids]
        first = next(reply for asked, reply in self.answers if asked == opened)
        assert isinstance(first, Opened)
        balances = (before[0].chips, before[1].chips, before[2].chips)
        ratings = (before[0].rating, before[1].rating, before[2].rating)
        expected = settle(book, outcome, Stakes(base, rake, balances, first.hand.carried, ratings))
        reply = self.ask(request)
        assert isinstance(reply, Settled)
        assert reply.hand.end is not None
        assert (reply.hand.end.chips, reply.hand.end.rake) == (expected.chips, expected.rake)
        for seat, player_id in enumerate(opened.player_ids):
            self.add(player_id, expected.chips[seat], (expected.rating or (0, 0, 0))[seat])
        del self.open[hand_id]
        self.settled[hand_id] = request
        self.changes[hand_id] = reply

    @precondition(lambda self: self.open)
    @rule(
        book=st.sampled_from(list(BOOKS.values())), side=st.sampled_from(list(Side)), landlord=SEATS,
        level=st.integers(1, 3), multiplier=st.sampled_from([1, 6, 96]), base=st.sampled_from([1, 10]),
        rake=st.sampled_from([0, 3]),
    )  # fmt: skip
    def settle_hand(
        self, book: RuleBook, side: Side, landlord: int, level: int, multiplier: int, base: int, rake: int
    ) -> None:
        self.end(book, Outcome(side, landlord, level, multiplier), base, rake)

    @precondition(lambda self: self.open)
    @rule(book=st.sampled_from(list(BOOKS.values())), landlord=SEATS | st.none(), fled=SEATS, factor=st.integers(1, 8))
    def flee(self, book: RuleBook, landlord: int | None, fled: int, factor: int) -> None:
        self.end(book, Outcome(None, landlord, 2, factor, fled, factor, elapsed_s=75), 5, 3)

    @precondition(lambda self: self.open)
    @rule(landlord=SEATS, fled=SEATS)
    def flee_early(self, landlord: int, fled: int) -> None:
        self.end(HAPPY, Outcome(None, landlord, 3, 4, fled, 4, elapsed_s=59), 5, 0)

    @precondition(lambda self: self.open)
    @rule()
    def void(self) -> None:
        hand_id, opened = self.open.popitem()
        assert isinstance(self.ask(VoidHand(hand_id, opened.player_ids, "test")), Voided)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Any request again, however much has happened since: only a hand that is over is not opened again."""
        request, first = data.draw(st.sampled_from(self.answers))
        again = self.ask(request)
        if isinstance(request, OpenHand) and request.hand_id not in self.open:
            assert isinstance(again, Refusal)
            assert again.reason == "HAND_OVER"
            return
        assert not isinstance(again, Refusal)
        assert again.replayed
        match first, again:
            case (Opened() | Settled() | Voided(), Opened() | Settled() | Voided()):
                assert without_time(again) == without_time(first)
            case (Given(), Given()):
                assert replace(again, account=0, replayed=False) == replace(first, account=0)
            case (Reversed(), Reversed()):
                assert replace(again, replayed=False) == replace(first, accounts=(0, 0, 0), legs=())
            case _:
                raise AssertionError((first, again))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def reuse_a_key(self, data: st.DataObject) -> None:
        """The key of another request: refused, whatever has happened since."""
        request, _ = data.draw(st.sampled_from(self.answers))
        match request:
            case Grant():
                other: Request = replace(request, chips=request.chips + 1)
            case OpenHand():
                other = replace(request, minimum=request.minimum + 1)
            case SettleHand():
                other = replace(request, record=request.record + b"x")
            case Reverse():
                other = replace(request, reason="another")
            case ClaimRelief():
                other = Grant(request.key, request.player_id, "gift", RELIEF.chips)
            case VoidHand():
                outcome = Outcome(Side.LANDLORD, 0, 1, 1)
                other = SettleHand(request.hand_id, "room", request.player_ids, HAPPY, outcome, 1, 0, b"late")
        reply = self.ask(other)
        assert isinstance(reply, Refusal)
        assert reply.reason == ("HAND_OVER" if isinstance(request, VoidHand) else "KEY_CONFLICT")

    @precondition(lambda self: self.settled)
    @rule()
    def reverse(self) -> None:
        hand_id, settled = self.settled.popitem()
        reply = self.ask(Reverse(hand_id, settled.player_ids, "eve", "test"))
        end = self.changes[hand_id].hand.end
        assert isinstance(reply, Reversed)
        assert end is not None
        for seat, player_id in enumerate(settled.player_ids):
            has = self.players[player_id]
            self.add(player_id, -min(end.chips[seat], has.chips), -min(end.rating[seat], has.rating))
        assert reply.shortage_chips >= 0

    @rule(violent=st.booleans())
    def reconnect(self, violent: bool) -> None:
        self.connection.terminate() if violent else self.run(self.connection.close())
        self.connection = self.run(asyncpg.connect(self.dsn))

    @rule()
    def relay_step(self) -> None:
        self.run(self.relay.step(self.connection, self.publisher))

    @invariant()
    def the_ledger_is_in_order(self) -> None:
        async def check() -> None:
            rows = await self.connection.fetch("SELECT * FROM ledger.balances($1)", list(self.players))
            stored = {row["player_id"]: Won(row["chips"], row["rating"]) for row in rows}
            assert {player_id: stored.get(player_id, Won()) for player_id in self.players} == self.players
            async with self.connection.transaction(isolation="repeatable_read", readonly=True):
                report = await audit(self.connection, 0, 0, records=False, news_limit=NOBODY_RELAYS)
            assert report.faults == []

        self.run(check())

    def teardown(self) -> None:
        for hand_id, opened in self.open.items():
            self.run(transact(self.connection, [VoidHand(hand_id, opened.player_ids, "the end")]))
        self.run(self.connection.close())
        self.run(self.bus.close())
        self.loop.close()


def without_time(reply: Opened | Settled | Voided) -> tuple[object, ...]:
    """What a caller is told: all but what only the first transaction needed."""
    hand = reply.hand
    if isinstance(reply, Opened):
        return hand.hand_id, hand.player_ids, hand.carried
    return hand.hand_id, hand.player_ids, hand.carried, hand.end


@pytest.mark.timeout(300)
def test_whatever_happens_in_any_order(database: Database, nats: str) -> None:
    LedgerMachine.dsn, LedgerMachine.nats_url = database.dsn(), nats
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
