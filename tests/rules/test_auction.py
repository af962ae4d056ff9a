"""The auction and the show, as scripts: faults that were reported (BR-nnn) and paragraphs of RULES.md."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doudizhu import BOOKS, CLASSIC, HAPPY, ROB, Hand, Phase, Refusal, decide, evolve, override, start
from doudizhu.hand import (
    Bid,
    BidMade,
    Choice,
    CloseShowWindow,
    DealCards,
    Factor,
    LandlordSet,
    Redealing,
    Rob,
    RobMade,
    Show,
    Shown,
    ShowWindowClosed,
    Voided,
)
from tests.rules.build import apply, deal_for, dealt, step

CASES = json.loads((Path(__file__).parent / "data" / "auctions.json").read_text(encoding="utf-8"))


def run(hand: Hand, steps: list[str]) -> Hand:
    """Every step in turn; one that ends in a reason in capitals must be refused with it."""
    for text in steps:
        *_, last = text.split()
        if last.isupper():
            with pytest.raises(Refusal) as refused:
                decide(hand, step(hand, text.removesuffix(last).strip()))
            assert refused.value.reason == last, text
        else:
            hand = apply(hand, step(hand, text))
    return hand


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_script(case: dict[str, Any]) -> None:
    hand = run(dealt(BOOKS[case["book"]], first_seat=case.get("first", 0)), case["steps"])
    assert hand.landlord == case.get("landlord", hand.landlord)
    assert hand.phase == case.get("phase", hand.phase)
    assert hand.turn == case.get("turn", hand.turn)
    assert hand.level == case.get("level", hand.level)
    assert hand.multiplier == case.get("multiplier", hand.multiplier)
    if "voided" in case:
        assert hand.voided


def test_6_choices_are_recorded_for_all_to_see() -> None:
    hand = run(dealt(CLASSIC, first_seat=0), ["0 pass", "1 bid 3", "2 rob", "0 no_rob", "1 rob"])
    assert hand.choices == (Choice.PASS, Choice.THREE, None)
    assert hand.rob_choices == (Choice.NO_ROB, Choice.ROB, Choice.ROB)
    called = run(dealt(ROB, first_seat=0), ["close", "0 pass", "1 call", "2 no_rob"])
    assert called.choices == (Choice.PASS, Choice.CALL, None)
    assert called.rob_choices == (None, None, Choice.NO_ROB)


def test_6_three_ends_the_bidding_and_the_landlord_takes_the_bottom() -> None:
    hand = dealt(HAPPY, first_seat=2)
    assert hand.bottom is not None
    assert decide(hand, Bid(2, 3)) == (BidMade(2, 3), LandlordSet(2, 3, hand.bottom))
    after = apply(hand, Bid(2, 3))
    assert after.held(2) == tuple(sorted(hand.held(2) + hand.bottom))
    assert (after.turn, after.phase, after.counts) == (2, Phase.PLAY, (17, 17, 20))


def test_6_each_rob_says_by_what_it_multiplies() -> None:
    hand = run(dealt(CLASSIC, first_seat=0), ["0 bid 3", "1 rob"])
    assert decide(hand, Rob(2, True)) == (RobMade(2, True, factor=2, multiplier=4),)
    assert decide(hand, Rob(2, False)) == (RobMade(2, False, factor=1, multiplier=2),)


def test_5_all_three_shows_close_the_window() -> None:
    hand = run(dealt(ROB, first_seat=0), ["2 show", "1 show"])
    assert decide(hand, Show(0, True)) == (Shown(0, hand.held(0), 3, 27), ShowWindowClosed(2))


def test_5_without_a_show_the_drawn_seat_calls_first() -> None:
    assert decide(dealt(ROB, first_seat=1), CloseShowWindow()) == (ShowWindowClosed(1),)


@pytest.mark.parametrize(
    ("carried", "next_carried", "factor"), [(0, 1, 1), (1, 2, 2), (3, 4, 8), (6, 6, 64), (9, 6, 64)]
)
def test_6_d_08_redeals_multiply_up_to_the_cap(carried: int, next_carried: int, factor: int) -> None:
    # A seed whose marked card is no joker.
    number = next(n for n in range(100) if deal_for(CLASSIC, n).marked not in (52, 53))
    hand = apply(start(CLASSIC, redeals=carried), DealCards(deal_for(CLASSIC, number)))
    assert hand.multiplier == factor
    first = hand.first_seat
    hand = run(hand, [f"{first} pass", f"{(first + 1) % 3} pass"])
    assert decide(hand, Bid((first + 2) % 3, 0)) == (BidMade((first + 2) % 3, 0), Voided(next_carried))


def test_6_three_passes_in_happy_carry_nothing() -> None:
    hand = run(dealt(HAPPY, first_seat=0), ["0 pass", "1 pass"])
    assert decide(hand, Bid(2, 0)) == (BidMade(2, 0), Voided(0))


def test_6_rob_deals_again_with_the_initial_multiplier() -> None:
    hand = apply(start(ROB, initial_multiplier=15), DealCards(deal_for(ROB, first_seat=0)))
    hand = run(hand, ["close", "0 pass", "1 pass"])
    events = decide(hand, step(hand, "2 pass"))
    assert isinstance(events[-1], Redealing)
    for event in events:
        hand = evolve(hand, event)
    assert hand == replace(start(ROB, initial_multiplier=15), deals=1)
    again = apply(hand, DealCards(deal_for(ROB, 1)))
    assert (again.multiplier, again.deals, again.choices) == (15, 2, (None, None, None))


def test_5_a_marked_joker_doubles() -> None:
    number = next(n for n in range(100) if deal_for(CLASSIC, n).marked in (52, 53))
    hand = apply(start(CLASSIC, redeals=1), DealCards(deal_for(CLASSIC, number)))
    assert hand.factors == ((Factor.REDEAL, 2), (Factor.MARKED_JOKER, 2))
    assert hand.marked in hand.held(hand.first_seat)


def test_a_fourth_book_may_call_without_robbing_factor_or_void() -> None:
    book = override(ROB, {"id": "quiet", "show_window": False, "rob_factor": 1, "all_pass": "void"})
    hand = run(dealt(book, first_seat=0), ["0 call", "1 rob", "2 no_rob", "0 no_rob"])
    assert (hand.landlord, hand.multiplier) == (1, 1)
    assert run(dealt(book, first_seat=0), ["0 pass", "1 pass", "2 pass"]).voided
