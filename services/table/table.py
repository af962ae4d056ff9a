"""The values of a table's life (RULES.md section 4): seats, observers, and what it waits for. All frozen.

A table begins with `opened` and changes by `evolve` alone. Everything that it waits for follows from this value: its
clock (clocks.py) and what is still to be done outside (`pending` in life.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from doudizhu import Factors, Hand, Outcome, RuleBook
from doudizhu.hand import Phase as HandPhase
from services.table.terms import Person, Terms

SEATS: Final = (0, 1, 2)
Three = tuple[int, int, int]
Connection = tuple[str, str]  # a person and the name of his stream, which begins with that of its node


class Stage(StrEnum):
    """Where in its life a table is. Outside of a hand the details follow from seats and base (`Table.phase`)."""

    WAITING = "waiting"
    OPENING = "opening"  # the ledger opens the hand
    HAND = "hand"
    SETTLING = "settling"  # the ledger settles or voids it
    COUNTDOWN = "countdown"
    CLOSED = "closed"


class Phase(StrEnum):
    """What people see the table wait for; spelled like events.proto without the prefix."""

    SEATING = "SEATING"
    BASE = "BASE"
    AGREE = "AGREE"
    READY = "READY"
    OPENING = "OPENING"
    SEED = "SEED"
    SHOW_WINDOW = "SHOW_WINDOW"
    BID = "BID"
    CALL = "CALL"
    ROB = "ROB"
    SHOW = "SHOW"
    PLAY = "PLAY"
    SETTLING = "SETTLING"
    COUNTDOWN = "COUNTDOWN"
    CLOSED = "CLOSED"


class Trustee(StrEnum):
    """Why the server plays for a seat (D-05, D-06)."""

    AWAY = "away"  # its last connection is lost; off when the player is back
    MISSES = "misses"  # two time-outs in a row; off when the player says so
    CHOICE = "choice"


@dataclass(frozen=True)
class Seat:
    """One seat and the account it belongs to."""

    person: Person | None = None
    ready: bool = False
    agreed: bool = False
    asked_at_ms: int = 0  # since when it has been asked to agree
    connection: str = ""  # its newest stream; empty = none
    absent_at_ms: int = 0  # since when it has had none
    trustee: Trustee | None = None
    trustee_at_ms: int = 0
    misses: int = 0  # time-outs in a row
    observers_allowed: bool = False
    leaving: int = 0  # the event with which he asked to leave, once the ledger has answered; 0 = he stays
    balance: int | None = None  # after the last settlement, or as carried into this hand


@dataclass(frozen=True)
class Observer:
    """A person who watches one seat."""

    person: Person
    seat: int
    connection: str = ""
    absent_at_ms: int = 0


@dataclass(frozen=True)
class Proof:
    """What a deal comes from (D-07). The server seed is a secret until the hand is over."""

    deal_id: str
    commitment: bytes
    server_seed: bytes
    client_seeds: tuple[bytes, bytes, bytes] = (b"", b"", b"")


@dataclass(frozen=True, slots=True)
class Result:
    """What the ledger answered, by seat."""

    hand_id: str
    chips: Three
    rake: Three
    balances: Three
    rating: Three
    ratings_after: Three
    system: int
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A play or a pass of the running trick, as the log has it: its number, time, event and author."""

    seq: int
    at_ms: int
    event: object
    by_trustee: bool


@dataclass(frozen=True)
class Table:
    """A table as its log says. `hand` is the live or the last hand, `players` who plays or played it, by seat."""

    table_id: str
    terms: Terms
    book: RuleBook
    idle_ms: int
    seq: int = 0
    stage: Stage = Stage.WAITING
    seats: tuple[Seat, Seat, Seat] = (Seat(), Seat(), Seat())
    observers: tuple[Observer, ...] = ()
    empty_at_ms: int = 0  # since when nobody has been seated
    # The base (`classic`): 0 = not set; `base_setter` is asked, or has set it.
    base: int = 0
    base_setter: int | None = None
    base_asked_at_ms: int = 0
    # The hand.
    hand_number: int = 0
    hand_id: str = ""
    players: tuple[Person, ...] = ()
    carried: Three | None = None  # None: the ledger has not opened this hand
    redeals: int = 0  # carried into the next hand
    hand: Hand | None = None
    hand_seq: int = 0  # of its HandOpening
    proofs: tuple[Proof, ...] = ()  # one for each deal of this hand
    dealt_at_ms: int = 0
    trick: tuple[Step, ...] = ()
    since_ms: int = 0  # since when it waits for what it waits for
    grace_until_ms: int = 0  # no clock runs out before
    last_result: Result | None = None
    last_outcome: Outcome | None = None
    last_factors: Factors = ()

    @property
    def unsettled(self) -> int:
        """How many hands have begun since the last one that was settled."""
        last = self.last_result
        return self.hand_number - (int(last.hand_id.rpartition("-")[2]) if last else 0)

    @property
    def negotiated(self) -> bool:
        """Whether the table agrees on its base."""
        return self.book.negotiated_base and self.terms.base_min_chips != self.terms.base_max_chips

    @property
    def minimum_chips(self) -> int:
        """What each needs to play: the room's minimum, or so many bases (`classic`: 3)."""
        return max(self.terms.minimum_chips, self.book.minimum_bases * self.base)

    @property
    def seated(self) -> tuple[int, ...]:
        """The seats that are taken."""
        return tuple(number for number in SEATS if self.seats[number].person is not None)

    @property
    def live(self) -> bool:
        """Whether leaving now is a flee: from the deal on, in a match from the match on (section 4)."""
        if self.stage not in (Stage.OPENING, Stage.HAND):
            return False
        return self.terms.matched or (self.hand is not None and self.dealt_at_ms > 0)

    @property
    def phase(self) -> Phase:
        """What the table waits for."""
        if self.stage is Stage.HAND:
            assert self.hand is not None
            return _HAND_PHASES[self.hand.phase]
        if self.stage is not Stage.WAITING:
            return Phase[self.stage.name]
        if self.negotiated and self.base == 0:
            return Phase.BASE if self.base_setter is not None else Phase.SEATING
        if self.negotiated and any(not self.seats[number].agreed for number in self.seated):
            return Phase.AGREE
        return Phase.SEATING if len(self.seated) < len(SEATS) else Phase.READY

    @property
    def connections(self) -> list[Connection]:
        """Everybody's newest stream."""
        seats = [(seat.person.player_id, seat.connection) for seat in self.seats if seat.person and seat.connection]
        return seats + [(one.person.player_id, one.connection) for one in self.observers if one.connection]

    @property
    def known(self) -> set[str]:
        """Everybody who sits here or played the last hand."""
        seated = [seat.person for seat in self.seats if seat.person is not None]
        return {person.player_id for person in (*seated, *self.players)}

    def seat_of(self, player_id: str) -> int | None:
        """The seat that belongs to an account."""
        for number, seat in enumerate(self.seats):
            if seat.person is not None and seat.person.player_id == player_id:
                return number
        return None

    def observer_of(self, player_id: str) -> Observer | None:
        """The observer of that account."""
        return next((observer for observer in self.observers if observer.person.player_id == player_id), None)


_HAND_PHASES: Final = {
    HandPhase.AWAIT_DEAL: Phase.SEED,
    HandPhase.SHOW_WINDOW: Phase.SHOW_WINDOW,
    HandPhase.BID: Phase.BID,
    HandPhase.CALL: Phase.CALL,
    HandPhase.ROB: Phase.ROB,
    HandPhase.SHOW: Phase.SHOW,
    HandPhase.PLAY: Phase.PLAY,
    HandPhase.OVER: Phase.SETTLING,
}


def base_at_start(terms: Terms, book: RuleBook) -> int:
    """The room's base, or 0 where the table is to agree on one."""
    negotiated = book.negotiated_base and terms.base_min_chips != terms.base_max_chips
    return 0 if negotiated else terms.base_min_chips


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, **changes):
        """`dataclasses.replace` for the values above that change, at a tenth of its cost: they have no slots for it."""
        copy = object.__new__(type(value))
        copy.__dict__.update(value.__dict__, **changes)
        return copy
