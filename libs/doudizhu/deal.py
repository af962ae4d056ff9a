"""The verifiable deal (RULES.md D-07): a commitment before, client seeds, the server seed after."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deal:
    """Who got which cards. `first_seat`: the marked card's holder, or a seat drawn from the same stream."""

    hands: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    bottom: tuple[int, ...]
    marked: int | None
    first_seat: int
