"""The values of one hand: who may act (Phase), what a seat does (Action), what happened (Event), and the state.

All frozen. Seats are 0, 1, 2; play goes counter-clockwise, next = (seat + 1) mod 3 (RULES.md section 1).
A hand lives from AWAIT_DEAL to OVER. Deal, time and departures come in as actions of the table (no seat).
What a viewer may not know is None; `evolve` folds masked events into a masked Hand just as it does the full ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

from doudizhu.combos import Combo
from doudizhu.deal import Deal
from doudizhu.rulebook import RuleBook

Cards = tuple[int, ...]


class Phase(StrEnum):
    """What the hand waits for."""

    AWAIT_DEAL = "await_deal"
    SHOW_WINDOW = "show_window"
    BID = "bid"
    CALL = "call"
    ROB = "rob"
    SHOW = "show"  # the landlord is asked; a lead means no
    PLAY = "play"
    OVER = "over"


class Choice(StrEnum):
    """A seat's recorded choice in the auction (RULES.md section 6); None in the state = not reached."""

    PASS = "pass"
    ONE = "1"
    TWO = "2"
    THREE = "3"
    CALL = "call"
    ROB = "rob"
    NO_ROB = "no_rob"


class Factor(StrEnum):
    """What multiplies (RULES.md section 9)."""

    INITIAL = "initial"
    REDEAL = "redeal"
    MARKED_JOKER = "marked_joker"
    ROB = "rob"
    SHOW = "show"
    BOMB = "bomb"
    SPRING = "spring"
    ANTI_SPRING = "anti_spring"
    FLEE_BOMBS = "flee_bombs"


Factors = tuple[tuple[Factor, int], ...]


class Side(StrEnum):
    LANDLORD = "landlord"
    FARMERS = "farmers"


# ---- actions: what `decide` is asked ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DealCards:
    """The table deals: the first time, and again after three passes where the book redeals within the hand."""

    deal: Deal


@dataclass(frozen=True, slots=True)
class CloseShowWindow:
    """The show window after the deal has run out."""


@dataclass(frozen=True, slots=True)
class Flee:
    """A seat leaves for good. `elapsed_s`: whole seconds since the first deal of the hand."""

    seat: int
    elapsed_s: int


@dataclass(frozen=True, slots=True)
class Bid:
    seat: int
    level: int  # 1..3, 0 = pass


@dataclass(frozen=True, slots=True)
class Call:
    seat: int
    call: bool


@dataclass(frozen=True, slots=True)
class Rob:
    seat: int
    rob: bool


@dataclass(frozen=True, slots=True)
class Show:
    seat: int
    show: bool


@dataclass(frozen=True, slots=True)
class Play:
    """Put down cards; a lead may name its reading by type id and rank index (D-02)."""

    seat: int
    cards: Cards
    type: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    seat: int


Action = DealCards | CloseShowWindow | Flee | Bid | Call | Rob | Show | Play | Pass


# ---- events: what `decide` answers and `evolve` folds -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dealt:
    """`hands` and `bottom` hold None where the viewer may not look; counts are always 17, 17, 17 and 3."""

    hands: tuple[Cards | None, Cards | None, Cards | None]
    bottom: Cards | None
    marked: int | None
    first_seat: int
    factors: Factors  # what multiplies from the start
    multiplier: int


@dataclass(frozen=True, slots=True)
class BidMade:
    seat: int
    level: int


@dataclass(frozen=True, slots=True)
class CallMade:
    seat: int
    call: bool


@dataclass(frozen=True, slots=True)
class RobMade:
    seat: int
    rob: bool
    factor: int  # 1 when it was declined
    multiplier: int


@dataclass(frozen=True, slots=True)
class Shown:
    seat: int
    cards: Cards
    factor: int
    multiplier: int


@dataclass(frozen=True, slots=True)
class ShowDeclined:
    seat: int


@dataclass(frozen=True, slots=True)
class ShowWindowClosed:
    first_seat: int  # the first to call


@dataclass(frozen=True, slots=True)
class LandlordSet:
    seat: int
    level: int
    bottom: Cards


@dataclass(frozen=True, slots=True)
class Played:
    seat: int
    combo: Combo
    cards_left: int
    factor: int  # 1 when it multiplies nothing
    multiplier: int


@dataclass(frozen=True, slots=True)
class Passed:
    seat: int


@dataclass(frozen=True, slots=True)
class Redealing:
    """Three passes in a book that deals anew within the hand (`rob`): back to AWAIT_DEAL."""


@dataclass(frozen=True, slots=True)
class Voided:
    """Three passes in a book that voids the hand. `redeals`: what the next hand carries in (`classic`)."""

    redeals: int


@dataclass(frozen=True, slots=True)
class Won:
    """The hand is over. `spring`: SPRING, ANTI_SPRING, or None where the book doubles for neither; `hands` is
    what was left, open to all. `seat` put down the last card."""

    seat: int
    side: Side
    spring: Factor | None
    factor: int
    multiplier: int
    hands: tuple[Cards, Cards, Cards]


@dataclass(frozen=True, slots=True)
class Fled:
    """The hand is over. `flee_multiplier` is m' of RULES.md section 10; the hand's factors become those of m'."""

    seat: int
    elapsed_s: int
    flee_multiplier: int


Event = (
    Dealt | BidMade | CallMade | RobMade | Shown | ShowDeclined | ShowWindowClosed | LandlordSet | Played | Passed
    | Redealing | Voided | Won | Fled
)  # fmt: skip


# ---- the state ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hand:
    """One hand, or what one viewer may know of it. Begin with `start(book, ...)`; later values come from `evolve`."""

    book: RuleBook
    phase: Phase = Phase.AWAIT_DEAL
    initial_multiplier: int = 1
    redeals: int = 0  # consecutive redealt hands carried in
    hands: tuple[Cards | None, Cards | None, Cards | None] = ((), (), ())  # None: hidden from this viewer
    counts: tuple[int, int, int] = (0, 0, 0)  # cards left, known to all
    bottom: Cards | None = ()
    marked: int | None = None
    first_seat: int = 0
    turn: int | None = None  # the seat that must act; None: anybody (show window) or the table
    choices: tuple[Choice | None, Choice | None, Choice | None] = (None, None, None)  # bidding or calling
    rob_choices: tuple[Choice | None, Choice | None, Choice | None] = (None, None, None)
    elect: int | None = None  # landlord-elect: the highest bidder so far, or the caller
    landlord: int | None = None
    level: int = 0  # highest bid so far, then the level
    shown: tuple[int, ...] = ()  # seats that have shown, in order
    factors: Factors = ()  # product by factor, in the order they came in
    on_table: Combo | None = None  # the combo to beat; None = a lead
    on_table_seat: int | None = None
    passes: int = 0  # in a row
    combos_by_seat: tuple[int, int, int] = (0, 0, 0)
    bombs_by_seat: tuple[int, int, int] = (0, 0, 0)  # bombs and rockets played
    deals: int = 0
    # How it ended.
    winner: Side | None = None
    fled: int | None = None
    elapsed_s: int = 0
    flee_multiplier: int = 0
    voided: bool = False

    @property
    def multiplier(self) -> int:
        """The product of all factors so far."""
        return prod(value for _, value in self.factors)

    def held(self, seat: int) -> Cards:
        """The cards of a seat whose cards this viewer knows, ascending."""
        cards = self.hands[seat]
        assert cards is not None, f"the cards of seat {seat} are hidden here"
        return cards


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(hand, **changes):
        """`dataclasses.replace` for a Hand, at a tenth of its cost: every event makes a new Hand of 28 fields."""
        copy = object.__new__(Hand)
        copy.__dict__.update(hand.__dict__, **changes)
        return copy
