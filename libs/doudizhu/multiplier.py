"""The multiplier, itemised by factor (RULES.md section 9), and what it becomes when a seat flees (section 10)."""

from __future__ import annotations

from math import prod

from doudizhu.cards import BIG_JOKER, SMALL_JOKER
from doudizhu.combo import Combo
from doudizhu.hand import Cards, Factor, Factors, Hand
from doudizhu.packed import all_four, pack_cards
from doudizhu.rulebook import RuleBook


def product(factors: Factors) -> int:
    """The multiplier that these factors make."""
    return prod(value for _, value in factors)


def times(factors: Factors, factor: Factor, value: int) -> Factors:
    """The factors after one more event; 1 multiplies nothing and leaves them as they are."""
    if value == 1:
        return factors
    if any(known is factor for known, _ in factors):
        return tuple((known, total * value if known is factor else total) for known, total in factors)
    return (*factors, (factor, value))


def before_deal(book: RuleBook, initial_multiplier: int, redeals: int) -> Factors:
    """What multiplies before a card is dealt: the room's initial multiplier and the redeals carried in."""
    factors = times((), Factor.INITIAL, initial_multiplier)
    return times(factors, Factor.REDEAL, book.redeal_factor ** min(redeals, book.max_redeals))


def bomb_factor(book: RuleBook, combo: Combo) -> int:
    """By how much a combo multiplies when it is put down."""
    if combo.type == "bomb":
        return book.bomb_factor
    return book.rocket_factor if combo.type == "rocket" else 1


def flee_multiplier(hand: Hand, seat: int) -> int:
    """m' of section 10, when this seat flees now."""
    multiplier = product(_flee_base(hand, seat))
    if hand.book.flee_whole_bombs:
        for other in range(3):
            multiplier *= _whole_bombs_factor(hand.book, hand.held(other))
    return multiplier


def flee_factors(hand: Hand, seat: int, multiplier: int) -> Factors:
    """The factors of m', of which the share of the bombs still in the hands is what remains."""
    factors = _flee_base(hand, seat)
    return times(factors, Factor.FLEE_BOMBS, multiplier // product(factors))


def _flee_base(hand: Hand, seat: int) -> Factors:
    """Without the robs where the book leaves them out; a landlord who flees pays them everywhere."""
    if hand.book.flee_rob_factors or seat == hand.landlord:
        return hand.factors
    return tuple(entry for entry in hand.factors if entry[0] is not Factor.ROB)


def _whole_bombs_factor(book: RuleBook, cards: Cards) -> int:
    bombs: int = book.bomb_factor ** all_four(pack_cards(cards)).bit_count()
    return bombs * book.rocket_factor if SMALL_JOKER in cards and BIG_JOKER in cards else bombs
