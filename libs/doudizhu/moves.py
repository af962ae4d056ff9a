"""Legal moves: every combo that a hand can put down, on a lead or over another combo (RULES.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doudizhu.combo import FOURS, Combo, strength
from doudizhu.packed import CARD_BITS, RANK_BITS, ROCKET, Masks, Packed, bits, masks, pairs, quads, trios
from doudizhu.rulebook import RuleBook
from doudizhu.shapes import Chain, airplanes_pairs, airplanes_singles
from doudizhu.table import Held, Table, table_of


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
    ones, twos, threes, fours = masks(hand)
    found = [*bits(ones), *pairs(twos), *trios(threes), *quads(fours)]
    if hand & ROCKET == ROCKET:
        found.append(ROCKET)
    found += table.straights(ones + (twos & table.second_ace)).moves
    found += table.pair_straights(twos).moves
    for trio in bits(threes):
        three = 3 * trio
        found += [three + kicker for kicker in bits(ones ^ trio) + pairs(twos ^ trio)]
    for four in quads(fours):
        for with_kickers in table.four_kickers.values():
            found += with_kickers(table.rules, four, hand - four)
    bodies = table.trio_straights(threes).chains
    for body in bodies:
        found.append(body.packed)
        found += airplanes_singles(table.rules, hand, body)
        found += airplanes_pairs(table.rules, hand, body)
    # Only with several bodies, or with a quad as kickers of another, can the same cards come up twice.
    return _distinct(found) if len(bodies) > 1 or table.rules.quad_as_two_pairs else found


def follow_moves(table: Table, hand: Packed, over: Combo) -> list[Packed]:
    """Every combo of a hand that beats another, each once."""
    if over.type == "rocket":
        return []
    held = masks(hand)
    above = -RANK_BITS[over.rank] << 1  # a mask of all higher ranks
    if over.type == "bomb":
        found = list(quads(held[3] & above))
    else:
        found = [*_same_type(table, hand, held, over, above), *quads(held[3])]
    if hand & ROCKET == ROCKET:
        found.append(ROCKET)
    return found


def _same_type(table: Table, hand: Packed, held: Masks, over: Combo, above: Packed) -> Sequence[Packed]:
    ones, twos, threes, fours = held
    match over.type:
        case "single":
            return bits(ones & above)
        case "pair":
            return pairs(twos & above)
        case "trio":
            return trios(threes & above)
        case "trio_single":
            return [3 * trio + kicker for trio in bits(threes & above) for kicker in bits(ones ^ trio)]
        case "trio_pair":
            return [3 * trio + kicker for trio in bits(threes & above) for kicker in pairs(twos ^ trio)]
        case "straight":
            return [chain.packed for chain in _higher(table.straights(ones + (twos & table.second_ace)), over)]
        case "pair_straight":
            return [chain.packed for chain in _higher(table.pair_straights(twos), over)]
        case "trio_straight":
            return [body.packed for body in _higher(table.trio_straights(threes), over)]
        case "airplane_singles":
            bodies = _higher(table.trio_straights(threes), over)
            return _distinct([move for body in bodies for move in airplanes_singles(table.rules, hand, body)])
        case "airplane_pairs":
            bodies = _higher(table.trio_straights(threes), over)
            return _distinct([move for body in bodies for move in airplanes_pairs(table.rules, hand, body)])
    assert over.type in FOURS, over.type
    across = table.rules.fours_compare_across
    kinds = [kickers for type_id, kickers in table.four_kickers.items() if across or type_id == over.type]
    higher = quads(fours & above)
    return _distinct([move for four in higher for kind in kinds for move in kind(table.rules, four, hand - four)])


def _higher(held: Held, over: Combo) -> list[Chain]:
    least = strength(over)
    return [chain for chain in held.chains if chain.body == over.body and chain.strength > least]


def _distinct(found: list[Packed]) -> list[Packed]:
    return list(dict.fromkeys(found))
