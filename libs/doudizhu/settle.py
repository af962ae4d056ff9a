"""Settlement (RULES.md section 10): who pays whom, in integers that sum to 0 with the system account.

Everything is computed by seat. A loser never pays more than he has; what is rounded off stays with the payer.
"""

from __future__ import annotations

from dataclasses import dataclass

from doudizhu.hand import Side
from doudizhu.rulebook import RuleBook

Three = tuple[int, int, int]


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
    balances: Three
    carried: Three
    ratings: Three | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """Changes by seat. chips[i] == won[i] - rake[i]; sum(chips) + system == 0."""

    chips: Three
    rake: Three
    system: int  # rake and early-flee money together
    rating: Three | None


def settle(book: RuleBook, outcome: Outcome, stakes: Stakes) -> Settlement:
    """The settlement of one hand that was won or fled; a void hand has none.

    No balance goes below 0, nor a rating. `rating` is None in books without one and when no ratings are given.
    """
    assert (outcome.winner is None) == (outcome.fled is not None), "a hand is either won or fled"
    assert min(*stakes.balances, *stakes.carried) >= 0, "a balance is never below 0"
    won = _fled(book, outcome, stakes) if outcome.fled is not None else _normal(book, outcome, stakes)
    rake = _rake(book, stakes, won)
    chips = (won[0] - rake[0], won[1] - rake[1], won[2] - rake[2])
    rating = _rating(outcome, stakes.ratings) if book.rated and stakes.ratings is not None else None
    return Settlement(chips, rake, -sum(chips), rating)


def _normal(book: RuleBook, outcome: Outcome, stakes: Stakes) -> Three:
    """Landlord +-2u, each farmer -+u, within what the losers have and the winners may win."""
    landlord = outcome.landlord
    assert landlord is not None, "a hand that was won had a landlord"
    unit = stakes.base * outcome.level * outcome.multiplier
    farmers = [seat for seat in range(3) if seat != landlord]
    won = [0, 0, 0]
    if outcome.winner is Side.LANDLORD:
        owed = [min(unit, stakes.balances[seat]) for seat in farmers]
        pot = min(sum(owed), _may_win(book, stakes, landlord, 2 * unit))
        for seat, part in zip(farmers, _divide(pot, owed), strict=True):
            won[seat] = -part
    else:
        owed = [_may_win(book, stakes, seat, unit) for seat in farmers]
        pot = min(2 * unit, stakes.balances[landlord], sum(owed))
        for seat, part in zip(farmers, _divide(pot, owed), strict=True):
            won[seat] = part
    won[landlord] = -sum(won)
    return (won[0], won[1], won[2])


def _may_win(book: RuleBook, stakes: Stakes, seat: int, chips: int) -> int:
    """At most what the winner carried into the hand, in books that bound it (D-10)."""
    return min(chips, stakes.carried[seat]) if book.winner_bounded else chips


def _divide(pot: int, weights: list[int]) -> list[int]:
    """The pot in proportion to the weights, each share rounded down; nothing for weights that are all 0."""
    total = sum(weights)
    return [pot * weight // total for weight in weights] if total else [0] * len(weights)


def _fled(book: RuleBook, outcome: Outcome, stakes: Stakes) -> Three:
    """What the seat that fled pays: u' times the weights of the others, or to the system when it was early."""
    fled = outcome.fled
    assert fled is not None
    others = [seat for seat in range(3) if seat != fled]
    weights = [2 if seat == outcome.landlord else 1 for seat in others]
    unit = stakes.base * max(outcome.level, 1) * outcome.flee_multiplier
    balance = stakes.balances[fled]
    won = [0, 0, 0]
    if outcome.elapsed_s < book.early_flee_s:
        won[fled] = -min(unit * sum(weights), balance)
        return (won[0], won[1], won[2])
    if book.shortage == "equal":
        part = min(unit, balance // sum(weights))
        parts = [weight * part for weight in weights]
    else:
        parts = _divide(min(unit * sum(weights), balance), weights)
    for seat, part in zip(others, parts, strict=True):
        won[seat] = part
    won[fled] = -sum(parts)
    return (won[0], won[1], won[2])


def _rake(book: RuleBook, stakes: Stakes, won: Three) -> Three:
    """Each of the three pays the rake, or what he has left."""
    if not book.rake:
        return (0, 0, 0)
    one, two, three = (min(stakes.rake, balance + won[seat]) for seat, balance in enumerate(stakes.balances))
    return (one, two, three)


def _rating(outcome: Outcome, ratings: Three) -> Three:
    """Winner + multiplier, loser - multiplier; who fled pays 2m' and the others share it (D-12)."""
    if outcome.fled is not None:
        share = min(2 * outcome.flee_multiplier, ratings[outcome.fled]) // 2
        one, two, three = (-2 * share if seat == outcome.fled else share for seat in range(3))
        return (one, two, three)
    landlord_won = outcome.winner is Side.LANDLORD
    one, two, three = (
        outcome.multiplier if (seat == outcome.landlord) == landlord_won else -min(outcome.multiplier, ratings[seat])
        for seat in range(3)
    )
    return (one, two, three)
