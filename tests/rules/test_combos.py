"""Readings, what beats what, and the choice among readings: RULES.md section 3, D-01 and D-02."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doudizhu import BOOKS, CLASSIC, HAPPY, ROB, Ambiguous, Combo, Illegal, Malformed, Reason, RuleBook, override
from doudizhu.cards import RANKS, format_cards, format_ranks
from doudizhu.combo import TYPES, is_bomb, strength
from doudizhu.combos import all_readings, beats, choose_follow, choose_lead, readings
from doudizhu.packed import Packed, unpack
from doudizhu.table import table_of
from tests.rules import naive
from tests.rules.cases import Row, book_of, cards, combo, load, params

ALL_READINGS = [
    {"id": row["cards"], "book": book, "cards": row["cards"], "readings": row[book]}
    for row in load("readings")
    for book in BOOKS
    if row["cards"] != "444445"  # no deck has it, see test_cards_of_no_deck
]


def named(reading: Combo) -> list[object]:
    return [reading.type, RANKS[reading.rank], reading.body]


@pytest.mark.parametrize(
    "row", params(ALL_READINGS, "id", "book") + params(load("reports_readings"), "id", "cards", "book")
)
def test_readings(row: Row) -> None:
    found = readings(book_of(row), cards(row["cards"]))
    assert sorted(map(named, found)) == row["readings"]
    assert all(format_cards(reading.cards) == format_cards(cards(row["cards"])) for reading in found)


@pytest.mark.parametrize("row", params(load("reports_beats"), "id", "cards", "over", "book"))
def test_beats(row: Row) -> None:
    book = book_of(row)
    over = combo(book, row["over"])
    assert any(beats(book, reading, over) for reading in readings(book, cards(row["cards"]))) is row["beats"]


def test_br_023_the_order_of_cards_does_not_matter() -> None:
    assert combo(ROB, "Xx").type == combo(ROB, "xX").type == "rocket"


@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
def test_every_combo_of_a_book_is_one_by_the_second_way(book: RuleBook) -> None:
    """A random sample here; the counts test that there are neither more nor fewer."""
    table = all_readings(book)
    for packed in random.Random(3).sample(list(table), 400):
        found = {(reading.type, RANKS[reading.rank], reading.body) for reading in table[packed]}
        assert found == naive.readings(book, format_ranks(unpack(packed)))


@cache
def combos_by_type(book_id: str) -> dict[str, list[tuple[Packed, Combo]]]:
    found: dict[str, list[tuple[Packed, Combo]]] = {}
    for packed, several in all_readings(BOOKS[book_id]).items():
        for reading in several:
            found.setdefault(reading.type, []).append((packed, reading))
    return found


@settings(max_examples=300)
@given(st.data(), st.sampled_from(list(BOOKS)))
def test_beats_by_the_second_way(data: st.DataObject, book_id: str) -> None:
    book, combos = BOOKS[book_id], combos_by_type(book_id)
    type_id = st.sampled_from(list(combos))
    one_type = data.draw(type_id)
    other_type = data.draw(st.just(one_type) | type_id)
    one, other = data.draw(st.sampled_from(combos[one_type])), data.draw(st.sampled_from(combos[other_type]))
    texts = [format_ranks(unpack(packed)) for packed, _ in (one, other)]
    names = [(reading.type, RANKS[reading.rank], reading.body) for _, reading in (one, other)]
    assert beats(book, one[1], other[1]) is naive.beats(book, texts[0], names[0], texts[1], names[1])
    assert not (beats(book, one[1], other[1]) and beats(book, other[1], one[1]))
    assert not beats(book, one[1], one[1])


# ---- chains of classic: A(low) < 2 < 3 < … < K < A(high), no wrap ----------------------------------------------------


@pytest.mark.parametrize("text", ["QKA2", "JQKA2", "TJQKA2", "KKAA22", "QQKKAA22", "KKKAAA222"])
def test_chains_do_not_wrap(text: str) -> None:
    assert readings(CLASSIC, cards(text)) == ()


@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
@pytest.mark.parametrize("text", ["TJQKAx", "JQKAxX", "2xX", "22xX"])
def test_jokers_are_never_in_a_chain_nor_a_pair(text: str, book: RuleBook) -> None:
    assert not any(reading.type.endswith("straight") for reading in readings(book, cards(text)))


def test_a_low_chain_is_weak() -> None:
    low, three = combo(CLASSIC, "AAA222"), combo(CLASSIC, "333444")
    assert beats(CLASSIC, three, low)
    assert not beats(CLASSIC, low, three)
    assert beats(CLASSIC, combo(CLASSIC, "34567"), combo(CLASSIC, "A2345"))
    assert beats(CLASSIC, combo(CLASSIC, "44455566"), combo(CLASSIC, "AAA22234"))
    assert strength(low) < strength(combo(CLASSIC, "222333")) < strength(three)


def test_two_is_the_highest_where_it_is_no_chain() -> None:
    assert beats(CLASSIC, combo(CLASSIC, "222"), combo(CLASSIC, "AAA"))
    assert beats(CLASSIC, combo(CLASSIC, "2223"), combo(CLASSIC, "AAA3"))
    assert beats(CLASSIC, combo(CLASSIC, "222234"), combo(CLASSIC, "333345"))


# ---- D-02: several readings -----------------------------------------------------------------------------------------


def test_unnamed_lead_is_the_type_first_in_the_table() -> None:
    assert named(combo(ROB, "333444555666")) == ["trio_straight", "6", 4]


def test_unnamed_lead_is_the_highest_rank_within_a_type() -> None:
    assert named(combo(ROB, "3334445556667778")) == ["airplane_singles", "7", 4]
    assert named(combo(CLASSIC, "A23456789TJQK")) == ["straight", "A", 13]


def test_a_lead_may_name_its_reading() -> None:
    assert named(combo(ROB, "333444555666", "airplane_singles")) == ["airplane_singles", "6", 3]
    assert named(combo(ROB, "333444555666", "airplane_singles", "5")) == ["airplane_singles", "5", 3]
    assert named(combo(ROB, "333444555666", None, "5")) == ["airplane_singles", "5", 3]
    assert named(combo(CLASSIC, "A23456789TJQK", "straight", "K")) == ["straight", "K", 13]


@pytest.mark.parametrize(("type_id", "rank"), [("trio_straight", "5"), ("bomb", None), (None, "3")])
def test_a_reading_that_does_not_exist_is_ambiguous(type_id: str | None, rank: str | None) -> None:
    with pytest.raises(Ambiguous) as refused:
        combo(ROB, "333444555666", type_id, rank)
    assert refused.value.reason is Reason.AMBIGUOUS_COMBO
    assert "airplane_singles 5" in refused.value.message


def test_no_combo_is_illegal_whatever_it_is_named() -> None:
    for text, type_id in (("34", None), ("34", "pair"), ("", None)):
        with pytest.raises(Illegal) as refused:
            combo(ROB, text, type_id)
        assert refused.value.reason is Reason.ILLEGAL_COMBO


def test_a_follow_takes_the_highest_reading_that_beats() -> None:
    over = combo(ROB, "333444555789")
    assert named(choose_follow(ROB, cards("444555666777"), over)) == ["airplane_singles", "7", 3]
    as_trios = combo(ROB, "333444555666")
    assert named(choose_follow(ROB, cards("444555666777"), as_trios)) == ["trio_straight", "7", 4]
    with pytest.raises(Illegal) as refused:
        choose_follow(ROB, cards("333444555789"), over)
    assert refused.value.reason is Reason.DOES_NOT_BEAT
    with pytest.raises(Illegal) as refused:
        choose_follow(ROB, cards("34"), over)
    assert refused.value.reason is Reason.ILLEGAL_COMBO


@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
def test_default_reading_comes_first(book: RuleBook) -> None:
    for several in all_readings(book).values():
        order = [(TYPES.index(reading.type), -reading.body, -strength(reading)) for reading in several]
        assert order == sorted(set(order))


# ---- a set of cards -------------------------------------------------------------------------------------------------


def test_br_126_a_card_may_come_once_only() -> None:
    with pytest.raises(Illegal) as refused:
        choose_lead(ROB, (0, 0, 0, 0))
    assert refused.value.reason is Reason.DUPLICATE_CARD


@pytest.mark.parametrize("card", [-1, 54, 2**31])
def test_br_128_what_is_no_card_is_malformed(card: int) -> None:
    with pytest.raises(Malformed) as refused:
        choose_lead(ROB, (0, card))
    assert refused.value.reason is Reason.MALFORMED


def test_a_four_with_kickers_is_never_a_bomb() -> None:
    for book, text in ((HAPPY, "33334"), (ROB, "333345"), (ROB, "33334455"), (CLASSIC, "3333455")):
        assert not is_bomb(combo(book, text))
    assert is_bomb(combo(ROB, "3333"))
    assert is_bomb(combo(ROB, "xX"))


def test_an_empty_set_is_not_a_combo() -> None:
    assert readings(ROB, ()) == ()


def test_books_that_differ_elsewhere_share_their_combos() -> None:
    assert table_of(override(ROB, {"id": "mine", "rob_factor": 3})) is table_of(ROB)
    assert table_of(override(ROB, {"wings_repeat": False})) is not table_of(ROB)


def test_many_books_do_not_pile_up() -> None:
    """An operator's books come and go; a table that was forgotten is made again."""
    for factor in range(1, 101):
        assert named(combo(override(ROB, {"rob_factor": factor}), "33344456")) == ["airplane_singles", "4", 2]
    assert len(table_of(ROB).books) <= 100
