"""Settlement: every worked example of RULES.md section 11, reported faults, and what always holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu import BOOKS, CLASSIC, HAPPY, ROB, Outcome, Settlement, Side, Stakes, settle
from tests.rules.strategies import books

CASES = json.loads((Path(__file__).parent / "data" / "settlements.json").read_text(encoding="utf-8"))


def settlement_of(case: dict[str, Any]) -> Settlement:
    one, two, three = case["balances"]
    outcome = Outcome(
        winner=Side(case["winner"]) if "winner" in case else None,
        landlord=case.get("landlord"),
        level=case.get("level", 1),
        multiplier=case["multiplier"],
        fled=case.get("fled"),
        flee_multiplier=case.get("flee_multiplier", 0),
        elapsed_s=case.get("elapsed_s", 300),
    )
    ratings = tuple(case["ratings"]) if "ratings" in case else None
    stakes = Stakes(case["base"], case.get("rake", 0), (one, two, three), (one, two, three), ratings)
    return settle(BOOKS[case["book"]], outcome, stakes)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_example(case: dict[str, Any]) -> None:
    result = settlement_of(case)
    assert list(result.chips) == case["chips"]
    assert result.system == case["system"]
    assert (None if result.rating is None else list(result.rating)) == case.get("rating")


def test_a_winner_is_bounded_by_what_he_carried_not_by_what_he_has() -> None:
    outcome = Outcome(Side.LANDLORD, landlord=0, level=1, multiplier=12)
    stakes = Stakes(base=10, rake=0, balances=(900, 500, 300), carried=(100, 500, 300))
    assert settle(ROB, outcome, stakes).chips == (100, -50, -50)


def test_a_loser_without_a_chip_pays_nothing() -> None:
    outcome = Outcome(Side.LANDLORD, landlord=0, level=1, multiplier=4)
    stakes = Stakes(base=10, rake=5, balances=(100, 0, 0), carried=(100, 0, 0))
    assert settle(ROB, outcome, stakes).chips == (-5, 0, 0)


def test_br_049_both_farmers_win() -> None:
    outcome = Outcome(Side.FARMERS, landlord=1, level=1, multiplier=3)
    stakes = Stakes(base=1, rake=0, balances=(10, 10, 10), carried=(10, 10, 10), ratings=(9, 9, 9))
    result = settle(ROB, outcome, stakes)
    assert result.chips == (3, -6, 3)
    assert result.rating == (3, -3, 3)


def test_br_058_three_bases_are_the_least_to_sit_in_classic() -> None:
    assert [balance >= CLASSIC.minimum_bases * 10 for balance in (29, 30)] == [False, True]


def test_an_early_flee_before_a_landlord_pays_the_system_too() -> None:
    outcome = Outcome(None, landlord=None, level=0, multiplier=1, fled=2, flee_multiplier=1, elapsed_s=10)
    stakes = Stakes(base=5, rake=0, balances=(100, 100, 100), carried=(100, 100, 100))
    assert settle(HAPPY, outcome, stakes) == Settlement((0, 0, -10), (0, 0, 0), 10, None)


def test_an_outcome_is_either_won_or_fled() -> None:
    stakes = Stakes(base=5, rake=0, balances=(1, 1, 1), carried=(1, 1, 1))
    with pytest.raises(AssertionError):
        settle(HAPPY, Outcome(None, 0, 1, 1), stakes)


chips = st.integers(0, 10**6) | st.integers(0, 50)
threes = st.tuples(chips, chips, chips)


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    multiplier = draw(st.integers(1, 5000))
    fled = draw(st.none() | st.integers(0, 2))
    landlord = draw(st.integers(0, 2)) if fled is None else draw(st.none() | st.integers(0, 2))
    return Outcome(
        winner=draw(st.sampled_from(Side)) if fled is None else None,
        landlord=landlord,
        level=draw(st.integers(1 if landlord is not None else 0, 3)),
        multiplier=multiplier,
        fled=fled,
        flee_multiplier=0 if fled is None else draw(st.integers(1, 5000)),
        elapsed_s=draw(st.integers(0, 120)),
    )


@given(books(), outcomes(), st.integers(1, 1000), st.integers(0, 50), threes, threes, threes)
def test_nothing_is_made_or_lost_and_nobody_goes_below_zero(
    book: Any, outcome: Outcome, base: int, rake: int, balances: Any, carried: Any, ratings: Any
) -> None:
    stakes = Stakes(base, rake, balances, carried, ratings)
    result = settle(book, outcome, stakes)
    assert sum(result.chips) + result.system == 0
    assert result.system >= 0
    won = [chips + paid for chips, paid in zip(result.chips, result.rake, strict=True)]
    assert all(balance + chips >= 0 for balance, chips in zip(balances, result.chips, strict=True))
    assert all(0 <= paid <= (rake if book.rake else 0) for paid in result.rake)
    if result.rating is not None:
        assert all(rating + change >= 0 for rating, change in zip(ratings, result.rating, strict=True))
    payers = {outcome.fled} if outcome.fled is not None else _losers(outcome)
    assert all((amount <= 0) if seat in payers else (amount >= 0) for seat, amount in enumerate(won))
    if book.winner_bounded and outcome.fled is None:
        assert all(amount <= carried[seat] for seat, amount in enumerate(won) if seat not in payers)
    unit = base * max(outcome.level, 1) * (outcome.multiplier if outcome.fled is None else outcome.flee_multiplier)
    assert all(abs(amount) <= 3 * unit for amount in won)


def _losers(outcome: Outcome) -> set[int | None]:
    lost_by_landlord = outcome.winner is Side.FARMERS
    return {seat for seat in range(3) if (seat == outcome.landlord) == lost_by_landlord}


@given(books(), outcomes(), st.integers(1, 100))
def test_who_can_pay_pays_in_full(book: Any, outcome: Outcome, base: int) -> None:
    plenty = (10**9, 10**9, 10**9)
    result = settle(book, outcome, Stakes(base, 0, plenty, plenty))
    unit = base * max(outcome.level, 1) * (outcome.multiplier if outcome.fled is None else outcome.flee_multiplier)
    if outcome.fled is None:
        sign = 1 if outcome.winner is Side.LANDLORD else -1
        assert list(result.chips) == [
            2 * sign * unit if seat == outcome.landlord else -sign * unit for seat in range(3)
        ]
    else:
        farmer = outcome.landlord not in (None, outcome.fled)
        assert result.chips[outcome.fled] == -(3 if farmer else 2) * unit
