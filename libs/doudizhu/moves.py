"""Legal moves: every combo that a hand can put down, on a lead or over another combo (RULES.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable

from doudizhu.combo import FOURS, Combo, strength
from doudizhu.packed import (
    CARD_BITS,
    RANK_BITS,
    ROCKET,
    Packed,
    all_four,
    at_least_one,
    at_least_three,
    at_least_two,
    bits,
)
from doudizhu.rulebook import RuleBook
from doudizhu.shapes import Chain, four_kickers, pair_wings, wings
from doudizhu.table import Table, table_of


def moves(book: RuleBook, hand: Packed, over: Combo | None = None) -> list[Packed]:
    """Every combo of a hand as rank counts, each once; those that beat `over` when it is given. Pass is left out.

    `hand`: rank counts of at most 20 cards of one deck (`packed.pack_cards`). `cards_of` turns a move into cards.
    """
    table = table_of(book)
    return lead_moves(table, hand) if over is None else follow_moves(table, hand, over)


def cards_of(move: Packed, hand: Iterable[int]) -> tuple[int, ...]:
    """The cards of a hand to put down for a move, lowest card numbers first; the hand must hold them."""
    taken = []
    for card in sorted(hand):
        bit = CARD_BITS[card]
        if move & 7 * bit:
            move -= bit
            taken.append(card)
    assert move == 0, "the hand does not hold the move"
    return tuple(taken)


def lead_moves(table: Table, hand: Packed) -> list[Packed]:
    """Every combo of a hand, each once."""
    ones, twos, threes, fours = at_least_one(hand), at_least_two(hand), at_least_three(hand), all_four(hand)
    found = [*bits(ones), *[2 * bit for bit in bits(twos)]]
    found += [chain.packed for chain in table.straights(ones, twos)]
    found += [chain.packed for chain in table.pair_straights(twos)]
    if threes:
        for bit in bits(threes):
            found += _trio_with(bit, ones, twos)
    found += _bombs_and_rocket(hand)
    for bit in bits(fours):
        for type_id in FOURS:
            found += [4 * bit + kickers for kickers in four_kickers(table.rules, type_id, hand, bit)]
    straights = table.trio_straights(threes)
    if not straights:
        return found
    # Only combos with a trio straight can have several readings, and so come up twice.
    found += [chain.packed for chain in straights]
    for body in straights:
        found += [body.packed + kickers for kickers in wings(table.rules, hand, body)]
        found += [body.packed + kickers for kickers in pair_wings(table.rules, hand, body)]
    return list(dict.fromkeys(found))


def follow_moves(table: Table, hand: Packed, over: Combo) -> list[Packed]:
    """Every combo of a hand that beats another, each once."""
    if over.type == "rocket":
        return []
    higher = RANK_BITS[over.rank]
    if over.type == "bomb":
        return [move for move in _bombs_and_rocket(hand) if move > 4 * higher or move == ROCKET]
    return list(dict.fromkeys(_same_type(table, hand, over) + _bombs_and_rocket(hand)))


def _same_type(table: Table, hand: Packed, over: Combo) -> list[Packed]:
    ones, twos, threes = at_least_one(hand), at_least_two(hand), at_least_three(hand)
    above = ~(2 * RANK_BITS[over.rank] - 1)  # the ranks that are higher, where 2 is the highest but for the jokers
    match over.type:
        case "single":
            return list(bits(ones & above))
        case "pair":
            return [2 * bit for bit in bits(twos & above)]
        case "trio":
            return [3 * bit for bit in bits(threes & above)]
        case "trio_single":
            return [3 * trio + bit for trio in bits(threes & above) for bit in bits(ones & ~trio)]
        case "trio_pair":
            return [3 * trio + 2 * bit for trio in bits(threes & above) for bit in bits(twos & ~trio)]
        case "straight":
            return [chain.packed for chain in _longer(table.straights(ones, twos), over)]
        case "pair_straight":
            return [chain.packed for chain in _longer(table.pair_straights(twos), over)]
        case "trio_straight":
            return [chain.packed for chain in _longer(table.trio_straights(threes), over)]
        case "airplane_singles":
            bodies = _longer(table.trio_straights(threes), over)
            return [body.packed + kickers for body in bodies for kickers in wings(table.rules, hand, body)]
        case "airplane_pairs":
            bodies = _longer(table.trio_straights(threes), over)
            return [body.packed + kickers for body in bodies for kickers in pair_wings(table.rules, hand, body)]
    assert over.type in FOURS, over.type
    types = FOURS if table.rules.fours_compare_across else (over.type,)
    return [
        4 * four + kickers
        for four in bits(all_four(hand) & above)
        for type_id in types
        for kickers in four_kickers(table.rules, type_id, hand, four)
    ]


def _longer(held: tuple[Chain, ...], over: Combo) -> list[Chain]:
    least = strength(over)
    return [chain for chain in held if chain.body == over.body and chain.strength > least]


def _trio_with(trio: Packed, ones: Packed, twos: Packed) -> list[Packed]:
    three = 3 * trio
    singles = [three + bit for bit in bits(ones & ~trio)]
    return [three, *singles, *[three + 2 * bit for bit in bits(twos & ~trio)]]


def _bombs_and_rocket(hand: Packed) -> list[Packed]:
    found = [4 * bit for bit in bits(all_four(hand))]
    if hand & ROCKET == ROCKET:
        found.append(ROCKET)
    return found
