"""What a table is asked: by people, by the service around it, and by its clock. All frozen.

Randomness and time come in as data: `decide` gets the time and a number drawn by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from doudizhu.hand import Bid, Call, Pass, Play, Rob, Show
from services.table.table import Connection, Three
from services.table.terms import Person

# ---- what a seated player may do ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetBase:
    base_chips: int


@dataclass(frozen=True, slots=True)
class AnswerBase:
    agree: bool


@dataclass(frozen=True, slots=True)
class Ready:
    ready: bool


@dataclass(frozen=True, slots=True)
class SetTrustee:
    on: bool


@dataclass(frozen=True, slots=True)
class AllowObservers:
    allow: bool


@dataclass(frozen=True, slots=True)
class GiveSeed:
    seed: bytes


HandAction = Bid | Call | Rob | Show | Play | Pass
SeatAction = SetBase | AnswerBase | Ready | SetTrustee | AllowObservers | GiveSeed | HandAction


@dataclass(frozen=True, slots=True)
class Act:
    """A seated player's action; the seat is his."""

    seat: int
    action: SeatAction


@dataclass(frozen=True, slots=True)
class Sit:
    person: Person
    seat: int | None = None  # None = any


@dataclass(frozen=True, slots=True)
class Observe:
    person: Person
    seat: int


@dataclass(frozen=True, slots=True)
class Leave:
    player_id: str


# ---- operators ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proceed:
    """The system is open again: a hand that was held back may begin."""


@dataclass(frozen=True, slots=True)
class VoidTable:
    """An operator ends the table; nobody pays for the hand that is played."""


# ---- streams and the clock ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connect:
    """A new stream of a person; it is his newest from now on."""

    player_id: str
    connection: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A stream has ended; nothing changes when it was not his newest."""

    player_id: str
    connection: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; does nothing when no clock has run out."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The table is taken up after a time in which nobody could act; these streams (person, connection) are dead."""

    dead: tuple[Connection, ...] = ()


# ---- answers to what was pending ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LedgerOpened:
    hand_id: str
    carried: Three


@dataclass(frozen=True, slots=True)
class LedgerRefused:
    """The ledger does not open the hand. `player_id` is empty when nobody in particular is to blame."""

    hand_id: str
    reason: str
    player_id: str = ""
    balance: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    deal_id: str
    server_seed: bytes


@dataclass(frozen=True, slots=True)
class LedgerSettled:
    hand_id: str
    chips: Three
    rake: Three
    balances: Three
    rating: Three
    ratings_after: Three
    system: int


@dataclass(frozen=True, slots=True)
class LedgerVoided:
    """The hand is closed in the ledger without a transfer, by us or by an operator."""

    hand_id: str


Command = (
    Act | Sit | Observe | Leave | Connect | Disconnect | Tick | Resume | LedgerOpened | LedgerRefused | Commit
    | LedgerSettled | LedgerVoided | Proceed | VoidTable
)  # fmt: skip
