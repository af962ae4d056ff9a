"""What a settled hand adds to each player's statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one player; the fields are those of ddz.lobby.v1.Statistics."""

    hands: int = 0
    landlord_hands: int = 0
    landlord_wins: int = 0
    farmer_hands: int = 0
    farmer_wins: int = 0
    flees: int = 0
    greatest_multiplier: int = 0


def tally(
    players: Sequence[str], *, landlord: int | None, landlord_won: bool, fled: int | None, multiplier: int
) -> dict[str, Tally]:
    """The three players' counts of one hand. One that somebody fled from is won and lost by nobody."""
    if fled is not None:
        return {player: Tally(hands=1, flees=int(seat == fled)) for seat, player in enumerate(players)}
    counts = {}
    for seat, player in enumerate(players):
        leads = seat == landlord
        won = leads == landlord_won
        counts[player] = Tally(
            hands=1,
            landlord_hands=int(leads),
            landlord_wins=int(leads and won),
            farmer_hands=int(not leads),
            farmer_wins=int(not leads and won),
            greatest_multiplier=multiplier if won else 0,
        )
    return counts
