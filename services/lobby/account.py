"""Accounts: names that are fit to be shown, and names to log in by."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from doudizhu.refusal import Refusal

GREATEST_NAME_LENGTH: Final = 16
GUEST_NAME: Final = "游客"  # and his number, until he chooses a name
BOT_KEY_PREFIX: Final = "bot:"

# Unicode general categories: letters, numbers, marks, punctuation, symbols, and the plain space.
_SHOWN: Final = ("L", "N", "M", "P", "S", "Zs")
# Of those what is blank or seen by its neighbours alone: fillers, the empty braille cell, variation selectors.
_HIDDEN: Final = frozenset(
    "\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0\ufffc\U00016fe4\U0001d159"
) | {chr(code) for selectors in (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)) for code in selectors}
_AS_EMOJI: Final = "\ufe0f"  # is seen on a symbol, and in a keycap
_KEYCAP: Final = "\u20e3"
_GREATEST_MARKS_IN_A_ROW: Final = 2
_LOGIN_EXTRA: Final = "._-"


class Reason(StrEnum):
    """Why the lobby refuses, spelled as in common.proto."""

    INVALID = "INVALID"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    BAD_CREDENTIALS = "BAD_CREDENTIALS"
    NAME_TAKEN = "NAME_TAKEN"
    RATE_LIMITED = "RATE_LIMITED"
    LIMIT_REACHED = "LIMIT_REACHED"
    OVERLOADED = "OVERLOADED"
    UNAVAILABLE = "UNAVAILABLE"
    DRAINING = "DRAINING"
    KEY_CONFLICT = "KEY_CONFLICT"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    ABOVE_MAXIMUM = "ABOVE_MAXIMUM"
    ALREADY_SEATED = "ALREADY_SEATED"
    TABLE_CLOSED = "TABLE_CLOSED"


@dataclass(frozen=True, slots=True)
class Account:
    """A person or a bot. `number` counts accounts from 1; `granted`: the sign-up chips have been given."""

    number: int
    display_name: str
    avatar_id: int
    bot: bool
    granted: bool
    created_at_ms: int
    operator: bool = False
    muted_until_ms: int = 0  # milliseconds since the epoch, as the next
    banned_until_ms: int = 0

    @property
    def player_id(self) -> str:
        return player_id(self.number)


def ends_at_ms(until_ms: int, now_ms: int) -> int:
    """When a mute or a ban ends, in milliseconds since the epoch; raises Refusal INVALID for a time that is past."""
    if until_ms <= now_ms:
        raise Refusal(Reason.INVALID, "The end must lie in the future.", field="until_ms")
    return until_ms


def require_own_name(account: Account, now_ms: int) -> None:
    """Raises Refusal FORBIDDEN for who is muted: his name is not his to change."""
    if account.muted_until_ms > now_ms:
        words = "You are muted, so your name cannot be changed."
        raise Refusal(Reason.FORBIDDEN, words, field="display_name", until_ms=account.muted_until_ms)


def player_id(number: int) -> str:
    """The id of an account everywhere outside the lobby."""
    return f"p{number}"


def number_of(player_id: str) -> int:
    """The account's number; raises Refusal NOT_FOUND for what is no player's id, such as another spelling of one."""
    digits = player_id.removeprefix("p")
    is_number = digits.isascii() and digits.isdecimal() and not digits.startswith("0")
    if digits == player_id or not is_number or len(digits) > 18:
        raise Refusal(Reason.NOT_FOUND, "There is no such player.", field="player_id")
    return int(digits)


def display_name(text: str) -> str:
    """The name as it is kept: NFKC, single spaces, 1 to 16 characters.

    Raises Refusal INVALID for characters that hide, reorder or run over other text or are not seen themselves, and for
    names without a letter, number or symbol.
    """
    name = " ".join(unicodedata.normalize("NFKC", text).split(" ")).strip()
    name = " ".join(part for part in name.split(" ") if part)
    if not 1 <= len(name) <= GREATEST_NAME_LENGTH:
        raise _bad_name(f"must have 1 to {GREATEST_NAME_LENGTH} characters")
    looked_at = name.replace(_AS_EMOJI + _KEYCAP, _KEYCAP)
    if not all(_is_seen(character, before) for before, character in pairwise(f" {looked_at}")):
        raise _bad_name("has a character that cannot be shown")
    marks = 0
    for character in name:
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if marks > _GREATEST_MARKS_IN_A_ROW:
            raise _bad_name("has too many accents on one letter")
    if unicodedata.category(name[0]).startswith("M"):
        raise _bad_name("begins with an accent without a letter")
    if not any(unicodedata.category(character)[0] in "LNS" for character in name):
        raise _bad_name("needs a letter, a number or a symbol")
    return name


def login_name(text: str) -> str:
    """The key of an account with a password: two spellings that look alike by case or width are one name.

    Raises Refusal INVALID unless it is 2 to 32 letters, digits, '.', '_' or '-'.
    """
    name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.strip()).casefold())
    fits = all(unicodedata.category(c)[0] in "LN" or c in _LOGIN_EXTRA for c in name)
    if not 2 <= len(name) <= 32 or not fits:
        raise Refusal(Reason.INVALID, "A name to log in by is 2 to 32 letters, digits, '.', '_' or '-'.", field="name")
    return name


def _is_seen(character: str, before: str) -> bool:
    """Whether a character can be shown and is seen next to the one before it."""
    if character == _AS_EMOJI and unicodedata.category(before) == "So":
        return True
    return unicodedata.category(character).startswith(_SHOWN) and character not in _HIDDEN


def _bad_name(what: str) -> Refusal:
    return Refusal(Reason.INVALID, f"The display name {what}.", field="display_name")
