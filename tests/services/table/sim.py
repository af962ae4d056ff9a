"""A table without a network: commands in, what is pending answered at once, a clock that the test moves."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import doudizhu
from doudizhu import Refusal, Stakes
from doudizhu.hand import Action, Bid, Call, Play
from doudizhu.hand import Phase as HandPhase
from services.table import commands, events, life, log, wire
from services.table.clocks import clock, wake_at_ms
from services.table.record import record_of
from services.table.table import SEATS, Phase, Stage, Table, Three
from services.table.terms import Clocks, Person, Terms

FAST = Clocks(countdown_ms=7_000, seed_ms=0)


def terms(book: str, **changes: object) -> Terms:
    """A room of this book; `classic` negotiates its base from 1 to 100."""
    values: dict[str, object] = {
        "room_id": f"{book}-room",
        "book_id": book,
        "base_min_chips": 1 if book == "classic" else 10,
        "base_max_chips": 100 if book == "classic" else 10,
        "clocks": FAST,
        "rake_chips": 3 if book == "rob" else 0,
        "minimum_chips": 100,
        "matched": book == "rob",
    }
    return Terms(**{**values, **changes})  # type: ignore[arg-type]


def person(number: int) -> Person:
    """The player p1, p2 …"""
    return Person(f"p{number}", f"Player {number}")


@dataclass
class Sim:
    """One table and a ledger of its own; `balances` by player id."""

    table: Table
    log: list[events.Stamped]
    now_ms: int = 1_000_000
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    balances: dict[str, int] = field(default_factory=dict)
    records: list[object] = field(default_factory=list)
    closed: bool = False  # maintenance

    @staticmethod
    def open(of: Terms, *persons: Person, idle_ms: int = 60_000, balance: int = 10_000, seed: int = 1) -> Sim:
        stamped, table = life.open_table("t1", of, persons, idle_ms=idle_ms, now_ms=1_000_000, draw=seed)
        sim = Sim(table, list(stamped), rng=random.Random(seed))
        sim.balances = {f"p{number}": balance for number in range(1, 10)}
        sim.settle_pending()
        return sim

    def do(self, command: commands.Command, *, draw: int | None = None) -> list[events.Event]:
        """Decides, then answers whatever is pending; returns the events of the command alone."""
        found = self.decide(command, self.rng.getrandbits(32) if draw is None else draw)
        self.settle_pending()
        return found

    def decide(self, command: commands.Command, draw: int) -> list[events.Event]:
        """Decides and folds; what is pending stays so."""
        stamped, after = life.decide(self.table, command, self.now_ms, draw, closed=self.closed)
        folded = self.table
        for one in stamped:
            folded = log.fold("t1", folded, one)
        assert folded == after, "folding the events gives the table that was decided"
        self.table = after
        self.log += stamped
        return [one.event for one in stamped]

    def settle_pending(self) -> None:
        while (effect := life.pending(self.table)) is not None:
            self.decide(self.answer(effect), 0)

    def answer(self, effect: life.Effect) -> commands.Command:
        """What the ledger and the source of seeds answer."""
        if isinstance(effect, life.DrawSeed):
            seed = hashlib.sha256(f"{effect.deal_id}{self.rng.random()}".encode()).digest()
            return commands.Commit(effect.deal_id, seed)
        if isinstance(effect, life.OpenHand):
            for player_id in effect.player_ids:
                if self.balances[player_id] < effect.minimum_chips:
                    return commands.LedgerRefused(effect.hand_id, "BELOW_MINIMUM", player_id, self.balances[player_id])
            one, two, three = (self.balances[player_id] for player_id in effect.player_ids)
            return commands.LedgerOpened(effect.hand_id, (one, two, three))
        if isinstance(effect, life.VoidHand):
            return commands.LedgerVoided(effect.hand_id)
        return self._settle(effect)

    def _settle(self, effect: life.SettleHand) -> commands.Command:
        table = self.table
        assert table.carried is not None
        assert table.last_outcome is not None
        self.records.append(
            record_of(table, [wire.event_to(one, None) for one in self.log if one.seq >= effect.first_seq])
        )
        ids = [one.player_id for one in table.players]
        one, two, three = (self.balances[player_id] for player_id in ids)
        stakes = Stakes(table.base, table.terms.rake_chips, (one, two, three), table.carried)
        result = doudizhu.settle(table.book, table.last_outcome, stakes)
        after: Three = tuple(balance + change for balance, change in zip((one, two, three), result.chips, strict=True))  # type: ignore[assignment]
        self.balances.update(zip(ids, after, strict=True))
        zero = (0, 0, 0)
        return commands.LedgerSettled(effect.hand_id, result.chips, result.rake, after, zero, zero, result.system)

    # ---- shorthand ------------------------------------------------------------------------------------------------

    def act(self, seat: int, action: commands.SeatAction) -> list[events.Event]:
        return self.do(commands.Act(seat, action))

    def sit(self, number: int, seat: int | None = None) -> list[events.Event]:
        return self.do(commands.Sit(person(number), seat))

    def connect_all(self) -> None:
        for number in SEATS:
            one = self.table.seats[number].person
            if one is not None:
                self.do(commands.Connect(one.player_id, f"c{number}"))

    def wait(self, ms: int) -> list[events.Event]:
        """Moves the clock; whatever runs out on the way does so in time."""
        found: list[events.Event] = []
        until = self.now_ms + ms
        while (wake := wake_at_ms(self.table)) is not None and wake <= until:
            self.now_ms = max(self.now_ms, wake)
            happened = self.do(commands.Tick())
            assert happened, f"a clock that has run out does something: {clock(self.table)}"
            found += happened
        self.now_ms = until
        return found

    def wait_for_clock(self) -> list[events.Event]:
        """Moves on to the next deadline."""
        wake = wake_at_ms(self.table)
        assert wake is not None
        return self.wait(max(wake - self.now_ms, 0))

    def legal(self) -> list[Action]:
        """Every legal action of the seat on turn."""
        hand = self.table.hand
        assert hand is not None
        assert hand.turn is not None
        return list(doudizhu.legal_actions(hand, hand.turn))

    def play_hand(self) -> None:
        """Plays until the hand is over: random in the auction, one of the longest plays afterwards."""
        hand_id = self.table.hand_id
        while self.table.stage is Stage.HAND and self.table.hand_id == hand_id:
            hand = self.table.hand
            assert hand is not None
            if hand.turn is None:
                self.wait_for_clock()
                continue
            legal = self.legal()
            plays = [one for one in legal if isinstance(one, Play)]
            action = max(plays, key=lambda one: len(one.cards)) if plays else self.rng.choice(legal)
            self.act(hand.turn, action)  # type: ignore[arg-type]


def classic_table(*numbers: int, base: int = 10, **changes: object) -> Sim:
    """A `classic` table where these have sat down and agreed; the first has set the base."""
    sim = Sim.open(terms("classic", **changes))
    for number in numbers:
        sim.sit(number)
    sim.connect_all()
    sim.act(0, commands.SetBase(base))
    for seat in range(1, len(numbers)):
        sim.act(seat, commands.AnswerBase(True))
    return sim


def happy_table(*numbers: int, **changes: object) -> Sim:
    """A `happy` table where these have sat down and are ready."""
    sim = Sim.open(terms("happy", **changes))
    for number in numbers:
        sim.sit(number)
    sim.connect_all()
    for seat in range(len(numbers)):
        sim.act(seat, commands.Ready(True))
    return sim


def rob_match(**changes: object) -> Sim:
    """Three who were matched in `rob`."""
    sim = Sim.open(terms("rob", **changes), person(1), person(2), person(3))
    sim.connect_all()
    return sim


def pass_all(sim: Sim) -> None:
    """Everybody passes the bidding or the calling."""
    for _ in range(3):
        hand = sim.table.hand
        assert hand is not None
        assert hand.turn is not None
        asked = Bid(hand.turn, 0) if hand.phase is HandPhase.BID else Call(hand.turn, False)
        sim.act(hand.turn, asked)


def refusal(sim: Sim, command: commands.Command) -> Refusal:
    """The refusal of a command, which must leave the table as it was."""
    before = sim.table
    try:
        sim.do(command)
    except Refusal as refused:
        assert sim.table is before
        return refused
    raise AssertionError(f"{command} was accepted")


def roundtrip(stamped: events.Stamped) -> events.Stamped:
    """Through the codec and back."""
    return wire.event_from(wire.event_to(stamped, None).FromString(wire.event_to(stamped, None).SerializeToString()))


__all__ = ["Phase", "Sim", "classic_table", "happy_table", "person", "refusal", "rob_match", "roundtrip", "terms"]
