"""All combos of a rule book, compiled once: a dict from rank counts to every reading, and the chains a hand holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from doudizhu.cards import ACE
from doudizhu.combo import TYPES, Combo, strength
from doudizhu.packed import FULL_DECK, RANK_BITS, ROCKET, Packed, fits
from doudizhu.rulebook import RuleBook
from doudizhu.shapes import (
    FOUR_KICKERS,
    MAX_CARDS,
    Chain,
    ComboRules,
    airplanes_pairs,
    airplanes_singles,
    chains,
    combo_rules,
)

_TYPE_ORDER: Final = {type_id: order for order, type_id in enumerate(TYPES)}
_CHAIN_TYPES: Final = {1: "straight", 2: "pair_straight", 3: "trio_straight"}
_SUITED: Final = range(13)  # rank indices that have four cards

Readings = tuple[Combo, ...]


def default_order(combo: Combo) -> tuple[int, int, int]:
    """Sorts readings as D-02 prefers them: type as in the table, then longest body, then highest rank."""
    return _TYPE_ORDER[combo.type], -combo.body, -strength(combo)


class Held(NamedTuple):
    """The chains of one width that a hand holds."""

    chains: tuple[Chain, ...]
    moves: tuple[Packed, ...]  # their cards, each once: A,2..K is of the same cards as 2..K,A


class _ChainsByMask(dict[Packed, Held]):
    """For the ranks that a hand has enough cards of (a mask, at most 2^14 of them), the chains it holds."""

    def __init__(self, width: int, every: tuple[Chain, ...]) -> None:
        super().__init__()
        self._width = width
        self._every = every

    def __missing__(self, available: Packed) -> Held:
        chains = tuple(chain for chain in self._every if fits(chain.packed // self._width, available))
        held = self[available] = Held(chains, tuple(dict.fromkeys(chain.packed for chain in chains)))
        return held


class Table:
    """What a set of combo rules allows. Immutable but for its caches, which are bounded by what 54 cards allow."""

    def __init__(self, rules: ComboRules) -> None:
        self.rules: Final = rules
        self.books: Final[list[RuleBook]] = []  # that have these rules
        self.four_kickers: Final = {
            type_id: kickers
            for type_id, kickers in FOUR_KICKERS.items()
            if type_id.removeprefix("four_") in rules.four_kickers
        }
        self.chains: Final = {width: chains(rules.ace_low_chains, width) for width in _CHAIN_TYPES}
        # The chains of a hand by its mask of ranks with at least one, two, three cards.
        self.straights: Final = _ChainsByMask(1, self.chains[1]).__getitem__
        self.pair_straights: Final = _ChainsByMask(2, self.chains[2]).__getitem__
        self.trio_straights: Final = _ChainsByMask(3, self.chains[3]).__getitem__
        # A straight may hold two aces, one at each end; a mask shows one, so the second is added to it.
        self.second_ace: Final = RANK_BITS[ACE] if rules.ace_low_chains else 0

    @cached_property
    def readings(self) -> dict[Packed, Readings]:
        """Every combo of the deck with its readings, which carry no cards, in the order of D-02."""
        found: dict[Packed, Readings] = {}
        for packed, combo in self._enumerate():
            found[packed] = (*found.get(packed, ()), combo)
        for packed, several in found.items():
            if len(several) > 1:
                found[packed] = tuple(sorted(several, key=default_order))
        return found

    def _enumerate(self) -> Iterator[tuple[Packed, Combo]]:
        yield ROCKET, Combo("rocket", 14, 1)
        for rank, bit in enumerate(RANK_BITS):
            yield bit, Combo("single", rank, 1)
        for rank in _SUITED:
            yield from self._sets_of(rank)
        for width, type_id in _CHAIN_TYPES.items():
            for chain in self.chains[width]:
                yield chain.packed, Combo(type_id, chain.rank, chain.body)
        for body in self.chains[3]:
            yield from self._airplanes(body)

    def _sets_of(self, rank: int) -> Iterator[tuple[Packed, Combo]]:
        bit = RANK_BITS[rank]
        for type_id, count in (("pair", 2), ("trio", 3), ("bomb", 4)):
            yield count * bit, Combo(type_id, rank, 1)
        trio_single, trio_pair = Combo("trio_single", rank, 1), Combo("trio_pair", rank, 1)
        for other, kicker in enumerate(RANK_BITS):
            if other != rank:
                yield 3 * bit + kicker, trio_single
                if other in _SUITED:
                    yield 3 * bit + 2 * kicker, trio_pair
        for type_id, with_kickers in self.four_kickers.items():
            four = Combo(type_id, rank, 1)
            for packed in with_kickers(self.rules, 4 * bit, FULL_DECK - 4 * bit):
                yield packed, four

    def _airplanes(self, body: Chain) -> Iterator[tuple[Packed, Combo]]:
        if 4 * body.body <= MAX_CARDS:
            airplane = Combo("airplane_singles", body.rank, body.body)
            for packed in airplanes_singles(self.rules, FULL_DECK, body):
                yield packed, airplane
        if 5 * body.body <= MAX_CARDS:
            airplane = Combo("airplane_pairs", body.rank, body.body)
            for packed in airplanes_pairs(self.rules, FULL_DECK, body):
                yield packed, airplane


_MAX_BOOKS: Final = 32
_tables: Final[dict[ComboRules, Table]] = {}
# By id(book), because hashing a book costs more than reading a combo. A table keeps its books alive, so that an id in
# here belongs to no other.
_table_of: Final[dict[int, Table]] = {}
_readings_of: Final[dict[int, dict[Packed, Readings]]] = {}


def table_of(book: RuleBook) -> Table:
    """The table of a book, built at its first use and shared by all books with the same combo rules."""
    table = _table_of.get(id(book))
    return _remember(book) if table is None else table


def classify(book: RuleBook, packed: Packed) -> Readings:
    """Every reading of rank counts, in the default order of D-02; empty when they are no combo. They carry no cards."""
    try:
        return _readings_of[id(book)].get(packed, ())
    except KeyError:  # the first look into this book
        readings = _readings_of[id(book)] = table_of(book).readings
        return readings.get(packed, ())


def all_readings(book: RuleBook) -> Mapping[Packed, Readings]:
    """Every combo of at most 20 cards of one deck with its readings, as `classify` gives them, for many lookups."""
    return table_of(book).readings


def _remember(book: RuleBook) -> Table:
    if len(_table_of) >= _MAX_BOOKS:
        for cache in (_table_of, _readings_of, _tables):
            cache.clear()
    rules = combo_rules(book)
    table = _tables.get(rules) or Table(rules)
    table.books.append(book)
    _tables[rules] = _table_of[id(book)] = table
    return table
