"""Combos (一手牌): what a set of cards can be read as, and what beats what (RULES.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from doudizhu.cards import DECK, RANKS, format_cards
from doudizhu.combo import FOURS, TYPES, Combo, is_bomb, strength
from doudizhu.packed import pack_cards
from doudizhu.refusal import Ambiguous, Illegal, Malformed, Reason
from doudizhu.rulebook import RuleBook
from doudizhu.table import Readings, all_readings, classify

__all__ = [
    "FOURS",
    "TYPES",
    "Combo",
    "Readings",
    "all_readings",
    "beats",
    "choose_follow",
    "choose_lead",
    "classify",
    "highest_beating",
    "is_bomb",
    "readings",
    "strength",
]

_DECK: Final = frozenset(DECK)


def readings(book: RuleBook, cards: Iterable[int]) -> Readings:
    """Every reading of cards 0..53, in the default order of D-02; empty when they are no combo.

    Raises Malformed when something is no card, Illegal(DUPLICATE_CARD) when a card comes twice (section 3, Beats).
    """
    put_down = _checked(cards)
    found = classify(book, pack_cards(put_down))
    return tuple([Combo(reading.type, reading.rank, reading.body, put_down) for reading in found])


def beats(book: RuleBook, combo: Combo, over: Combo) -> bool:
    """Whether a combo may follow another (section 3, Beats)."""
    if combo.type == "rocket" or over.type == "rocket":
        return over.type != "rocket"
    if combo.type == "bomb" or over.type == "bomb":
        return combo.type == "bomb" and (over.type != "bomb" or combo.rank > over.rank)
    same_kind = combo.type == over.type and combo.body == over.body
    if not same_kind and not (book.fours_compare_across and combo.type in FOURS and over.type in FOURS):
        return False
    return strength(combo) > strength(over)


def choose_lead(book: RuleBook, cards: Iterable[int], type: str | None = None, rank: int | None = None) -> Combo:  # noqa: A002
    """The combo that a lead of these cards is (D-02): the reading named by type id, rank index or both, or the default.

    Raises Illegal(ILLEGAL_COMBO) when the cards are no combo, Ambiguous(AMBIGUOUS_COMBO) when they are, but not the
    one that was named; and what `readings` raises.
    """
    found = _readings_or_refuse(book, cards)
    for reading in found:
        if type in (None, reading.type) and rank in (None, reading.rank):
            return reading
    possible = ", ".join(f"{reading.type} {RANKS[reading.rank]}" for reading in found)
    raise Ambiguous(
        Reason.AMBIGUOUS_COMBO,
        f"{format_cards(found[0].cards)} has no reading as the combo that was named; it can be {possible}",
        field="type" if type is not None else "rank",
        readings=possible,
    )


def highest_beating(book: RuleBook, found: Readings, over: Combo) -> Combo | None:
    """Of the readings that beat a combo the highest (D-02); None when none does."""
    return max((reading for reading in found if beats(book, reading, over)), key=strength, default=None)


def choose_follow(book: RuleBook, cards: Iterable[int], over: Combo) -> Combo:
    """The combo that these cards are when they follow another: of the readings that beat it, the highest (D-02).

    Raises Illegal(ILLEGAL_COMBO) when the cards are no combo, Illegal(DOES_NOT_BEAT) when no reading beats; and what
    `readings` raises.
    """
    found = _readings_or_refuse(book, cards)
    beating = highest_beating(book, found, over)
    if beating is None:
        raise Illegal(
            Reason.DOES_NOT_BEAT,
            f"{format_cards(found[0].cards)} does not beat {over.type} {RANKS[over.rank]}",
            field="cards",
        )
    return beating


def _readings_or_refuse(book: RuleBook, cards: Iterable[int]) -> Readings:
    put_down = tuple(cards)
    found = readings(book, put_down)
    if not found:
        raise Illegal(Reason.ILLEGAL_COMBO, f"{format_cards(put_down) or 'nothing'} is no combo", field="cards")
    return found


def _checked(cards: Iterable[int]) -> tuple[int, ...]:
    put_down = tuple(cards)
    distinct = set(put_down)
    if not distinct <= _DECK:
        raise Malformed(Reason.MALFORMED, "a card is a number from 0 to 53", field="cards")
    if len(distinct) != len(put_down):
        raise Illegal(Reason.DUPLICATE_CARD, "a card may be put down once only", field="cards")
    return put_down
