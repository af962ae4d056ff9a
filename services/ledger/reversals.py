"""A settlement taken back by an operator: everybody gets back what he lost, and gives back what he won and still has.

What a winner no longer has is booked as shortage: the system bears it. No balance goes below 0. Pure, like ledger.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from doudizhu.refusal import Refusal
from doudizhu.settle import Three
from services.ledger.ledger import FLEE, ISSUANCE, RAKE, SHORTAGE, ZERO, Hand, Leg, Player, Reason, seats_known


@dataclass(frozen=True, slots=True)
class Reverse:
    """Takes a settlement back; key: the hand. `player_ids`: who sat in it, nobody when it is not known."""

    hand_id: str
    player_ids: tuple[str, ...]
    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reversed:
    """A reversal as it is stored, by seat. `chips` and `rating` are what moves now; the others, balances after it."""

    hand_id: str
    player_ids: tuple[str, ...]
    operator: str
    reason: str
    chips: Three
    rating: Three
    chips_after: Three
    rating_after: Three
    shortage_chips: int
    shortage_rating: int
    accounts: Three = ZERO
    legs: tuple[Leg, ...] = ()
    replayed: bool = False


def reversal_key(hand_id: str) -> str:
    """The key of a reversal's transfers; a hand's own key is its id, which has no colon."""
    return f"reverse:{hand_id}"


def reverse(request: Reverse, hand: Hand | None, known: Reversed | None, players: dict[str, Player]) -> Reversed:
    """Raises Refusal NOT_FOUND (no settlement), HAND_OVER (voided) or KEY_CONFLICT (another operator or reason).

    Also UNAVAILABLE, when the hand was opened and settled while we looked for its players.
    """
    if hand is None or hand.end is None:
        raise Refusal(Reason.NOT_FOUND, f"No settled hand {request.hand_id}.", field="hand_id")
    hand = seats_known(hand, request.player_ids)
    assert hand.end is not None
    if hand.end.voided:
        raise Refusal(Reason.HAND_OVER, f"{hand.hand_id} was voided: nothing was settled.", field="hand_id")
    if known is not None:
        if (known.operator, known.reason) != (request.operator, request.reason):
            raise Refusal(
                Reason.KEY_CONFLICT,
                f"{hand.hand_id} was reversed by {known.operator}: {known.reason}",
                field="hand_id",
                key=hand.hand_id,
            )
        return replace(known, replayed=True)
    end = hand.end
    seats = [players[player_id] for player_id in hand.player_ids]
    chips = _back(end.chips, [player.chips for player in seats])
    rating = _back(end.rating, [player.rating for player in seats])
    shortage_chips = sum(end.chips) + sum(chips)
    shortage_rating = sum(end.rating) + sum(rating)
    legs = (
        (RAKE, "chips", -sum(end.rake)),
        (FLEE, "chips", -end.flee_chips),
        (SHORTAGE, "chips", -shortage_chips),
        (ISSUANCE, "rating", sum(end.rating)),
        (SHORTAGE, "rating", -shortage_rating),
    )
    one, two, three = (player.account for player in seats)
    return Reversed(
        hand_id=hand.hand_id,
        player_ids=hand.player_ids,
        operator=request.operator,
        reason=request.reason,
        chips=chips,
        rating=rating,
        chips_after=_sum([player.chips for player in seats], chips),
        rating_after=_sum([player.rating for player in seats], rating),
        shortage_chips=shortage_chips,
        shortage_rating=shortage_rating,
        accounts=(one, two, three),
        legs=tuple(Leg(*leg) for leg in legs if leg[2]),
    )


def _back(changes: Three, balances: Sequence[int]) -> Three:
    """What moves back: all of a loss, and of a win what is still there."""
    one, two, three = (-min(change, balance) for change, balance in zip(changes, balances, strict=True))
    return one, two, three


def _sum(balances: Sequence[int], moved: Three) -> Three:
    one, two, three = (balance + change for balance, change in zip(balances, moved, strict=True))
    return one, two, three
