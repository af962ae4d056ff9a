"""Legal moves: the cases, a second enumeration of every hand, and whole games played elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doudizhu import BOOKS, ROB, RuleBook, override
from doudizhu.cards import DECK, RANKS, format_cards, format_ranks
from doudizhu.combos import Combo, choose_follow, choose_lead
from doudizhu.moves import cards_of, moves
from doudizhu.packed import pack_cards, unpack
from tests.rules import naive
from tests.rules.cases import Row, book_of, cards, combo, load, params

FLAGS = (
    "ace_low_chains",
    "wing_from_body",
    "wings_repeat",
    "rocket_as_wings",
    "quad_as_two_pairs",
    "fours_compare_across",
)
FIELDS = {
    **dict.fromkeys(FLAGS, st.booleans()),
    "four_kickers": st.lists(st.sampled_from(["single", "two_singles", "two_pairs", "single_pair"]), unique=True),
}
# Hands in which one field of the book makes the difference.
CORNERS = (
    ("333355554", "quad_as_two_pairs"),
    ("33334444555", "quad_as_two_pairs"),
    ("33334444555", "wing_from_body"),
    ("3334445556677", "wings_repeat"),
    ("333355566xX", "rocket_as_wings"),
    ("333444555xX6", "rocket_as_wings"),
    ("AAA222333xX", "ace_low_chains"),
    ("A23456789TJQKAA", "ace_low_chains"),
)


def books() -> st.SearchStrategy[RuleBook]:
    """The three books, and any others that differ in combos."""
    made: st.SearchStrategy[RuleBook] = st.builds(
        override, st.sampled_from(list(BOOKS.values())), st.fixed_dictionaries({}, optional=FIELDS)
    )
    return st.sampled_from(list(BOOKS.values())) | made


@st.composite
def hands(draw: st.DrawFn, most: int) -> tuple[int, ...]:
    """Cards of one deck, at most so many; neighbouring ranks, so that chains and airplanes come up."""
    first, width = draw(st.integers(0, 12)), draw(st.integers(3, 14))
    near = [card for card in DECK if (card // 4 - first) % 14 < width]
    size = min(len(near), draw(st.integers(1, most)))
    return tuple(sorted(draw(st.sets(st.sampled_from(near), min_size=size, max_size=size))))


def texts(book: RuleBook, hand: tuple[int, ...], over: Combo | None = None) -> list[str]:
    """The moves as sorted rank strings; a move that comes twice is there twice."""
    return sorted(format_ranks(unpack(move)) for move in moves(book, pack_cards(hand), over))


@pytest.mark.parametrize("row", params(load("moves"), "book", "hand", "over"))
def test_moves(row: Row) -> None:
    book = book_of(row)
    over = combo(book, row["over"], row["over_type"], row["over_rank"]) if row["over"] else None
    assert texts(book, cards(row["hand"]), over) == row["moves"]


def test_br_025_nothing_beats_the_rocket() -> None:
    for book in BOOKS.values():
        assert texts(book, cards("TTTT"), combo(book, "xX")) == []


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
@pytest.mark.parametrize(("hand", "flag"), CORNERS)
def test_corners_by_a_second_enumeration(hand: str, flag: str, book: RuleBook, value: bool) -> None:
    changed = override(book, {flag: value})
    assert texts(changed, cards(hand)) == naive.moves(changed, "".join(sorted(hand, key=RANKS.index)))


@settings(max_examples=80, deadline=None)
@given(books(), hands(most=13))
def test_leads_by_a_second_enumeration(book: RuleBook, hand: tuple[int, ...]) -> None:
    assert texts(book, hand) == naive.moves(book, format_cards(hand))


@settings(max_examples=80, deadline=None)
@given(books(), hands(most=12), hands(most=10), st.data())
def test_follows_by_a_second_enumeration(
    book: RuleBook, hand: tuple[int, ...], other: tuple[int, ...], data: st.DataObject
) -> None:
    over_text = data.draw(st.sampled_from(naive.moves(book, format_cards(other))))
    reading = data.draw(st.sampled_from(sorted(naive.readings(book, over_text))))
    over = combo(book, over_text, reading[0], reading[1])
    assert texts(book, hand, over) == naive.moves(book, format_cards(hand), over_text, reading)


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(list(BOOKS.values())), st.permutations(DECK))
def test_whole_hands_by_a_second_enumeration(book: RuleBook, deck: list[int]) -> None:
    hand = tuple(deck[:17])
    assert texts(book, hand) == naive.moves(book, format_cards(hand))


@settings(max_examples=60, deadline=None)
@given(books(), hands(most=20), hands(most=8))
def test_every_move_is_accepted_with_cards_of_the_hand(
    book: RuleBook, hand: tuple[int, ...], other: tuple[int, ...]
) -> None:
    leads = moves(book, pack_cards(other))
    over = choose_lead(book, cards_of(leads[-1], other))
    for move in moves(book, pack_cards(hand)):
        assert choose_lead(book, cards_of(move, hand)).cards == cards_of(move, hand)
    for move in moves(book, pack_cards(hand), over):
        taken = cards_of(move, hand)
        assert choose_follow(book, taken, over).cards == taken
        assert set(taken) <= set(hand)
        assert pack_cards(taken) == move


@pytest.mark.parametrize("game", params(load("games"), "id"))
def test_games_played_elsewhere(game: dict[str, Any]) -> None:
    """Every combo of them is legal under `rob`, as is every one of them among the legal moves of its hand."""
    hands = [list(cards(text)) for text in game["hands"]]
    on_table: tuple[int, Combo] | None = None
    for seat, text in game["moves"]:
        if on_table is not None and on_table[0] == seat:
            on_table = None
        if not text:
            assert on_table is not None, "a lead may not be passed"
            continue
        put_down = cards_of(pack_cards(cards(text)), hands[seat])
        over = on_table[1] if on_table else None
        legal = [format_ranks(unpack(move)) for move in moves(ROB, pack_cards(hands[seat]), over)]
        assert format_cards(put_down) in legal
        on_table = seat, choose_follow(ROB, put_down, over) if over else choose_lead(ROB, put_down)
        hands[seat] = [card for card in hands[seat] if card not in put_down]
    assert [seat for seat, left in enumerate(hands) if not left] == [game["winner_seat"]]
