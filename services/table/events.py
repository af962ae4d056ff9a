"""What happens at a table: events of its own, and `Move`, which carries an event of the hand. All frozen.

Unmasked they are the log; masked (views.py) they are what people see.
"""

from __future__ import annotations

from dataclasses import dataclass

from doudizhu import Factors, Outcome
from doudizhu.hand import Event as HandEvent
from services.table.table import Proof, Result, Three, Trustee
from services.table.terms import Person, Terms


@dataclass(frozen=True, slots=True)
class Opened:
    terms: Terms
    idle_ms: int


@dataclass(frozen=True, slots=True)
class SeatTaken:
    seat: int
    person: Person


@dataclass(frozen=True, slots=True)
class SeatLeft:
    """`reason` is empty when the player left of his own will; minimum and balance are told for BELOW_MINIMUM."""

    seat: int
    player_id: str
    reason: str = ""
    minimum_chips: int = 0
    balance_chips: int = 0


@dataclass(frozen=True, slots=True)
class LeaveAsked:
    seat: int


@dataclass(frozen=True, slots=True)
class BaseAsked:
    seat: int


@dataclass(frozen=True, slots=True)
class BaseSet:
    seat: int
    base_chips: int


@dataclass(frozen=True, slots=True)
class BaseAnswered:
    seat: int
    agree: bool


@dataclass(frozen=True, slots=True)
class BaseReset:
    pass


@dataclass(frozen=True, slots=True)
class ReadySet:
    seat: int
    ready: bool


@dataclass(frozen=True, slots=True)
class HandOpening:
    hand_id: str
    base_chips: int
    redeals: int


@dataclass(frozen=True, slots=True)
class HandOpened:
    carried_chips: Three


@dataclass(frozen=True, slots=True)
class Committed:
    deal_id: str
    commitment: bytes
    server_seed: bytes


@dataclass(frozen=True, slots=True)
class SeedGiven:
    seat: int
    seed: bytes


@dataclass(frozen=True, slots=True)
class Move:
    """An event of the hand. `by_trustee`: the server acted, for a trustee seat or because the clock ran out.

    A deal carries its proof, and so does a hand in which all have passed, now with the server's seed; a win and a flee
    carry the outcome and the factors of the multiplier.
    """

    event: HandEvent
    by_trustee: bool = False
    proof: Proof | None = None
    outcome: Outcome | None = None
    factors: Factors = ()


@dataclass(frozen=True, slots=True)
class HandVoided:
    """The table voids a hand: left, absent, refused. `redeals` stays what it was, `proofs` are revealed."""

    reason: str
    redeals: int
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True, slots=True)
class HandSettled:
    result: Result


@dataclass(frozen=True, slots=True)
class CountdownStarted:
    pass


@dataclass(frozen=True, slots=True)
class CountdownEnded:
    pass


@dataclass(frozen=True, slots=True)
class ClockExtended:
    until_ms: int


@dataclass(frozen=True, slots=True)
class TrusteeSet:
    """`why` is None when the trustee is off."""

    seat: int
    why: Trustee | None


@dataclass(frozen=True, slots=True)
class ObserverJoined:
    observer: Person
    seat: int


@dataclass(frozen=True, slots=True)
class ObserverLeft:
    player_id: str


@dataclass(frozen=True, slots=True)
class ObserverPresenceSet:
    player_id: str
    connected: bool
    connection: str


@dataclass(frozen=True, slots=True)
class CardsAllowed:
    seat: int
    allow: bool


@dataclass(frozen=True, slots=True)
class PresenceSet:
    seat: int
    connected: bool
    connection: str


@dataclass(frozen=True, slots=True)
class Closed:
    reason: str


Event = (
    Move | Opened | SeatTaken | SeatLeft | LeaveAsked | BaseAsked | BaseSet | BaseAnswered | BaseReset | ReadySet
    | HandOpening | HandOpened | Committed | SeedGiven | HandVoided | HandSettled | CountdownStarted | CountdownEnded
    | ClockExtended | TrusteeSet | ObserverJoined | ObserverLeft | ObserverPresenceSet | CardsAllowed | PresenceSet
    | Closed
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stamped:
    """An event with its number in the log and the time at which it was appended, in milliseconds since the epoch."""

    seq: int
    at_ms: int
    event: Event
