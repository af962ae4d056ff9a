"""The exact counts of RULES.md section 3: every column of every row, for whole decks and at most 20 cards."""

from __future__ import annotations

import pytest

from doudizhu.counts import count
from tests.rules.cases import Row, book_of, load, params

COMMON = {
    "single": 15,
    "pair": 13,
    "trio": 13,
    "bomb": 13,
    "rocket": 1,
    "trio_single": 182,
    "trio_pair": 156,
}


@pytest.mark.parametrize("row", params(load("counts"), "id"))
def test_exact_counts(row: Row) -> None:
    found = count(book_of(row))
    expected = {
        **COMMON,
        "straight": row["straight"],
        "pair_straight": row["pair_straight"],
        "trio_straight": row["trio_straight"],
        "airplane_singles": sum(row["airplane_singles"]),
        "airplane_pairs": sum(row["airplane_pairs"]),
        "four_two_singles": row["four_two_singles"],
        "four_two_pairs": row["four_two_pairs"],
        **row["other_fours"],
    }
    assert found.types == expected
    assert (found.readings, found.distinct) == (row["readings"], row["distinct"])


@pytest.mark.parametrize("row", params(load("counts"), "id"))
@pytest.mark.parametrize("type_id", ["airplane_singles", "airplane_pairs"])
def test_exact_counts_by_body(row: Row, type_id: str) -> None:
    bodies = {body: n for (of_type, body), n in count(book_of(row)).bodies.items() if of_type == type_id}
    assert bodies == dict(enumerate(row[type_id], start=2))
