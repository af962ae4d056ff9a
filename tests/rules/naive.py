"""RULES.md section 3 once more, by another way: every subset of a hand is asked whether it is a combo.

Slow and plain, to hold against `doudizhu`. Nothing is shared with it but the cards and the fields of a book.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain, product

from doudizhu.cards import RANKS
from doudizhu.rulebook import RuleBook

Reading = tuple[str, str, int]  # type id, rank, body
Bag = Counter[str]  # of rank letters

_SUITED = RANKS[:13]
_FOURS = ("four_single", "four_two_singles", "four_two_pairs", "four_single_pair")


def readings(book: RuleBook, text: str) -> set[Reading]:
    """Every reading of a rank string."""
    bag = Counter(text)
    return {
        *_sets(bag),
        *_chains(book, "".join(sorted(text, key=RANKS.index))),
        *_airplanes(book, bag),
        *_fours(book, bag),
    }


def beats(book: RuleBook, cards: str, reading: Reading, over_cards: str, over: Reading) -> bool:
    """Whether one reading of some cards beats another."""
    if reading[0] == "rocket" or over[0] == "rocket":
        return over[0] != "rocket"
    if reading[0] == "bomb" and over[0] != "bomb":
        return True
    if book.fours_compare_across and reading[0] in _FOURS and over[0] in _FOURS:
        return RANKS.index(reading[1]) > RANKS.index(over[1])
    return reading[0] == over[0] and len(cards) == len(over_cards) and _order(reading) > _order(over)


def moves(book: RuleBook, hand: str, over_cards: str = "", over: Reading | None = None) -> list[str]:
    """Every legal combo of a hand as rank strings, pass left out, sorted."""
    found = []
    for text in _subsets(hand):
        several = readings(book, text)
        if over is None and several:
            found.append(text)
        if over is not None and any(beats(book, text, reading, over_cards, over) for reading in several):
            found.append(text)
    return sorted(found)


def _order(reading: Reading) -> int:
    """In chains the order is A 2 3 … K A, everywhere else 3 … K A 2 x X."""
    type_id, rank, _ = reading
    if "straight" in type_id or "airplane" in type_id:
        return "A23456789TJQKA".rindex(rank)
    return RANKS.index(rank)


def _subsets(hand: str) -> Iterator[str]:
    bag = Counter(hand)
    ranks = [rank for rank in RANKS if bag[rank]]
    for taken in product(*[range(bag[rank] + 1) for rank in ranks]):
        if text := "".join(rank * count for rank, count in zip(ranks, taken, strict=True)):
            yield text


def _sets(bag: Bag) -> Iterator[Reading]:
    shape = sorted(bag.values())
    top = max(bag, key=lambda rank: bag[rank]) if bag else ""
    if bag == Counter("xX"):
        yield "rocket", "X", 1
    for count, type_id in enumerate(("single", "pair", "trio", "bomb"), start=1):
        if shape == [count]:
            yield type_id, top, 1
    if shape == [1, 3]:
        yield "trio_single", top, 1
    if shape == [2, 3]:
        yield "trio_pair", top, 1


@cache
def _runs(ace_low: bool, width: int, least: int) -> dict[str, list[str]]:
    """Every run of a chain order by its cards as a rank string; A,2..K and 2..K,A are of the same cards."""
    order = "A23456789TJQKA" if ace_low else "3456789TJQKA"
    found: dict[str, list[str]] = {}
    for first in range(len(order)):
        for last in range(first + least, len(order) + 1):
            cards = "".join(sorted(order[first:last] * width, key=RANKS.index))
            found.setdefault(cards, []).append(order[first:last])
    return found


def _chains(book: RuleBook, text: str) -> Iterator[Reading]:
    for type_id, width, least in (("straight", 1, 5), ("pair_straight", 2, 3), ("trio_straight", 3, 2)):
        for run in _runs(book.ace_low_chains, width, least).get(text, ()):
            yield type_id, run[-1], len(run)


def _airplanes(book: RuleBook, bag: Bag) -> Iterator[Reading]:
    if sum(count >= 3 for count in bag.values()) < 2:
        return
    for run in chain.from_iterable(_runs(book.ace_low_chains, 3, 2).values()):
        body = Counter(run * 3)
        if not body <= bag:
            continue
        wings = bag - body
        if wings.total() == len(run) and _are_singles(book, wings, run, book.wing_from_body):
            yield "airplane_singles", run[-1], len(run)
        if wings.total() == 2 * len(run) and _are_pairs(book, wings, run):
            yield "airplane_pairs", run[-1], len(run)


def _fours(book: RuleBook, bag: Bag) -> Iterator[Reading]:
    for rank in _SUITED:
        if bag[rank] != 4:
            continue
        rest = bag - Counter(rank * 4)
        total = rest.total()
        kinds = {
            "single": total == 1,
            "two_singles": total == 2 and _are_singles(book, rest, rank, False),
            "two_pairs": total == 4 and _are_pairs(book, rest, rank),
            "single_pair": total == 3 and max(rest.values()) >= 2,
        }
        for kind, fits in kinds.items():
            if fits and kind in book.four_kickers:
                yield f"four_{kind}", rank, 1


def _are_singles(book: RuleBook, kickers: Bag, body: str, from_body: bool) -> bool:
    if not from_body and any(rank in body for rank in kickers):
        return False
    if not book.wings_repeat and max(kickers.values()) > 1:
        return False
    return book.rocket_as_wings or not (kickers["x"] and kickers["X"])


def _are_pairs(book: RuleBook, kickers: Bag, body: str) -> bool:
    allowed = (2, 4) if book.quad_as_two_pairs else (2,)
    return all(rank not in body and count in allowed for rank, count in kickers.items())
