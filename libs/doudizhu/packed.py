"""Rank counts packed into one int, four bits a rank: a multiset of ranks that is cheap to add, compare and look up.

Rank r (0..14) has the bits 4r..4r+3, which hold 0..4. A mask is the same int with only 0 and 1 as counts, so that a
mask of ranks is at the same time the multiset that has one card of each, twice the mask has a pair of each, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from doudizhu.cards import DECK, rank_of

Packed = int

ONES: Final[Packed] = 0x111_1111_1111_1111
_GUARDS: Final = ONES << 3
RANK_BITS: Final[tuple[Packed, ...]] = tuple(1 << 4 * rank for rank in range(15))
CARD_BITS: Final[tuple[Packed, ...]] = tuple(RANK_BITS[rank_of(card)] for card in DECK)
ROCKET: Final[Packed] = RANK_BITS[13] | RANK_BITS[14]
FULL_DECK: Final[Packed] = sum(CARD_BITS)

_card_bit: Final = CARD_BITS.__getitem__
_rank_bit: Final = RANK_BITS.__getitem__
_bits_of_mask: dict[Packed, tuple[Packed, ...]] = {}  # at most 2^15 masks


def pack_cards(cards: Iterable[int]) -> Packed:
    """The rank counts of cards 0..53."""
    return sum(map(_card_bit, cards))


def pack_ranks(ranks: Iterable[int]) -> Packed:
    """The rank counts of rank indices 0..14, of which none may come more than seven times."""
    return sum(map(_rank_bit, ranks))


def unpack(packed: Packed) -> tuple[int, ...]:
    """The rank indices of a multiset, weakest first."""
    return tuple(rank for rank, bit in enumerate(RANK_BITS) for _ in range(packed // bit & 7))


def fits(packed: Packed, within: Packed) -> bool:
    """Whether `within` has at least as many of every rank."""
    return ((within | _GUARDS) - packed) & _GUARDS == _GUARDS


def at_least_one(packed: Packed) -> Packed:
    """The mask of ranks with one card or more."""
    return (packed | packed >> 1 | packed >> 2) & ONES


def at_least_two(packed: Packed) -> Packed:
    """The mask of ranks with two cards or more."""
    return (packed >> 1 | packed >> 2) & ONES


def at_least_three(packed: Packed) -> Packed:
    """The mask of ranks with three cards or more."""
    return (packed & packed >> 1 | packed >> 2) & ONES


def all_four(packed: Packed) -> Packed:
    """The mask of ranks with all four cards."""
    return packed >> 2 & ONES


def bits(mask: Packed) -> tuple[Packed, ...]:
    """The ranks of a mask as multisets of one card each, weakest first."""
    found = _bits_of_mask.get(mask)
    if found is None:
        found = _bits_of_mask[mask] = tuple(bit for bit in RANK_BITS if mask & bit)
    return found
