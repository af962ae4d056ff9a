"""Cases from outside the project, in data/: one JSON array a file, a row a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from doudizhu import BOOKS, Combo, RuleBook, override
from doudizhu.cards import DECK, RANKS, parse_ranks, rank_of
from doudizhu.combos import choose_lead

_DATA: Final = Path(__file__).parent / "data"

Row = dict[str, Any]


def load(name: str) -> list[Row]:
    """The rows of data/<name>.json."""
    rows: list[Row] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    return rows


def params(rows: list[Row], *names: str) -> list[Any]:
    """The rows as parameters of a test, each named after these fields of it."""
    return [pytest.param(row, id=" ".join(str(row[name]) for name in names)) for row in rows]


def book_of(row: Row) -> RuleBook:
    """The row's book with its fields put in."""
    book = BOOKS[row["book"]]
    return override(book, row["fields"]) if "fields" in row else book


def cards(text: str) -> tuple[int, ...]:
    """Cards of one deck for a rank string, the lowest of each rank, in the order of the string."""
    free = list(DECK)
    found = []
    for rank in parse_ranks(text):
        card = next(card for card in free if rank_of(card) == rank)
        free.remove(card)
        found.append(card)
    return tuple(found)


def combo(book: RuleBook, text: str, type_id: str | None = None, rank: str | None = None) -> Combo:
    """The combo of a rank string, read as it is named."""
    return choose_lead(book, cards(text), type_id, None if rank is None else RANKS.index(rank))
