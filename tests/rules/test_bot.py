"""The bot: always legal, always the same, sensible where it is easy to say what sense is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu import BOOKS, HAPPY, ROB, Hand, Phase, RuleBook, Side, bot, decide, evolve, legal_actions, start, view
from doudizhu.hand import CloseShowWindow, DealCards, Pass, Play
from doudizhu.packed import pack_cards
from doudizhu.plan import cost, plan
from doudizhu.table import table_of
from tests.bench.bench_bots import play
from tests.rules.build import cards, deal_for, play_of, playing, put_down, stacked_deal
from tests.rules.strategies import books


@given(books(), st.integers(0, 2**32), st.integers(0, 3), st.none() | st.integers(0, 30))
def test_bots_play_whole_hands_of_any_book_legally(book: RuleBook, number: int, seed: int, swaps: int | None) -> None:
    rng = random.Random(number)
    hand = start(book)
    while hand.phase is not Phase.OVER and hand.deals < 4:
        if hand.phase is Phase.AWAIT_DEAL:
            deal = deal_for(book, rng.randrange(10**9)) if swaps is None else stacked_deal(book, rng, swaps)
            events = decide(hand, DealCards(deal))
        elif hand.turn is None:
            events = decide(hand, bot.choose(view(hand, 0), 0, seed))
        else:
            seen = view(hand, hand.turn)
            action = bot.choose(seen, hand.turn, seed)
            assert action == bot.choose(seen, hand.turn, seed)
            events = decide(hand, action)
        for event in events:
            hand = evolve(hand, event)


@given(books(), st.integers(0, 2**32))
def test_bots_answer_any_reachable_moment(book: RuleBook, number: int) -> None:
    """Against random players a hand gets into places where bots alone never do."""
    rng = random.Random(number)
    hand = start(book)
    while hand.phase is not Phase.OVER and hand.deals < 4:
        if hand.phase is Phase.AWAIT_DEAL:
            events = decide(hand, DealCards(deal_for(book, rng.randrange(10**9))))
        elif hand.turn is None:
            events = decide(hand, CloseShowWindow())
        else:
            decide(hand, bot.choose(view(hand, hand.turn), hand.turn))
            events = decide(hand, rng.choice(legal_actions(hand, hand.turn)))
        for event in events:
            hand = evolve(hand, event)


@pytest.mark.parametrize("side", Side)
def test_the_bot_beats_random_play_by_far(side: Side) -> None:
    books_ = list(BOOKS.values())
    wins = sum(play(books_[number % 3], f"test.{number}", side, []) for number in range(30))
    assert wins >= 24


def choice(hand: Hand, seat: int) -> object:
    return bot.choose(view(hand, seat), seat)


@pytest.mark.parametrize("held", ["3", "44", "555", "34567", "334455", "3334", "333444", "xX", "9999", "333344"])
def test_a_hand_that_is_one_combo_goes_out(held: str) -> None:
    hand = playing(ROB, held, "TTTT2", "KKKK2")
    assert choice(hand, 0) == play_of(hand, 0, held)


def test_what_cannot_be_beaten_goes_first_when_one_combo_is_left_after_it() -> None:
    hand = playing(ROB, "3xX", "TTTT2", "KKKK2")
    assert choice(hand, 0) == play_of(hand, 0, "xX")


def test_a_farmer_lets_his_fellow_farmer_have_the_trick() -> None:
    hand = playing(HAPPY, "3456789", "KA", "2267", turn=1, combos_by_seat=(1, 0, 0))
    hand = put_down(hand, 1, "A")
    assert choice(hand, 2) == Pass(2)


def test_a_farmer_gives_his_fellow_farmer_the_last_card() -> None:
    hand = playing(HAPPY, "3456789", "5KKAA", "7", turn=1)
    assert choice(hand, 1) == play_of(hand, 1, "5")


def test_no_single_for_an_enemy_with_one_card() -> None:
    hand = playing(HAPPY, "355KK2", "7", "3456789")
    action = choice(hand, 0)
    assert isinstance(action, Play)
    assert len(action.cards) > 1


def test_a_bomb_is_kept_until_it_matters() -> None:
    early = put_down(playing(ROB, "KK345789TTQ4", "666678JQ9A3", "2222AAJJQQ"), 0, "KK")
    assert choice(early, 1) == Pass(1)
    late = put_down(playing(ROB, "KKQ", "666678JQ9A3", "2222AAJJQQ"), 0, "KK")
    assert choice(late, 1) == play_of(late, 1, "6666")


@given(st.lists(st.sampled_from(range(54)), min_size=1, max_size=20, unique=True))
def test_a_plan_is_a_partition_into_combos_of_every_book(some: list[int]) -> None:
    packed = pack_cards(some)
    planned = plan(packed)
    assert sum(planned.groups) == packed
    assert planned.cost == cost(packed)
    for book in BOOKS.values():
        assert all(group in table_of(book).readings for group in planned.groups)


def test_a_chain_costs_less_than_its_cards() -> None:
    straight, scattered = cards("34567", "389JK")
    assert cost(pack_cards(straight)) < cost(pack_cards(scattered))
