"""How a hand of cards might be played out: a partition into combos, and what each is worth.

A heuristic, in tenths of a turn: a low combo costs a whole turn to get rid of, a card that takes the lead back costs
next to nothing, a bomb less than nothing. Chains are searched, kickers are given the weakest cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from doudizhu.packed import RANK_BITS, ROCKET, Packed, masks

TURN: Final = 10
# By rank index, then by how many cards of it: what is left of a hand when no chain is taken out.
_LOW: Final = (0, 10, 10, 9, -4)
_SET_COST: Final = (*(_LOW,) * 10, (0, 9, 8, 7, -4), (0, 7, 5, 5, -5), (0, 2, 1, 0, -6), (0, 1), (0, -1))
_ROCKET_COST: Final = -6
_CHAIN_COST: Final = 9
_BURDEN: Final = 9  # a single or pair that costs so much is better given away as a kicker


_MINIMUM_BODY: Final = {1: 5, 2: 3, 3: 2}  # cards a rank -> ranks of the shortest chain
_HIGHEST_CHAINED: Final = 11  # the ace: chains through 2 spend what they would need to win


@dataclass(frozen=True, slots=True)
class Plan:
    """A partition of a hand: the groups in no particular order, and their cost in tenths of a turn."""

    cost: int
    groups: tuple[Packed, ...]


def plan(hand: Packed) -> Plan:
    """The cheapest partition found, into combos of every book; `hand`: rank counts of at most 20 cards."""
    least, chains = _cheapest(hand, 0)
    return Plan(least, _groups(hand, chains))


def cost(hand: Packed) -> int:
    """The cost of a hand, in tenths of a turn."""
    return _cheapest(hand, 0)[0]


@lru_cache(maxsize=1 << 15)
def _cheapest(hand: Packed, wings: int) -> tuple[int, tuple[Packed, ...]]:
    """The least cost and the chains to take out for it; `wings` kickers are free for trio straights taken before."""
    least = _cost_without_chains(hand, wings)
    taken: tuple[Packed, ...] = ()
    for width in (3, 2, 1):
        for chain in _chains(width, masks(hand)[width - 1]):
            freed = chain.bit_count() if width == 3 else 0
            rest, more = _cheapest(hand - width * chain, wings + freed)
            if rest + _CHAIN_COST < least:
                least, taken = rest + _CHAIN_COST, (width * chain, *more)
    return least, taken


@lru_cache(maxsize=1 << 14)
def _chains(width: int, ranks: Packed) -> tuple[Packed, ...]:
    """Masks of consecutive ranks among these that are long enough for a chain of `width` cards a rank."""
    found: list[Packed] = []
    for first in range(_HIGHEST_CHAINED + 1):
        mask = body = 0
        for rank in range(first, _HIGHEST_CHAINED + 1):
            if not ranks & RANK_BITS[rank]:
                break
            mask, body = mask | RANK_BITS[rank], body + 1
            if body >= _MINIMUM_BODY[width]:
                found.append(mask)
    return tuple(found)


def _cost_without_chains(hand: Packed, wings: int) -> int:
    total = burdens = trios = rank = 0
    if hand & ROCKET == ROCKET:
        total, hand = _ROCKET_COST, hand - ROCKET
    while hand:
        count = hand & 7
        if count:
            value = _SET_COST[rank][count]
            total += value
            if count == 3:
                trios += 1
            elif value >= _BURDEN:
                burdens += 1
        hand >>= 4
        rank += 1
    return total - TURN * min(trios + wings, burdens)


def _groups(hand: Packed, chains: tuple[Packed, ...]) -> tuple[Packed, ...]:
    """The chains, then what is left by rank, with the weakest burdens as kickers of trios and trio straights."""
    rest = hand - sum(chains)
    bodies = [chain for chain in chains if masks(chain)[2]]
    groups = [chain for chain in chains if chain not in bodies]
    singles: list[Packed] = []
    pairs: list[Packed] = []
    if rest & ROCKET == ROCKET:
        groups.append(ROCKET)
        rest -= ROCKET
    for rank, bit in enumerate(RANK_BITS):
        count = rest // bit & 7
        if count == 3:
            bodies.append(3 * bit)
        elif count and _SET_COST[rank][count] >= _BURDEN:
            (singles if count == 1 else pairs).append(count * bit)
        elif count:
            groups.append(count * bit)
    for body in sorted(bodies, key=int.bit_count, reverse=True):
        wings = masks(body)[0].bit_count()
        for kickers in (singles, pairs):
            free = [kicker for kicker in kickers if not masks(kicker)[0] & body][:wings]
            if len(free) == wings:
                body += sum(free)
                kickers[:] = [kicker for kicker in kickers if kicker not in free]
                break
        groups.append(body)
    return (*groups, *singles, *pairs)
