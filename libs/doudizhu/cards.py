"""The 54 cards (RULES.md section 2).

A card is an int 0..53: rank index x 4 + suit for 0..51, 52 the small joker, 53 the big one. Ranks are indices
0..14 in the order 3 4 5 6 7 8 9 T J Q K A 2 x X, which is also their order of strength; suits never matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from doudizhu.refusal import Malformed, Reason

RANKS: Final = "3456789TJQKA2xX"
SUITS: Final = "♠♥♣♦"
ACE: Final = RANKS.index("A")
TWO: Final = RANKS.index("2")
SMALL_JOKER: Final = 52
BIG_JOKER: Final = 53
DECK: Final[tuple[int, ...]] = tuple(range(54))
HAND_SIZE: Final = 17
BOTTOM_SIZE: Final = 3

_INDEX: Final = {rank: index for index, rank in enumerate(RANKS)}


def rank_of(card: int) -> int:
    """The rank index 0..14 of a card 0..53."""
    return card >> 2 if card < SMALL_JOKER else card - 39


def parse_ranks(text: str) -> tuple[int, ...]:
    """Rank indices of a string such as "334x", in its order; raises Malformed at the first that is no rank."""
    try:
        return tuple(_INDEX[letter] for letter in text)
    except KeyError as unknown:
        raise Malformed(
            Reason.MALFORMED, f"{unknown.args[0]!r} is not a rank; ranks are {RANKS}", field="cards"
        ) from None


def format_ranks(ranks: Iterable[int]) -> str:
    """The rank string of rank indices, weakest first."""
    return "".join(RANKS[rank] for rank in sorted(ranks))


def format_cards(cards: Iterable[int]) -> str:
    """The rank string of cards, weakest first."""
    return format_ranks(map(rank_of, cards))
