"""What the ledger decides: pure functions from a request and what is stored to what shall be stored.

Every request has a `key`. The same request again gets the first answer (`replayed`); another request with a known key
is a conflict. A decision never writes: the transaction that asked for it holds the players' locks (transaction.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from doudizhu.hand import Side
from doudizhu.refusal import Refusal
from doudizhu.rulebook import GREATEST_INT64, RuleBook
from doudizhu.settle import Outcome, Stakes, Three, settle

ZERO: Final[Three] = (0, 0, 0)

# Accounts of the system, as numbered by migrations/0001_accounts.sql.
RAKE: Final = 1
FLEE: Final = 2
ISSUANCE: Final = 3
SHORTAGE: Final = 4


class Reason(StrEnum):
    """Why the ledger refuses."""

    INVALID = "INVALID"
    NOT_FOUND = "NOT_FOUND"
    KEY_CONFLICT = "KEY_CONFLICT"
    PLAYER_IN_HAND = "PLAYER_IN_HAND"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    HAND_OVER = "HAND_OVER"
    LIMIT_REACHED = "LIMIT_REACHED"
    OVERLOADED = "OVERLOADED"
    UNAVAILABLE = "UNAVAILABLE"


# ---- what is stored -------------------------------------------------------------------------------------------------


class Player(NamedTuple):
    """A player's two accounts, which share a number."""

    player_id: str
    account: int
    chips: int
    rating: int


class End(NamedTuple):
    """How a hand ended; arrays by seat. `chips` is the change with the rake in it; a void hand has no `record`."""

    at_ms: int
    voided: bool
    record: bytes
    balance_before: Three
    chips: Three
    rake: Three
    flee_chips: int
    rating_before: Three
    rating: Three


class Hand(NamedTuple):
    """A hand that was opened, by seat; `end` is None while it is open."""

    hand_id: str
    table_id: str
    player_ids: tuple[str, ...]
    carried: Three
    minimum: int
    end: End | None


class Leg(NamedTuple):
    """A transfer on a system account: `amount` goes to it."""

    account: int
    unit: str
    amount: int


# ---- requests and what is decided of them ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenHand:
    """Seats three players; key: the hand."""

    hand_id: str
    table_id: str
    player_ids: tuple[str, ...]
    minimum: int


@dataclass(frozen=True, slots=True)
class SettleHand:
    """Settles by outcome; key: the hand. `record` is the whole request in canonical form: a repeat has the same."""

    hand_id: str
    room_id: str
    player_ids: tuple[str, ...]
    book: RuleBook
    outcome: Outcome
    base: int
    rake: int
    record: bytes


@dataclass(frozen=True, slots=True)
class VoidHand:
    """Closes without moving a chip; key: the hand. `player_ids`: who sits in it, nobody when it is not known."""

    hand_id: str
    player_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Opened:
    """`carried`: balances at the opening, by seat."""

    hand: Hand
    accounts: Three
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """`hand.end` is set; with its changes the `legs` sum to 0 in each unit."""

    hand: Hand
    request: SettleHand
    accounts: Three = ZERO
    legs: tuple[Leg, ...] = ()
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Voided:
    """`hand.end` is set; nothing moves."""

    hand: Hand
    reason: str = ""
    accounts: Three = ZERO
    replayed: bool = False


def open_hand(request: OpenHand, hand: Hand | None, players: dict[str, Player], seated: dict[int, str]) -> Opened:
    """Raises Refusal KEY_CONFLICT, HAND_OVER, PLAYER_IN_HAND or BELOW_MINIMUM; the last two name who is at fault first.

    `seated`: the open hand of who sits in one, by account. A hand that has ended is not opened again, not even by the
    same request: nobody may play under its id.
    """
    if hand is not None:
        if (hand.player_ids, hand.minimum, hand.table_id) != (request.player_ids, request.minimum, request.table_id):
            raise _conflict(request.hand_id)
        if hand.end is not None:
            raise Refusal(Reason.HAND_OVER, f"{hand.hand_id} is over.", field="hand_id")
        return Opened(hand, ZERO, replayed=True)
    one, two, three = seats = [players[player_id] for player_id in request.player_ids]
    for player in seats:
        if player.account in seated:
            raise in_hand(player, seated[player.account])
    for player in seats:
        if player.chips < request.minimum:
            raise Refusal(
                Reason.BELOW_MINIMUM,
                f"{player.player_id} has {player.chips} chips; the minimum is {request.minimum}.",
                field="minimum_chips",
                player_id=player.player_id,
                balance=player.chips,
                minimum=request.minimum,
            )
    carried = (one.chips, two.chips, three.chips)
    opened = Hand(request.hand_id, request.table_id, request.player_ids, carried, request.minimum, None)
    return Opened(opened, (one.account, two.account, three.account))


class Change(NamedTuple):
    """What a settlement changes, by seat; the chips of the system are those of `rake` and `flee_chips`."""

    chips: Three
    rake: Three
    flee_chips: int
    rating: Three


def compute(request: SettleHand, carried: Three, balances: Three, ratings: Three) -> Change:
    """The settlement by the rules core (RULES.md section 10)."""
    stakes = Stakes(request.base, request.rake, balances, carried, ratings)
    result = settle(request.book, request.outcome, stakes)
    return Change(result.chips, result.rake, result.system - sum(result.rake), result.rating or ZERO)


def settle_hand(request: SettleHand, hand: Hand | None, players: dict[str, Player], at_ms: int) -> Settled:
    """Raises Refusal NOT_FOUND, KEY_CONFLICT, HAND_OVER (it was voided) or INVALID."""
    hand = _opened(request.hand_id, hand)
    if hand.end is not None:
        if hand.end.voided:
            raise Refusal(Reason.HAND_OVER, f"{hand.hand_id} was voided.", field="record.hand_id")
        if hand.end.record != request.record:
            raise _conflict(hand.hand_id)
        return Settled(hand, request, replayed=True)
    if hand.player_ids != request.player_ids:
        raise Refusal(
            Reason.KEY_CONFLICT, f"{hand.hand_id} was opened for other players or seats.", field="record.players"
        )
    one, two, three = [players[player_id] for player_id in hand.player_ids]
    balances = (one.chips, two.chips, three.chips)
    ratings = (one.rating, two.rating, three.rating)
    change = compute(request, hand.carried, balances, ratings)
    end = End(
        at_ms, False, request.record, balances, change.chips, change.rake, change.flee_chips, ratings, change.rating
    )
    settled = Hand(hand.hand_id, hand.table_id, hand.player_ids, hand.carried, hand.minimum, end)
    accounts = (one.account, two.account, three.account)
    return Settled(settled, request, accounts, _legs(change))


def void_hand(request: VoidHand, hand: Hand | None, players: dict[str, Player], at_ms: int) -> Voided:
    """Raises Refusal NOT_FOUND, HAND_OVER (it was settled) or UNAVAILABLE (it is being opened)."""
    hand = seats_known(_opened(request.hand_id, hand), request.player_ids)
    if hand.end is not None:
        if not hand.end.voided:
            raise Refusal(Reason.HAND_OVER, f"{hand.hand_id} was settled.", field="hand_id")
        return Voided(hand, replayed=True)
    one, two, three = (players[player_id] for player_id in hand.player_ids)
    end = End(
        at_ms=at_ms,
        voided=True,
        record=b"",
        balance_before=(one.chips, two.chips, three.chips),
        chips=ZERO,
        rake=ZERO,
        flee_chips=0,
        rating_before=(one.rating, two.rating, three.rating),
        rating=ZERO,
    )
    voided = Hand(hand.hand_id, hand.table_id, hand.player_ids, hand.carried, hand.minimum, end)
    return Voided(voided, request.reason, (one.account, two.account, three.account))


def check_outcome(request: SettleHand) -> None:
    """Raises Refusal INVALID when no hand of the book can have ended so."""
    outcome = request.outcome
    if (outcome.winner is None) == (outcome.fled is None):
        raise _invalid("winner", "a hand is either won or fled")
    if outcome.winner is not None and outcome.landlord is None:
        raise _invalid("landlord", "a hand that was won had a landlord")
    for name, seat in (("landlord", outcome.landlord), ("fled", outcome.fled)):
        if seat is not None and seat not in (0, 1, 2):
            raise _invalid(name, "a seat is 0, 1 or 2")
    if outcome.fled is None and not 1 <= outcome.level <= 3:
        raise _invalid("level", "it is 1, 2 or 3")
    if not 0 <= outcome.level <= 3:
        raise _invalid("level", "it is 0 to 3")
    if outcome.multiplier < 1 or (outcome.fled is not None and outcome.flee_multiplier < 1):
        raise _invalid("multiplier", "it is at least 1")
    if outcome.elapsed_s < 0:
        raise _invalid("elapsed_s", "it is not negative")
    largest = max(outcome.multiplier, outcome.flee_multiplier)
    if request.base * max(outcome.level, 1) * largest * 3 > GREATEST_INT64:
        raise _invalid("multiplier", "the stake does not fit 64 bits")


def kinds(settled: Settled) -> tuple[str, ...]:
    """What each seat's transfers are called: win, lose or flee."""
    outcome = settled.request.outcome
    return tuple(
        "flee"
        if seat == outcome.fled
        else "win"
        if outcome.fled is not None or (seat == outcome.landlord) == (outcome.winner is Side.LANDLORD)
        else "lose"
        for seat in range(3)
    )


def seats_known(hand: Hand, player_ids: tuple[str, ...]) -> Hand:
    """The hand, if `player_ids` are its players: only theirs are locked.

    Raises Refusal UNAVAILABLE when not, as the hand was opened after we had looked for them.
    """
    if hand.player_ids != player_ids:
        raise Refusal(Reason.UNAVAILABLE, f"{hand.hand_id} is being opened; try again.", field="hand_id")
    return hand


def in_hand(player: Player, hand_id: str) -> Refusal:
    """The refusal of who sits in an open hand."""
    return Refusal(
        Reason.PLAYER_IN_HAND,
        f"{player.player_id} is in the open hand {hand_id}.",
        field="player_ids",
        player_id=player.player_id,
        hand_id=hand_id,
    )


def _legs(change: Change) -> tuple[Leg, ...]:
    legs = (
        (RAKE, "chips", sum(change.rake)),
        (FLEE, "chips", change.flee_chips),
        (ISSUANCE, "rating", -sum(change.rating)),
    )
    return tuple(Leg(*leg) for leg in legs if leg[2])


def _opened(hand_id: str, hand: Hand | None) -> Hand:
    if hand is None:
        raise Refusal(Reason.NOT_FOUND, f"No hand {hand_id} was opened.", field="hand_id")
    return hand


def _conflict(key: str) -> Refusal:
    return Refusal(Reason.KEY_CONFLICT, f"{key} is known with another request.", field="hand_id", key=key)


def _invalid(name: str, what: str) -> Refusal:
    return Refusal(Reason.INVALID, f"{name}: {what}.", field=f"record.outcome.{name}")
