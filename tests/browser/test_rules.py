"""The rules that the page knows, in the browser itself, against the same cases as the rules core."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doudizhu import commitment, deal_cards
from doudizhu.rulebook import BOOKS
from tests.browser.person import Crowd
from tests.rules import cases

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

_CARDS = """
  const { bookOf } = await import("/app/game/books.js");
  const { moves, readings } = await import("/app/game/combos.js");
  const { RANKS, counted, parsed, taken, written } = await import("/app/game/cards.js");
  const deck = [...Array(54).keys()];
  const cards = (text) => taken(deck, parsed(text));
  const over = (row, book) => (row.over ? readings(book, cards(row.over)) : []).find(
    (one) => one.type === row.over_type && RANKS[one.rank] === row.over_rank) ?? null;
"""
_MOVES = f"""async (rows) => {{ {_CARDS}
  return rows.map((row) => {{
    const book = bookOf({{ book: row.book }});
    return moves(book, cards(row.hand), over(row, book)).map((one) => written(one.counts)).sort();
  }});
}}"""
_READINGS = f"""async (rows) => {{ {_CARDS}
  return rows.map((row) => Object.fromEntries(["rob", "happy", "classic"].map((id) =>
    [id, readings(bookOf({{ book: id }}), cards(row.cards)).map((one) => [one.type, RANKS[one.rank], one.body])])));
}}"""
_HINTS = f"""async (rows) => {{ {_CARDS}
  const {{ hints }} = await import("/app/game/hint.js");
  return rows.map((row) => {{
    const book = bookOf({{ book: row.book }});
    return hints(book, cards(row.hand), over(row, book)).map((found) => written(counted(found)));
  }});
}}"""
_DEAL = """async ([id, seed, seeds, marked]) => {
  const { bytesOf, commitmentOf, dealOf, hexOf } = await import("/app/game/deal.js");
  const deal = await dealOf(id, bytesOf(seed), seeds.map(bytesOf), marked);
  return { ...deal, commitment: hexOf(await commitmentOf(bytesOf(seed))) };
}"""
_BOOKS = """async () => {
  const { bookOf } = await import("/app/game/books.js");
  return ["classic", "happy", "rob"].map((book) => [book, bookOf({ book })]);
}"""


def ordered(ranks: str) -> str:
    """A rank string with the weakest first."""
    return "".join(sorted(ranks, key="3456789TJQKA2xX".index))


def fits_one_deck(ranks: str) -> bool:
    return all(ranks.count(rank) <= (1 if rank in "xX" else 4) for rank in ranks)


async def test_moves_are_those_of_the_rules(crowd: Crowd) -> None:
    rows = cases.load("moves")
    person = await crowd.person()
    found = await person.page.evaluate(_MOVES, rows)
    for row, moves in zip(rows, found, strict=True):
        assert moves == sorted(ordered(move) for move in row["moves"]), json.dumps(row)[:200]


async def test_readings_are_those_of_the_rules(crowd: Crowd) -> None:
    rows = [row for row in cases.load("readings") if fits_one_deck(row["cards"])]
    person = await crowd.person()
    found = await person.page.evaluate(_READINGS, rows)
    for row, by_book in zip(rows, found, strict=True):
        for book, readings in by_book.items():
            assert sorted(readings) == sorted(row[book]), (row["cards"], book)


async def test_hints_are_legal_and_there_when_a_move_is(crowd: Crowd) -> None:
    rows = cases.load("moves")
    person = await crowd.person()
    for row, hints in zip(rows, await person.page.evaluate(_HINTS, rows), strict=True):
        assert set(hints) <= {ordered(move) for move in row["moves"]}
        assert bool(hints) == bool(row["moves"])


@pytest.mark.parametrize("book", ["classic", "happy", "rob"])
async def test_a_deal_is_computed_as_the_servers_do(crowd: Crowd, book: str) -> None:
    import base64

    person = await crowd.person()
    for number in range(5):
        seed = bytes([number]) * 32
        seeds = [b"", bytes([number, 1]), b"\xff" * 32]
        texts = [base64.b64encode(one).decode() for one in (seed, *seeds)]
        marked = BOOKS[book].marked_card
        mine: dict[str, Any] = await person.page.evaluate(_DEAL, [f"m1-{number}", texts[0], texts[1:], marked])
        deal = deal_cards(BOOKS[book], f"m1-{number}", seed, seeds)
        assert mine["hands"] == [list(hand) for hand in deal.hands]
        assert mine["bottom"] == list(deal.bottom)
        assert mine.get("marked") == deal.marked
        assert mine["first"] == deal.first_seat
        assert mine["commitment"] == commitment(seed).hex()


async def test_the_page_has_the_fields_of_the_rule_books(crowd: Crowd) -> None:
    person = await crowd.person()
    for book, fields in await person.page.evaluate(_BOOKS):
        for name, value in fields.items():
            expected = getattr(BOOKS[book], name)
            assert value == (list(expected) if isinstance(expected, tuple) else expected), (book, name)
