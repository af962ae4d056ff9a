"""The parts combos are made of: chains, and the kickers that may go with a body (RULES.md section 3, D-01)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final, NamedTuple

from doudizhu.cards import ACE, TWO
from doudizhu.combo import chain_strength
from doudizhu.packed import RANK_BITS, ROCKET, Packed, bits, masks, pairs, quads, trios
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
                found.append(Chain(packed, masks(packed)[0], body, ranks[-1], chain_strength(ranks[-1])))
    return tuple(found)


def choose(available: Packed, count: int, base: Packed = 0, each: int = 1) -> list[Packed]:
    """`base` with every multiset of `count` units of those available, each once; a unit is `each` cards of a rank."""
    by_size: list[list[Packed]] = [[base], *([] for _ in range(count))]
    for bit in bits(masks(available)[0]):
        most = available // bit & 7
        for size in range(count, 0, -1):
            for taken in range(1, min(most, size) + 1):
                added = taken * each * bit
                by_size[size] += [smaller + added for smaller in by_size[size - taken]]
    return by_size[count]


def _choose_two(base: Packed, units: tuple[Packed, ...], doubles: tuple[Packed, ...]) -> list[Packed]:
    """What `choose` finds for two units, by far the most frequent number, in a fraction of the time."""
    found = [base + first + second for first, second in combinations(units, 2)]
    found += [base + double for double in doubles]
    return found


def with_singles(rules: ComboRules, base: Packed, available: Packed, count: int) -> list[Packed]:
    """`base` with every choice of `count` single wings or kickers (wings_repeat, rocket_as_wings)."""
    ones, twos, _, _ = masks(available)
    if count == 2:
        found = _choose_two(base, bits(ones), pairs(twos) if rules.wings_repeat else ())
    else:
        found = choose(available if rules.wings_repeat else ones, count, base)
    if not rules.rocket_as_wings and available & ROCKET == ROCKET:
        return [move for move in found if move & ROCKET != ROCKET]
    return found


def with_pairs(rules: ComboRules, base: Packed, available: Packed, count: int) -> list[Packed]:
    """`base` with every choice of `count` pair wings or kickers (quad_as_two_pairs)."""
    _, twos, _, fours = masks(available)
    if not rules.quad_as_two_pairs:
        fours = 0
    if count == 2:
        return _choose_two(base, pairs(twos), quads(fours))
    return choose(twos + fours, count, base, each=2)


def airplanes_singles(rules: ComboRules, hand: Packed, body: Chain) -> list[Packed]:
    """A trio straight of the hand with every choice of single wings (wing_from_body)."""
    available = hand - body.packed if rules.wing_from_body else hand & ~(7 * body.ranks)
    return with_singles(rules, body.packed, available, body.body)


def airplanes_pairs(rules: ComboRules, hand: Packed, body: Chain) -> list[Packed]:
    """A trio straight of the hand with every choice of pair wings."""
    return with_pairs(rules, body.packed, hand & ~(7 * body.ranks), body.body)


def _four_single(rules: ComboRules, four: Packed, rest: Packed) -> list[Packed]:
    return with_singles(rules, four, rest, 1)


def _four_two_singles(rules: ComboRules, four: Packed, rest: Packed) -> list[Packed]:
    return with_singles(rules, four, rest, 2)


def _four_two_pairs(rules: ComboRules, four: Packed, rest: Packed) -> list[Packed]:
    return with_pairs(rules, four, rest, 2)


def _four_single_pair(_rules: ComboRules, four: Packed, rest: Packed) -> list[Packed]:
    """Single and pair may be of one rank."""
    ones, twos, threes, _ = masks(rest)
    found = [four + 2 * pair + single for pair in bits(twos) for single in bits(ones ^ pair)]
    return found + [four + trio for trio in trios(threes)]


# Four of a rank, given as such, with every choice of kickers out of the rest of the hand.
FOUR_KICKERS: Final[dict[str, Callable[[ComboRules, Packed, Packed], list[Packed]]]] = {
    "four_single": _four_single,
    "four_two_singles": _four_two_singles,
    "four_two_pairs": _four_two_pairs,
    "four_single_pair": _four_single_pair,
}
