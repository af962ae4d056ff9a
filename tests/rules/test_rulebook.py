"""Books as data: RULES.md's values, books from a file, and the bound on the multiplier."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu import BOOKS, CLASSIC, HAPPY, ROB, Malformed, Reason, RuleBook, dump, load, override
from doudizhu.rulebook import fits_int64, greatest_multiplier
from tests.rules.strategies import books


@given(books())
def test_a_dumped_book_loads_as_itself(book: RuleBook) -> None:
    assert load(dump(book)) == book
    assert load(json.dumps(dump(book))) == book
    assert load(json.dumps(dump(book)).encode()) == book


def test_a_book_has_all_of_its_fields_or_none() -> None:
    for field in fields(RuleBook):
        some = dump(ROB)
        del some[field.name]
        with pytest.raises(Malformed) as refused:
            load(some)
        assert (refused.value.field, refused.value.reason) == (field.name, Reason.INVALID)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "Rob"),
        ("id", ""),
        ("id", 5),
        ("id", "a" * 33),
        ("id", "rob\n"),
        ("wings_repeat", 1),
        ("wings_repeat", None),
        ("rob_factor", 0),
        ("rob_factor", 101),
        ("rob_factor", 2.0),
        ("rob_factor", True),
        ("rob_factor", "2"),
        ("max_redeals", -1),
        ("early_flee_s", 86_401),
        ("auction", "auction"),
        ("auction", None),
        ("auction", []),
        ("all_pass", "again"),
        ("shortage", 3),
        ("four_kickers", "two_pairs"),
        ("four_kickers", ["three_pairs"]),
        ("four_kickers", [["single"]]),
        ("bomb_allowance", [1, 2, 3]),
        ("bomb_allowance", [1, 2, 3, 15]),
        ("bomb_allowance", [1, 2, 3, False]),
        ("bomb_allowance", None),
        ("wild_cards", True),
    ],
)
def test_an_error_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(Malformed) as refused:
        override(ROB, {field: value})
    assert refused.value.field == field
    assert field in refused.value.message


@pytest.mark.parametrize("text", ["", "[]", "null", "5", "{", b"\xff", '{"id": }'])
def test_what_is_no_json_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(Malformed) as refused:
        load(text)
    assert refused.value.field == "book"


def test_overrides_change_their_fields_only() -> None:
    assert override(ROB, {"rocket_as_wings": False}) == replace(ROB, rocket_as_wings=False)
    assert override(HAPPY, {"four_kickers": ["two_pairs", "single"]}).four_kickers == ("single", "two_pairs")
    assert override(CLASSIC, {}) == CLASSIC


def test_section_3_fields() -> None:
    assert [book.wing_from_body for book in (CLASSIC, HAPPY, ROB)] == [False, True, False]
    assert all(book.wings_repeat and book.rocket_as_wings and not book.quad_as_two_pairs for book in BOOKS.values())
    assert CLASSIC.four_kickers == ("two_singles", "two_pairs", "single_pair")
    assert HAPPY.four_kickers == ("single", "two_singles", "two_pairs")
    assert ROB.four_kickers == ("two_singles", "two_pairs")
    assert [book.fours_compare_across for book in (CLASSIC, HAPPY, ROB)] == [True, False, False]
    assert [book.ace_low_chains for book in (CLASSIC, HAPPY, ROB)] == [True, False, False]


def test_section_9_factors() -> None:
    names = ("redeal", "marked_joker", "rob", "show", "bomb", "rocket", "spring", "anti_spring")
    values = {book.id: [getattr(book, f"{name}_factor") for name in names] for book in BOOKS.values()}
    assert values == {
        "classic": [2, 2, 2, 2, 1, 1, 1, 1],
        "happy": [1, 1, 1, 1, 2, 2, 2, 2],
        "rob": [1, 1, 2, 3, 2, 2, 2, 2],
    }


def test_section_9_the_greatest_multiplier() -> None:
    assert greatest_multiplier(CLASSIC) == 2**6 * 2 * 2**3 * 2
    assert greatest_multiplier(HAPPY) == 2**14 * 2
    assert greatest_multiplier(ROB, 15) == 15 * 2**3 * 3**3 * 2**14 * 2


@given(books(), st.integers(1, 2**50), st.integers(1, 10**6))
def test_section_9_what_fits_is_below_two_to_the_63(book: RuleBook, base_chips: int, initial: int) -> None:
    level = 1 if book.auction == "call_rob" else 3
    greatest = base_chips * level * greatest_multiplier(book, initial) * 3
    assert fits_int64(book, base_chips, initial) == (greatest < 2**63)
