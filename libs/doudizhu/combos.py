"""Combos (一手牌): what a set of cards can be read as, and what beats what (RULES.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Combo:
    """One reading of some cards. `rank` is a rank index 0..14, `body` the chain length (1 for all else)."""

    type: str
    rank: int
    body: int
    cards: tuple[int, ...] = ()
