"""What a combo (一手牌) is: its type id, rank, chain length and cards (RULES.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from doudizhu.cards import TWO

# The table of section 3, in its order: D-02 takes the first of these when a lead names no reading.
TYPES: Final = (
    "rocket",
    "bomb",
    "single",
    "pair",
    "trio",
    "trio_single",
    "trio_pair",
    "straight",
    "pair_straight",
    "trio_straight",
    "airplane_singles",
    "airplane_pairs",
    "four_single",
    "four_two_singles",
    "four_two_pairs",
    "four_single_pair",
)
FOURS: Final = TYPES[TYPES.index("four_single") :]


@dataclass(frozen=True, slots=True)
class Combo:
    """One reading of some cards. `rank` is a rank index 0..14, `body` the chain length (1 for all else)."""

    type: str
    rank: int
    body: int
    cards: tuple[int, ...] = ()


def chain_strength(rank: int) -> int:
    """What chains of one type compare by, from the index of their highest rank.

    In a chain 2 comes before 3 (section 3, chain order in `classic`), so that one that ends in 2 is the weakest.
    """
    return -1 if rank == TWO else rank


def strength(combo: Combo) -> int:
    """What combos of one type compare by: the rank index, for a chain as `chain_strength` has it."""
    return chain_strength(combo.rank) if combo.body > 1 else combo.rank


def is_bomb(combo: Combo) -> bool:
    """Whether it counts as a bomb: four of a rank, or the rocket (D-14)."""
    return combo.type in ("bomb", "rocket")
