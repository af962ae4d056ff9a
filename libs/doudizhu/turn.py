"""Whose turn it is, and the refusals that every action shares."""

from __future__ import annotations

from typing import Final, TypeVar

from doudizhu.hand import Hand, Phase
from doudizhu.refusal import Illegal, Malformed, Reason

SEATS: Final = (0, 1, 2)
T = TypeVar("T")


def next_seat(seat: int) -> int:
    """The seat after this one, counter-clockwise (RULES.md section 1)."""
    return (seat + 1) % 3


def with_seat(three: tuple[T, T, T], seat: int, value: T) -> tuple[T, T, T]:
    """The three values with the one of this seat replaced."""
    one, two, last = three
    if seat == 0:
        return value, two, last
    return (one, value, last) if seat == 1 else (one, two, value)


def require_seat(seat: int) -> None:
    """Raises Malformed when it is no seat."""
    if seat not in SEATS:
        raise Malformed(Reason.MALFORMED, f"a seat is 0, 1 or 2, not {seat}", field="seat")


def require_phase(hand: Hand, *phases: Phase) -> None:
    """Raises Illegal when the hand is over or waits for something else."""
    if hand.phase in phases:
        return
    if hand.phase is Phase.OVER:
        raise Illegal(Reason.HAND_OVER, "the hand is over")
    wanted = " or ".join(phases)
    raise Illegal(Reason.WRONG_PHASE, f"this belongs to {wanted}, but the hand is in {hand.phase}", phase=hand.phase)


def require_turn(hand: Hand, seat: int, *phases: Phase) -> None:
    """Raises what `require_seat` and `require_phase` raise, and Illegal when it is another seat's turn."""
    require_seat(seat)
    require_phase(hand, *phases)
    if seat != hand.turn:
        raise Illegal(Reason.NOT_YOUR_TURN, f"it is the turn of seat {hand.turn}", turn=hand.turn)
