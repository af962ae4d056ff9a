"""What a table plays for, by which book, at which pace (RULES.md sections 1, 4 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from doudizhu import Malformed, book_of, fits_int64
from doudizhu.refusal import Reason as RuleReason


class Reason(StrEnum):
    """Why the table refuses, besides the reasons of the rules; spelled like common.proto without the prefix."""

    NOT_A_PLAYER = "NOT_A_PLAYER"
    NOT_FOUND = "NOT_FOUND"
    ROOM_FULL = "ROOM_FULL"
    SEAT_TAKEN = "SEAT_TAKEN"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    BASE_OUT_OF_BOUNDS = "BASE_OUT_OF_BOUNDS"
    BASE_DISAGREED = "BASE_DISAGREED"
    TIMED_OUT = "TIMED_OUT"
    ALREADY_SEATED = "ALREADY_SEATED"
    PLAYER_IN_HAND = "PLAYER_IN_HAND"
    TABLE_CLOSED = "TABLE_CLOSED"
    WRONG_PHASE = "WRONG_PHASE"
    NOT_YOUR_TURN = "NOT_YOUR_TURN"
    KEY_CONFLICT = "KEY_CONFLICT"
    RATE_LIMITED = "RATE_LIMITED"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the table, as the others see him."""

    player_id: str
    display_name: str = ""
    avatar_id: int = 0
    bot: bool = False


@dataclass(frozen=True, slots=True)
class Clocks:
    """How long each wait lasts, in milliseconds; the defaults are those of RULES.md section 4."""

    base_ms: int = 30_000
    agree_ms: int = 15_000
    auction_ms: int = 10_000
    show_window_ms: int = 3_000
    show_ms: int = 5_000
    first_lead_ms: int = 30_000
    play_ms: int = 20_000
    trustee_ms: int = 1_000
    countdown_ms: int = 7_000
    seed_ms: int = 1_000
    away_ms: int = 0  # a connection lost for that long is a flee; 0 = never (D-05)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a room. Equal bounds of the base: the room sets it; otherwise the table may agree on one."""

    room_id: str
    book_id: str
    base_min_chips: int
    base_max_chips: int
    clocks: Clocks
    initial_multiplier: int = 1
    rake_chips: int = 0
    minimum_chips: int = 0
    maximum_chips: int = 0
    book_fields_json: str = ""
    matched: bool = False


def check(terms: Terms) -> None:
    """Raises Malformed when the book is unknown or broken, the bounds are crossed, or a hand could overflow (9)."""
    book = book_of(terms.book_id, terms.book_fields_json)
    if terms.base_min_chips > terms.base_max_chips:
        raise Malformed(RuleReason.INVALID, "base_min_chips is above base_max_chips", field="terms.base_min_chips")
    if not fits_int64(book, terms.base_max_chips, terms.initial_multiplier):
        raise Malformed(
            RuleReason.INVALID,
            "base x level x multiplier x 3 could pass a signed 64-bit integer",
            field="terms.base_max_chips",
        )
