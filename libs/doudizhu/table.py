"""All combos of a rule book, compiled once: a dict from rank counts to every reading, and the chains a hand holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from doudizhu.cards import ACE
from doudizhu.combo import FOURS, TYPES, Combo, strength
from doudizhu.packed import FULL_DECK, RANK_BITS, ROCKET, Packed, fits
from doudizhu.rulebook import RuleBook
from doudizhu.shapes import MAX_CARDS, Chain, ComboRules, chains, combo_rules, four_kickers, pair_wings, wings

_TYPE_ORDER: Final = {type_id: order for order, type_id in enumerate(TYPES)}
_CHAIN_TYPES: Final = {1: "straight", 2: "pair_straight", 3: "trio_straight"}
_SUITED: Final = range(13)  # rank indices that have four cards

Readings = tuple[Combo, ...]


def default_order(combo: Combo) -> tuple[int, int, int]:
    """Sorts readings as D-02 prefers them: type as in the table, then longest body, then highest rank."""
    return _TYPE_ORDER[combo.type], -combo.body, -strength(combo)


class Table:
    """What a set of combo rules allows. Immutable but for its caches, which are bounded by what 54 cards allow."""

    def __init__(self, rules: ComboRules) -> None:
        self.rules: Final = rules
        self.chains: Final = {width: chains(rules.ace_low_chains, width) for width in _CHAIN_TYPES}
        # A straight may hold two aces, one at each end; a mask shows one, so theirs is counted apart.
        self._second_ace: Final = RANK_BITS[ACE] if rules.ace_low_chains else 0
        self._held: dict[int, dict[Packed, tuple[Chain, ...]]] = {width: {} for width in _CHAIN_TYPES}

    @cached_property
    def readings(self) -> dict[Packed, Readings]:
        """Every reading of every multiset that is a combo, in the order of D-02; they carry no cards."""
        found: dict[Packed, Readings] = {}
        for packed, combo in self._enumerate():
            found[packed] = (*found.get(packed, ()), combo)
        for packed, several in found.items():
            if len(several) > 1:
                found[packed] = tuple(sorted(several, key=default_order))
        return found

    def straights(self, ones: Packed, twos: Packed) -> tuple[Chain, ...]:
        """The straights of a hand, by its masks of ranks with at least one and at least two cards."""
        return self._chains_in(1, ones + (twos & self._second_ace))

    def pair_straights(self, twos: Packed) -> tuple[Chain, ...]:
        """The pair straights of a hand, by its mask of ranks with at least two cards."""
        return self._chains_in(2, twos)

    def trio_straights(self, threes: Packed) -> tuple[Chain, ...]:
        """The trio straights of a hand, by its mask of ranks with at least three cards."""
        return self._chains_in(3, threes)

    def _chains_in(self, width: int, available: Packed) -> tuple[Chain, ...]:
        held = self._held[width].get(available)
        if held is None:
            held = tuple(chain for chain in self.chains[width] if fits(chain.packed // width, available))
            self._held[width][available] = held
        return held

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
        for type_id in FOURS:
            four = Combo(type_id, rank, 1)
            for kickers in four_kickers(self.rules, type_id, FULL_DECK, bit):
                yield 4 * bit + kickers, four

    def _airplanes(self, body: Chain) -> Iterator[tuple[Packed, Combo]]:
        if 4 * body.body <= MAX_CARDS:
            airplane = Combo("airplane_singles", body.rank, body.body)
            for kickers in wings(self.rules, FULL_DECK, body):
                yield body.packed + kickers, airplane
        if 5 * body.body <= MAX_CARDS:
            airplane = Combo("airplane_pairs", body.rank, body.body)
            for kickers in pair_wings(self.rules, FULL_DECK, body):
                yield body.packed + kickers, airplane


_MAX_BOOKS: Final = 64
_tables: dict[ComboRules, Table] = {}
_by_identity: dict[int, tuple[RuleBook, Table]] = {}


def table_of(book: RuleBook) -> Table:
    """The table of a book, built at its first use and shared by all books with the same combo rules."""
    # Looked up by identity, because hashing a book costs more than reading a combo; the entry keeps the book alive,
    # so that its id belongs to nobody else.
    entry = _by_identity.get(id(book))
    if entry is None:
        entry = _remember(book)
    return entry[1]


def _remember(book: RuleBook) -> tuple[RuleBook, Table]:
    if len(_by_identity) >= _MAX_BOOKS:
        _by_identity.clear()
        _tables.clear()
    rules = combo_rules(book)
    if rules not in _tables:
        _tables[rules] = Table(rules)
    entry = _by_identity[id(book)] = (book, _tables[rules])
    return entry
