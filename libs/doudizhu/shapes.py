"""The parts combos are made of: chains, and the kickers that may go with a body (RULES.md section 3, D-01)."""

from __future__ import annotations

from typing import Final, NamedTuple

from doudizhu.cards import ACE, TWO
from doudizhu.combo import chain_strength
from doudizhu.packed import (
    RANK_BITS,
    ROCKET,
    Packed,
    all_four,
    at_least_one,
    at_least_three,
    at_least_two,
    bits,
    fits,
)
from doudizhu.rulebook import RuleBook

MAX_CARDS: Final = 20  # a landlord's hand: no combo is longer
CHAIN_MINIMUM: Final = {1: 5, 2: 3, 3: 2}  # cards a rank -> ranks at least


class ComboRules(NamedTuple):
    """The fields of a rule book that say what a combo is and what beats what."""

    ace_low_chains: bool
    wing_from_body: bool
    wings_repeat: bool
    rocket_as_wings: bool
    quad_as_two_pairs: bool
    four_kickers: frozenset[str]
    fours_compare_across: bool


def combo_rules(book: RuleBook) -> ComboRules:
    """The combo rules of a book; books that differ elsewhere only share them."""
    return ComboRules(
        book.ace_low_chains,
        book.wing_from_body,
        book.wings_repeat,
        book.rocket_as_wings,
        book.quad_as_two_pairs,
        frozenset(book.four_kickers),
        book.fours_compare_across,
    )


class Chain(NamedTuple):
    """Consecutive ranks with `width` cards each."""

    packed: Packed
    ranks: Packed  # the mask of its ranks
    body: int  # how many ranks
    rank: int  # index of the highest
    strength: int  # what it compares by (combo.chain_strength)


def chains(ace_low: bool, width: int) -> tuple[Chain, ...]:
    """Every chain of 1, 2 or 3 cards a rank that 54 cards allow, at most 20 cards long."""
    order = (ACE, TWO, *range(ACE + 1)) if ace_low else tuple(range(ACE + 1))
    found = []
    for first in range(len(order)):
        for body in range(CHAIN_MINIMUM[width], len(order) - first + 1):
            ranks = order[first : first + body]
            if body * width <= MAX_CARDS and ranks.count(ACE) * width <= 4:
                packed = sum(width * RANK_BITS[rank] for rank in ranks)
                found.append(Chain(packed, at_least_one(packed), body, ranks[-1], chain_strength(ranks[-1])))
    return tuple(found)


def choose(available: Packed, count: int) -> list[Packed]:
    """Every multiset of `count` cards of those available, each once."""
    by_size: list[list[Packed]] = [[0], *([] for _ in range(count))]
    for bit in bits(at_least_one(available)):
        most = available // bit & 7
        for size in range(count, 0, -1):
            for taken in range(1, min(most, size) + 1):
                added = taken * bit
                by_size[size] += [smaller + added for smaller in by_size[size - taken]]
    return by_size[count]


def single_kickers(rules: ComboRules, available: Packed, count: int) -> list[Packed]:
    """Every choice of `count` single wings or kickers of the available cards (wings_repeat, rocket_as_wings)."""
    found = choose(available if rules.wings_repeat else at_least_one(available), count)
    if not rules.rocket_as_wings and fits(ROCKET, available):
        return [kickers for kickers in found if kickers & ROCKET != ROCKET]
    return found


def pair_kickers(rules: ComboRules, available: Packed, count: int) -> list[Packed]:
    """Every choice of `count` pair wings or kickers of the available cards (quad_as_two_pairs)."""
    pairs = at_least_two(available)
    if rules.quad_as_two_pairs:
        pairs += all_four(available)
    return [2 * kickers for kickers in choose(pairs, count)]


def single_and_pair(available: Packed) -> list[Packed]:
    """Every choice of a single and a pair, which may be of one rank."""
    singles = bits(at_least_one(available))
    different = [2 * pair + single for pair in bits(at_least_two(available)) for single in singles if single != pair]
    return different + [3 * trio for trio in bits(at_least_three(available))]


def wings(rules: ComboRules, hand: Packed, body: Chain) -> list[Packed]:
    """Every choice of single wings for a trio straight out of a hand that holds it (wing_from_body)."""
    available = hand - body.packed if rules.wing_from_body else hand & ~(15 * body.ranks)
    return single_kickers(rules, available, body.body)


def pair_wings(rules: ComboRules, hand: Packed, body: Chain) -> list[Packed]:
    """Every choice of pair wings for a trio straight out of a hand that holds it."""
    return pair_kickers(rules, hand & ~(15 * body.ranks), body.body)


def four_kickers(rules: ComboRules, type_id: str, hand: Packed, four: Packed) -> list[Packed]:
    """Every choice of kickers for one of the four-with-kickers types; `four` is the bit of the rank."""
    available = hand & ~(15 * four)
    kind = type_id.removeprefix("four_")
    if kind not in rules.four_kickers:
        return []
    if kind == "single":
        return single_kickers(rules, available, 1)
    if kind == "two_singles":
        return single_kickers(rules, available, 2)
    if kind == "two_pairs":
        return pair_kickers(rules, available, 2)
    assert kind == "single_pair", kind
    return single_and_pair(available)
