"""The fields of one JSON line of `ddz rules`, checked: every wrong one is a Malformed that names it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from doudizhu import BOOKS, Combo, Malformed, Reason, RuleBook, override
from doudizhu.cards import DECK, RANKS, parse_ranks, rank_of
from doudizhu.combos import TYPES, choose_lead
from doudizhu.rulebook import GREATEST_INT64

_MAX_HAND: Final = 20
_MOST_SHOWN: Final = 60
_MISSING: Final = object()
_COPIES: Final = Counter(map(rank_of, DECK))  # of each rank in a deck

Cards = tuple[int, ...]
Three = tuple[int, int, int]


def parse_line(line: bytes) -> Line:
    """One line of standard input; raises Malformed when it is not a JSON object."""
    try:
        fields = json.loads(line)
    except RecursionError:
        raise Malformed(Reason.MALFORMED, "the line is nested too deeply") from None
    except json.JSONDecodeError as broken:
        raise Malformed(Reason.MALFORMED, f"the line is not JSON, from its character {broken.pos + 1} on") from None
    except UnicodeDecodeError:
        raise Malformed(Reason.MALFORMED, "the line is not JSON: its text is not UTF-8") from None
    except ValueError:  # Python reads no whole number of more than some thousand digits
        raise Malformed(Reason.MALFORMED, "the line has a number that is too long") from None
    if not isinstance(fields, dict):
        raise Malformed(Reason.MALFORMED, "the line is not a JSON object")
    return Line(fields)


def shown(value: object) -> str:
    """A value of the line for a sentence: its JSON, not more of it than a sentence bears."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "something nested deeply"
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def wrong(name: str, what: str) -> Malformed:
    """A field that is not what it must be."""
    return Malformed(Reason.INVALID, f"{name} must be {what}", field=name)


class Line:
    """The fields of a line by the kind of value they must hold; fields that nobody asks for are ignored."""

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._fields.get(name) is not None

    def get(self, name: str) -> object:
        value = self._fields.get(name, _MISSING)
        if value is _MISSING:
            raise Malformed(Reason.INVALID, f"{name} is missing", field=name)
        return value

    def text(self, name: str) -> str:
        return check_text(name, self.get(name))

    def items(self, name: str, count: int | None = None) -> list[object]:
        value = self.get(name)
        if not isinstance(value, list) or count not in (None, len(value)):
            raise wrong(name, "a list" if count is None else f"a list of {count}")
        return value

    def integer(self, name: str, least: int = 0, greatest: int | None = None) -> int:
        return check_integer(name, self.get(name), least, greatest)

    def integers(self, name: str) -> Three:
        """Three amounts by seat."""
        one, two, three = (check_integer(name, value, 0, GREATEST_INT64) for value in self.items(name, 3))
        return one, two, three

    def seat(self, name: str) -> int | None:
        """A seat 0..2; None when the field is null or left out."""
        if not self.has(name):
            return None
        value = self.get(name)
        if isinstance(value, bool) or value not in (0, 1, 2) or not isinstance(value, int):
            raise wrong(name, f"a seat, 0, 1 or 2, or null, not {shown(value)}")
        return value

    def book(self) -> RuleBook:
        """The book of the line with its `fields` put in."""
        name = self.text("book")
        if name not in BOOKS:
            raise wrong("book", f"one of {', '.join(BOOKS)}, not {name!r}")
        if "fields" not in self._fields:
            return BOOKS[name]
        fields = self.get("fields")
        if not isinstance(fields, dict):
            raise wrong("fields", "an object")
        return _overridden(name, json.dumps(fields, sort_keys=True))

    def ranks(self, name: str) -> Cards:
        """Rank indices of a rank string; raises Malformed at what is no rank."""
        return parse_ranks(self.text(name))

    def hand(self, name: str) -> Cards:
        """The cards of a rank string that is a hand."""
        return check_hands(name, [self.text(name)])[0]

    def over(self, book: RuleBook) -> Combo:
        """The combo `over`, read as `over_type` and `over_rank` say where they do (D-02)."""
        type_id = self.text("over_type") if self.has("over_type") else None
        if type_id is not None and type_id not in TYPES:
            raise wrong("over_type", f"one of {', '.join(TYPES)}, not {type_id!r}")
        rank = self.text("over_rank") if self.has("over_rank") else None
        if rank is not None and (len(rank) != 1 or rank not in RANKS):
            raise wrong("over_rank", f"one of {RANKS}, not {rank!r}")
        return choose_lead(book, self.hand("over"), type_id, None if rank is None else RANKS.index(rank))


_overrides: dict[tuple[str, str], RuleBook] = {}


def _overridden(name: str, fields: str) -> RuleBook:
    """One value for equal fields: the combos of a book are compiled for the value."""
    if (name, fields) not in _overrides:
        _overrides[name, fields] = override(BOOKS[name], json.loads(fields))
    return _overrides[name, fields]


def possible(ranks: Sequence[int]) -> bool:
    """Whether one deck has these ranks."""
    return Counter(ranks) <= _COPIES


def check_hands(name: str, texts: Sequence[str]) -> list[Cards]:
    """Cards of one deck for the rank strings of hands, the lowest that are free; Malformed when it has not as many."""
    given = [parse_ranks(text) for text in texts]
    if not possible([rank for ranks in given for rank in ranks]):
        raise Malformed(Reason.MALFORMED, f"{name} has more cards of a rank than one deck", field=name)
    if any(len(ranks) > _MAX_HAND for ranks in given):
        raise Malformed(Reason.MALFORMED, f"a hand has at most {_MAX_HAND} cards", field=name)
    free: dict[int, list[int]] = {}
    for card in reversed(DECK):
        free.setdefault(rank_of(card), []).append(card)
    return [tuple(sorted(free[rank].pop() for rank in ranks)) for ranks in given]


def check_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(name, f"a string, not {shown(value)}")
    if not value.isascii():
        raise wrong(name, f"ASCII, not {shown(value)}")
    return value


def check_integer(name: str, value: object, least: int = 0, greatest: int | None = None) -> int:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < least
        or (greatest is not None and value > greatest)
    ):
        limits = f"from {least} to {greatest}" if greatest is not None else f"of at least {least}"
        raise wrong(name, f"a whole number {limits}, not {shown(value)}")
    return value


def check_hex(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise wrong(name, "hexadecimal digits")
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise wrong(name, "hexadecimal digits, two for a byte") from None
