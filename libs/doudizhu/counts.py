"""How many combos a rule book has (RULES.md section 3, exact counts)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from doudizhu.combos import TYPES, all_readings
from doudizhu.rulebook import RuleBook


@dataclass(frozen=True, slots=True)
class Counts:
    """Over the whole deck and combos of at most 20 cards."""

    readings: int
    distinct: int  # rank multisets
    types: dict[str, int]  # readings by type id, of the types that the book has, in the order of section 3
    bodies: dict[tuple[str, int], int]  # readings by type id and chain length


def count(book: RuleBook) -> Counts:
    """Counts every combo of a book."""
    by_multiset = all_readings(book).values()
    bodies = Counter((reading.type, reading.body) for readings in by_multiset for reading in readings)
    types = {name: sum(n for (of_type, _), n in bodies.items() if of_type == name) for name in TYPES}
    return Counts(
        readings=sum(bodies.values()),
        distinct=len(by_multiset),
        types={name: n for name, n in types.items() if n},
        bodies=dict(bodies),
    )
