"""Settlement (RULES.md section 10): who pays whom, in integers that sum to 0 with the system account."""

from __future__ import annotations

from dataclasses import dataclass

from doudizhu.hand import Side
from doudizhu.rulebook import RuleBook


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a hand ended. `winner` is None when `fled` is set; `landlord` is None when nobody was yet."""

    winner: Side | None
    landlord: int | None
    level: int  # level, or the highest bid so far
    multiplier: int
    fled: int | None = None
    flee_multiplier: int = 0
    elapsed_s: int = 0


@dataclass(frozen=True, slots=True)
class Stakes:
    """What the hand was played for, by seat. `carried`: balances when it opened; `ratings` only in rated books."""

    base: int
    rake: int
    balances: tuple[int, int, int]
    carried: tuple[int, int, int]
    ratings: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """Changes by seat. chips[i] == won[i] - rake[i]; sum(chips) + system == 0."""

    chips: tuple[int, int, int]
    rake: tuple[int, int, int]
    system: int  # rake and early-flee money together
    rating: tuple[int, int, int] | None


def settle(book: RuleBook, outcome: Outcome, stakes: Stakes) -> Settlement:
    """Computes the settlement of one hand."""
    raise NotImplementedError
