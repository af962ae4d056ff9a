"""What the client folds from masked events is what the table service would tell it in a snapshot, for every viewer."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ddz.table.v1.events_pb2 import Event, Snapshot
from ddzclient.fold import fold
from ddzclient.policy import hand_of, in_hand
from doudizhu import BOOKS, Refusal, Stakes, legal_actions, outcome, settle, view
from doudizhu.hand import Call, Show
from services.table import commands, life, wire
from services.table.clocks import clock, wake_at_ms
from services.table.events import Stamped
from services.table.table import Phase, Stage, Table
from services.table.terms import Clocks, Person, Terms
from services.table.views import masked, viewer
from services.table.wire_snapshot import snapshot_to

PEOPLE = tuple(Person(f"p{number}", f"Player {number}") for number in range(5))
SEEDS, STEPS = 12, 200
WATCHERS = tuple(person.player_id for person in PEOPLE)


@dataclass
class Simulation:
    """A table that random people act at, and the snapshot that each of them has folded."""

    rng: random.Random
    table: Table
    now_ms: int = 1_000_000
    states: dict[str, Snapshot] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def fresh(self, player_id: str) -> Snapshot:
        return snapshot_to(self.table, viewer(self.table, player_id), epoch=1, now_ms=self.now_ms)

    def step(self) -> bool:
        """One random command, folded by everybody; False when it has changed nothing."""
        command = self.rng.choice(list(self._possible()))
        if isinstance(command, commands.Tick):
            self.now_ms = max(self.now_ms, wake_at_ms(self.table) or 0)
        self.now_ms += self.rng.randrange(50)
        try:
            stamped, table = life.decide(self.table, command, self.now_ms, self.rng.getrandbits(32))
        except Refusal:
            return False
        before, self.table = self.table, table
        for player_id in WATCHERS:
            self._follow(player_id, stamped)
            if viewer(before, player_id) != viewer(table, player_id):
                self.states[player_id] = self.fresh(player_id)  # as the service does for who sees otherwise now
        return bool(stamped)

    def _follow(self, player_id: str, stamped: list[Stamped]) -> None:
        who = viewer(self.table, player_id)
        for one in stamped:
            message = wire.event_to(Stamped(one.seq, one.at_ms, masked(one.event, who)), clock(self.table))
            fold(self.states[player_id], message, player_id)
            self.seen[message.WhichOneof("event") or ""] += 1

    def _possible(self) -> Iterator[commands.Command]:
        yield commands.Tick()
        for _ in range(5):
            yield from self._answers()
            yield from self._moves()
        yield from self._seating()
        if self.rng.random() < 0.2:
            yield from self._persons()

    def _answers(self) -> Iterator[commands.Command]:
        match life.pending(self.table):
            case life.OpenHand(hand_id=hand_id, player_ids=player_ids):
                yield commands.LedgerOpened(hand_id, (900, 800, 700))
                if self.rng.random() < 0.1:
                    yield commands.LedgerRefused(hand_id, "BELOW_MINIMUM", self.rng.choice(player_ids), 3)
            case life.DrawSeed(deal_id=deal_id):
                yield commands.Commit(deal_id, self.rng.randbytes(32))
            case life.VoidHand(hand_id=hand_id):
                yield commands.LedgerVoided(hand_id)
            case life.SettleHand(hand_id=hand_id):
                yield self._settled(hand_id)

    def _settled(self, hand_id: str) -> commands.Command:
        table = self.table
        assert table.hand is not None
        assert table.carried is not None
        stakes = Stakes(max(table.base, 1), table.terms.rake_chips, table.carried, table.carried, (50, 50, 50))
        found = settle(table.book, outcome(table.hand), stakes)
        one, two, three = (had + won for had, won in zip(table.carried, found.chips, strict=True))
        rating = found.rating or (0, 0, 0)
        return commands.LedgerSettled(hand_id, found.chips, found.rake, (one, two, three), rating, rating, found.system)

    def _moves(self) -> Iterator[commands.Command]:
        hand = self.table.hand
        if hand is None or self.table.stage is not Stage.HAND:
            return
        if self.table.phase is Phase.SEED:
            yield commands.Act(self.rng.randrange(3), commands.GiveSeed(self.rng.randbytes(4)))
        elif self.table.phase is Phase.SHOW_WINDOW:
            yield commands.Act(self.rng.randrange(3), Show(0, True))
        elif self.table.phase is Phase.SHOW and hand.turn is not None:
            yield commands.Act(hand.turn, Show(hand.turn, self.rng.random() < 0.5))
        elif self.table.phase is Phase.CALL and hand.turn is not None:
            yield commands.Act(hand.turn, Call(hand.turn, False))
        if hand.turn is not None:
            actions = legal_actions(view(hand, hand.turn), hand.turn)
            yield commands.Act(hand.turn, self.rng.choice(actions))  # type: ignore[arg-type]

    def _seating(self) -> Iterator[commands.Command]:
        if self.table.stage not in (Stage.WAITING, Stage.COUNTDOWN):
            return
        for number in self.table.seated:
            yield commands.Act(number, commands.SetBase(5))
            yield commands.Act(number, commands.AnswerBase(self.rng.random() < 0.9))
            yield commands.Act(number, commands.Ready(self.rng.random() < 0.9))
        yield commands.Sit(self.rng.choice(PEOPLE))

    def _persons(self) -> Iterator[commands.Command]:
        """What may happen at any time."""
        person = self.rng.choice(PEOPLE)
        number = self.rng.randrange(3)
        yield commands.Connect(person.player_id, "c1")
        yield commands.Disconnect(person.player_id, "c1")
        yield commands.Observe(person, number)
        yield commands.Act(number, commands.AllowObservers(self.rng.random() < 0.7))
        yield commands.Act(number, commands.SetTrustee(self.rng.random() < 0.5))
        if self.rng.random() < 0.3:
            yield commands.Leave(person.player_id)


def simulate(book: str, seed: int) -> Simulation:
    rng = random.Random(seed)
    base = (5, 20) if book == "classic" else (10, 10)
    rake = 3 if book == "rob" else 0
    terms = Terms("room", book, *base, clocks=Clocks(), initial_multiplier=1, rake_chips=rake, minimum_chips=20)
    seated = PEOPLE[:3] if rng.random() < 0.7 else ()
    draw = rng.getrandbits(32)
    _, table = life.open_table("t1", terms, seated, idle_ms=60_000, now_ms=1_000_000, draw=draw)
    simulation = Simulation(rng, table)
    simulation.states = {player_id: simulation.fresh(player_id) for player_id in WATCHERS}
    return simulation


def test_folded_events_are_the_snapshot() -> None:
    seen: Counter[str] = Counter()
    for book, seed in itertools.product(BOOKS, range(SEEDS)):
        simulation = simulate(book, seed)
        for _ in range(STEPS):
            if not simulation.step():
                continue
            for player_id, state in simulation.states.items():
                told = simulation.fresh(player_id)
                if comparable(state) != comparable(told):
                    assert str(state).splitlines() == str(told).splitlines(), (book, seed, player_id)
        seen += simulation.seen
    kinds = {kind.name for kind in Event.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert kinds - set(seen) == {"opened"}


def comparable(state: Snapshot) -> Snapshot:
    """Without the time of the snapshot, and without the server seed of a void hand, of which no event tells."""
    copy = Snapshot()
    copy.CopyFrom(state)
    copy.ClearField("at_ms")
    copy.proof.ClearField("server_seed")
    return copy


@pytest.mark.parametrize("book", sorted(BOOKS))
def test_the_hand_of_a_snapshot_allows_what_the_rules_allow(book: str) -> None:
    asked = 0
    for seed in range(SEEDS):
        simulation = simulate(book, seed)
        for _ in range(STEPS):
            if not simulation.step():
                continue
            table = simulation.table
            if table.stage is not Stage.HAND or table.hand is None or table.hand.turn is None:
                continue
            seat = table.hand.turn
            person = table.seats[seat].person
            assert person is not None
            state = simulation.states[person.player_id]
            assert in_hand(state)
            assert legal_actions(hand_of(state), seat) == legal_actions(view(table.hand, seat), seat)
            asked += 1
    assert asked > 100
