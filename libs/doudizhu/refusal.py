"""Why the rules refuse an action.

    Refusal               what a caller did wrong; the state is unchanged
    ├── Malformed         it is not cards, not a rank, not a seat: no rule was even asked
    ├── Illegal           the rules forbid it here and now
    └── Ambiguous         it can be read in several ways, and none of them is the one that was named

A bug of ours is never a Refusal: it is an AssertionError.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A typed reason, spelled like its twin in proto/ddz/common/v1/common.proto without the prefix."""

    INVALID = "INVALID"
    MALFORMED = "MALFORMED"
    NOT_YOUR_TURN = "NOT_YOUR_TURN"
    WRONG_PHASE = "WRONG_PHASE"
    ILLEGAL_COMBO = "ILLEGAL_COMBO"
    AMBIGUOUS_COMBO = "AMBIGUOUS_COMBO"
    DOES_NOT_BEAT = "DOES_NOT_BEAT"
    CARD_NOT_HELD = "CARD_NOT_HELD"
    DUPLICATE_CARD = "DUPLICATE_CARD"
    INVALID_PASS = "INVALID_PASS"
    BID_TOO_LOW = "BID_TOO_LOW"
    ROB_NOT_ALLOWED = "ROB_NOT_ALLOWED"
    SHOW_NOT_ALLOWED = "SHOW_NOT_ALLOWED"
    BOMB_LIMIT = "BOMB_LIMIT"
    HAND_OVER = "HAND_OVER"


class Refusal(Exception):
    """A caller's mistake: a reason for programs, one sentence for people, and data.

    `reason` is a Reason of common.proto without its prefix: a member of Reason above, or of a service's own StrEnum.
    `field` names the offending field when one is to blame. `data` holds short strings, never a hidden card.
    """

    def __init__(self, reason: str, message: str, *, field: str = "", **data: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.data = {name: str(value) for name, value in data.items()}

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"

    def anew(self) -> Self:
        """An equal one that nobody has raised: one that is kept would keep all the frames that it has gone through."""
        same = type(self).__new__(type(self), *self.args)  # a subclass may be made of other things
        same.__dict__.update(self.__dict__)
        return same


class Malformed(Refusal):
    """No rule was asked: the input is not what it claims to be."""


class Illegal(Refusal):
    """The rules forbid it here and now."""


class Ambiguous(Refusal):
    """Several readings, none of them the one that was named."""
