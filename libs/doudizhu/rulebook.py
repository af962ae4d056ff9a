"""The rule books as data: every field cites its section of RULES.md, and the engine branches on fields only.

A fourth book is a RuleBook value like these three, made from a file (`load`, `dump`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from doudizhu.refusal import Malformed, Reason

Auction = Literal["bid", "bid_rob", "call_rob"]
AllPass = Literal["void", "void_redeal", "redeal"]


@dataclass(frozen=True, slots=True)
class RuleBook:
    """One book. The comment of each field is its source."""

    id: str
    # Combos (3)
    ace_low_chains: bool  # A2345, AA2233, AAA222; 2 in chains
    wing_from_body: bool  # D-01
    wings_repeat: bool  # D-01
    rocket_as_wings: bool  # D-01
    quad_as_two_pairs: bool  # D-01
    four_kickers: tuple[str, ...]  # D-01: single, two_singles, two_pairs, single_pair
    fours_compare_across: bool  # S0 1.7.2, last line on type 11
    # How many bombs and rockets a farmer may play by his bid (S0 1.6.1): not reached, pass, 1, 2; None = unlimited.
    bomb_allowance: tuple[int | None, int | None, int | None, int | None]
    # Deal (5) and auction (6)
    marked_card: bool
    auction: Auction
    all_pass: AllPass
    max_redeals: int  # D-08: the carried factor is at most redeal_factor ** max_redeals
    show_window: bool  # 5, 7: anybody may show after the deal
    landlord_shows: bool  # 7
    # Multiplier (9); 1 = does not multiply
    redeal_factor: int
    marked_joker_factor: int
    rob_factor: int
    show_factor: int
    bomb_factor: int
    rocket_factor: int  # D-14
    spring_factor: int
    anti_spring_factor: int  # D-15
    # Settlement (10)
    shortage: Literal["equal", "proportional"]
    winner_bounded: bool  # D-10
    rake: bool
    flee_rob_factors: bool  # a fleeing farmer pays the rob factors too
    flee_whole_bombs: bool  # bombs still whole in the hands double a flee
    early_flee_s: int  # before this many seconds a flee pays the system; 0 = never
    rated: bool
    # Table life (4)
    negotiated_base: bool
    minimum_bases: int  # `classic`: 3 x base to sit; 0 = the room's minimum alone
    ready_to_start: bool
    countdown_after_void: bool


CLASSIC: Final = RuleBook(
    id="classic",
    ace_low_chains=True,
    wing_from_body=False,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("two_singles", "two_pairs", "single_pair"),
    fours_compare_across=True,
    bomb_allowance=(None, None, None, None),
    marked_card=True,
    auction="bid_rob",
    all_pass="void_redeal",
    max_redeals=6,
    show_window=False,
    landlord_shows=True,
    redeal_factor=2,
    marked_joker_factor=2,
    rob_factor=2,
    show_factor=2,
    bomb_factor=1,
    rocket_factor=1,
    spring_factor=1,
    anti_spring_factor=1,
    shortage="equal",
    winner_bounded=False,
    rake=False,
    flee_rob_factors=False,
    flee_whole_bombs=False,
    early_flee_s=0,
    rated=False,
    negotiated_base=True,
    minimum_bases=3,
    ready_to_start=False,
    countdown_after_void=True,
)

HAPPY: Final = RuleBook(
    id="happy",
    ace_low_chains=False,
    wing_from_body=True,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("single", "two_singles", "two_pairs"),
    fours_compare_across=False,
    bomb_allowance=(None, None, None, None),
    marked_card=False,
    auction="bid",
    all_pass="void",
    max_redeals=0,
    show_window=False,
    landlord_shows=False,
    redeal_factor=1,
    marked_joker_factor=1,
    rob_factor=1,
    show_factor=1,
    bomb_factor=2,
    rocket_factor=2,
    spring_factor=2,
    anti_spring_factor=2,
    shortage="equal",
    winner_bounded=False,
    rake=False,
    flee_rob_factors=True,
    flee_whole_bombs=False,
    early_flee_s=60,
    rated=False,
    negotiated_base=False,
    minimum_bases=0,
    ready_to_start=True,
    countdown_after_void=False,
)

ROB: Final = RuleBook(
    id="rob",
    ace_low_chains=False,
    wing_from_body=False,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("two_singles", "two_pairs"),
    fours_compare_across=False,
    bomb_allowance=(None, None, None, None),
    marked_card=False,
    auction="call_rob",
    all_pass="redeal",
    max_redeals=0,
    show_window=True,
    landlord_shows=True,
    redeal_factor=1,
    marked_joker_factor=1,
    rob_factor=2,
    show_factor=3,
    bomb_factor=2,
    rocket_factor=2,
    spring_factor=2,
    anti_spring_factor=2,
    shortage="proportional",
    winner_bounded=True,
    rake=True,
    flee_rob_factors=True,
    flee_whole_bombs=True,
    early_flee_s=0,
    rated=True,
    negotiated_base=False,
    minimum_bases=0,
    ready_to_start=False,
    countdown_after_void=False,
)

BOOKS: Final = {book.id: book for book in (CLASSIC, HAPPY, ROB)}

GREATEST_INT64: Final = 2**63 - 1
_RANKS_WITH_BOMB: Final = 13


def greatest_multiplier(book: RuleBook, initial_multiplier: int = 1) -> int:
    """An upper bound of the multiplier of any hand (section 9), flee multipliers included.

    Three robs, every possible show, thirteen bombs and the rocket, the larger spring: no hand holds all of them
    at once, so that the bound is safe rather than tight.
    """
    robs = 0 if book.auction == "bid" else 3
    shows = 3 if book.show_window else int(book.landlord_shows)
    greatest: int = (
        initial_multiplier
        * book.redeal_factor**book.max_redeals
        * (book.marked_joker_factor if book.marked_card else 1)
        * book.rob_factor**robs
        * book.show_factor**shows
        * book.bomb_factor**_RANKS_WITH_BOMB
        * book.rocket_factor
        * max(book.spring_factor, book.anti_spring_factor)
    )
    return greatest


def fits_int64(book: RuleBook, base_chips: int, initial_multiplier: int = 1) -> bool:
    """Whether base x level x multiplier x 3 of any hand fits a signed 64-bit integer (section 9)."""
    level = 1 if book.auction == "call_rob" else 3
    return base_chips * level * greatest_multiplier(book, initial_multiplier) * 3 <= GREATEST_INT64


# ---- books from a file --------------------------------------------------------------------------------------------

FOUR_KICKERS: Final = ("single", "two_singles", "two_pairs", "single_pair")
_ID: Final = re.compile("[a-z][a-z0-9_-]{0,31}")
_TYPES: Final = get_type_hints(RuleBook)
_FACTOR_RANGE: Final = (1, 100)
_RANGES: Final = {
    "max_redeals": (0, 20),
    "early_flee_s": (0, 86_400),
    "minimum_bases": (0, 1_000),
    **{name: _FACTOR_RANGE for name in _TYPES if name.endswith("_factor")},
}


def load(source: Mapping[str, object] | str | bytes) -> RuleBook:
    """A rule book from all of its fields: a mapping, or the JSON text of one (`dump` writes it).

    Raises Malformed, naming the field, when one is missing, unknown, of another type or out of its range.
    """
    fields = _parse(source, "book") if isinstance(source, str | bytes) else source
    if unknown := sorted(set(fields) - set(_TYPES)):
        raise _wrong(unknown[0], "is not a field of a rule book")
    if missing := [name for name in _TYPES if name not in fields]:
        raise _wrong(missing[0], "is missing")
    values: dict[str, Any] = {name: _checked(name, fields[name]) for name in _TYPES}
    return RuleBook(**values)


def override(book: RuleBook, fields: Mapping[str, object]) -> RuleBook:
    """The book with some fields replaced; raises Malformed like `load`."""
    return load({**dump(book), **fields})


@lru_cache(maxsize=1024)
def book_of(book_id: str, fields_json: str = "") -> RuleBook:
    """The book that a room plays by: a known one with the fields it overrides, or one given whole.

    `fields_json`: the JSON text of a mapping, or empty. Raises Malformed that names the field: `book` for an id that
    is unknown and comes without fields, `book_fields_json` for what is no mapping, else as `load`.
    """
    fields: Mapping[str, object] = {}
    if fields_json:
        fields = _parse(fields_json, "book_fields_json")
    known = BOOKS.get(book_id)
    if known is not None:
        return override(known, fields) if fields else known
    if not fields:
        raise Malformed(Reason.INVALID, f"there is no rule book {book_id!r}", field="book")
    return load({"id": book_id, **fields})


def dump(book: RuleBook) -> dict[str, object]:
    """All fields as plain JSON values, in the order of RULES.md: what `load` reads."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(book).items()}


def _parse(text: str | bytes, field: str) -> Mapping[str, object]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, a number of thousands of digits, nested too deeply
        raise Malformed(Reason.INVALID, "a rule book is a JSON object; this text is not JSON", field=field) from None
    if not isinstance(fields, dict):
        raise Malformed(Reason.INVALID, "a rule book is a JSON object", field=field)
    return fields


def _checked(name: str, value: object) -> object:
    """The value as RuleBook keeps it (lists become tuples)."""
    if name == "id":
        if not isinstance(value, str) or not _ID.fullmatch(value):
            raise _wrong(name, f"must be 1 to 32 of a-z, 0-9, _ and -, a letter first, not {value!r}")
    elif name == "four_kickers":
        return _checked_kickers(value)
    elif name == "bomb_allowance":
        return _checked_allowance(value)
    elif _TYPES[name] is bool:
        if not isinstance(value, bool):
            raise _wrong(name, f"must be true or false, not {value!r}")
    elif _TYPES[name] is int:
        least, greatest = _RANGES[name]
        if not _is_int(value, least, greatest):
            raise _wrong(name, f"must be a whole number from {least} to {greatest}, not {value!r}")
    else:
        assert get_origin(_TYPES[name]) is Literal, name
        choices = get_args(_TYPES[name])
        if value not in choices:
            raise _wrong(name, f"must be one of {', '.join(choices)}, not {value!r}")
    return value


def _checked_kickers(value: object) -> tuple[str, ...]:
    """Kept in the order of RULES.md, so that equal books compare equal."""
    if (
        not isinstance(value, list | tuple)
        or any(kickers not in FOUR_KICKERS for kickers in value)
        or any(value.count(kickers) > 1 for kickers in value)
    ):
        raise _wrong("four_kickers", f"must be a list of {', '.join(FOUR_KICKERS)}, each at most once, not {value!r}")
    return tuple(kickers for kickers in FOUR_KICKERS if kickers in value)


def _checked_allowance(value: object) -> tuple[int | None, ...]:
    if (
        not isinstance(value, list | tuple)
        or len(value) != 4
        or any(bombs is not None and not _is_int(bombs, 0, 14) for bombs in value)
    ):
        raise _wrong("bomb_allowance", f"must be four of null (no limit) or 0 to 14, not {value!r}")
    return tuple(value)


def _is_int(value: object, least: int, greatest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest


def _wrong(name: str, what: str) -> Malformed:
    return Malformed(Reason.INVALID, f"{name} {what}", field=name)
