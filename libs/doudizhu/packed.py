"""Rank counts packed into one int, four bits a rank: a multiset of ranks that is cheap to add, compare and look up.

Rank r (0..14) has the bits 4r..4r+3, which hold 0..4. A mask is the same int with only 0 and 1 as counts, so that a
mask of ranks is at the same time the multiset that has one card of each, twice the mask has a pair of each, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from doudizhu.cards import DECK, rank_of

Packed = int
Masks = tuple[Packed, Packed, Packed, Packed]  # ranks with at least one, two, three, and with four cards

ONES: Final[Packed] = 0x111_1111_1111_1111
_GUARDS: Final = ONES << 3
RANK_BITS: Final[tuple[Packed, ...]] = tuple(1 << 4 * rank for rank in range(15))
CARD_BITS: Final[tuple[Packed, ...]] = tuple(RANK_BITS[rank_of(card)] for card in DECK)
ROCKET: Final[Packed] = RANK_BITS[13] | RANK_BITS[14]
FULL_DECK: Final[Packed] = sum(CARD_BITS)


class _Sets(dict[Packed, tuple[Packed, ...]]):
    """For a mask (at most 2^15 of them), the multisets that have `count` cards of one of its ranks, weakest first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, mask: Packed) -> tuple[Packed, ...]:
        found = self[mask] = tuple(self._count * bit for bit in RANK_BITS if mask & bit)
        return found


bits: Final = _Sets(1).__getitem__  # the ranks of a mask as multisets of one card each, weakest first
pairs: Final = _Sets(2).__getitem__
trios: Final = _Sets(3).__getitem__
quads: Final = _Sets(4).__getitem__


def pack_cards(cards: Iterable[int]) -> Packed:
    """The rank counts of cards 0..53."""
    packed = 0
    for card in cards:  # for the few cards of a combo a loop is faster than sum and map
        packed += CARD_BITS[card]
    return packed


def pack_ranks(ranks: Iterable[int]) -> Packed:
    """The rank counts of rank indices 0..14, of which none may come more than seven times."""
    return sum(RANK_BITS[rank] for rank in ranks)


def unpack(packed: Packed) -> tuple[int, ...]:
    """The rank indices of a multiset, weakest first."""
    return tuple(rank for rank, bit in enumerate(RANK_BITS) for _ in range(packed // bit & 7))


def fits(packed: Packed, within: Packed) -> bool:
    """Whether `within` has at least as many of every rank."""
    return ((within | _GUARDS) - packed) & _GUARDS == _GUARDS


def masks(packed: Packed) -> Masks:
    """The masks of ranks with at least one, at least two, at least three and all four cards."""
    half, quarter = packed >> 1, packed >> 2
    two = half | quarter
    return (packed | two) & ONES, two & ONES, (packed & half | quarter) & ONES, quarter & ONES


def all_four(packed: Packed) -> Packed:
    """The mask of ranks with all four cards."""
    return packed >> 2 & ONES
