"""The queue's rules: who suits whom and for how long that is asked for, who sits where, and how long it may take."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why matchmaking refuses, spelled as in common.proto."""

    NOT_FOUND = "NOT_FOUND"
    TOO_LATE = "TOO_LATE"
    LIMIT_REACHED = "LIMIT_REACHED"
    ALREADY_SEATED = "ALREADY_SEATED"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    ABOVE_MAXIMUM = "ABOVE_MAXIMUM"
    UNAVAILABLE = "UNAVAILABLE"
    DRAINING = "DRAINING"


class State(StrEnum):
    """A ticket's life: waiting -> claimed -> matched; a claim that fails goes back to waiting."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    MATCHED = "matched"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


LIVE: Final = frozenset({State.WAITING, State.CLAIMED})


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in a room's queue. `position` counts from 1 while waiting, else 0; `table_id` is set once matched."""

    ticket_id: str
    room_id: str
    state: State
    joined_ms: int
    waited_ms: int
    position: int = 0
    estimate_ms: int = 0
    table_id: str = ""


@dataclass(frozen=True, slots=True)
class Strength:
    """Where a player stands, on logarithmic scales in thousandths of a doubling.

    Two players differ by `near`, the rating in rated rooms and else the chips, and by `also`, the chips in rated rooms.
    """

    near: int
    also: int


@dataclass(frozen=True, slots=True)
class Window:
    """From this age on a ticket takes others that differ by at most this much, in thousandths of a doubling."""

    age_ms: int
    near: int
    also: int


ANYBODY: Final = 10**6

# A three is made when it spreads no wider than the window of its oldest allows: at 30 s anybody, so no one starves.
WINDOWS: Final = (
    Window(0, 500, 2_000),
    Window(3_000, 1_000, 4_000),
    Window(6_000, 2_000, 8_000),
    Window(12_000, 4_000, 16_000),
    Window(20_000, 8_000, ANYBODY),
    Window(30_000, ANYBODY, ANYBODY),
)

# Added to a rating before the logarithm: below about this the difference of two ratings says little.
_RATING_FLOOR: Final = 100


def strength(chips: int, rating: int, *, rated: bool) -> Strength:
    """The place of a player with these chips and this rating, both at least 0."""
    wealth = round(1000 * math.log2(chips + 1))
    if not rated:
        return Strength(wealth, 0)
    return Strength(round(1000 * math.log2(rating + _RATING_FLOOR)), wealth)


def window(age_ms: int, windows: Sequence[Window] = WINDOWS) -> Window:
    """The window of a ticket of this age."""
    return [entry for entry in windows if entry.age_ms <= age_ms][-1]


def fits(three: Sequence[Strength], oldest_age_ms: int, windows: Sequence[Window] = WINDOWS) -> bool:
    """Whether three tickets may sit together: their spread is within the window of the oldest."""
    allowed = window(oldest_age_ms, windows)
    near, also = [one.near for one in three], [one.also for one in three]
    return max(near) - min(near) <= allowed.near and max(also) - min(also) <= allowed.also


def match_id(room_id: str, epoch: str, ticket_ids: Iterable[str]) -> str:
    """The id of a match and of its table: the same for the same three tickets, whoever computes it.

    `epoch` tells apart two lives of a queue whose memory was lost, as ticket numbers begin anew with it.
    """
    text = "|".join((room_id, epoch, *sorted(ticket_ids)))
    return "m" + hashlib.sha256(text.encode()).hexdigest()[:20]


def seat_order(match: str, player_ids: Iterable[str]) -> list[str]:
    """Players by seat: any order is as likely, and the same match always has the same."""
    return sorted(player_ids, key=lambda player: hashlib.sha256(f"{match}|{player}".encode()).digest())


def estimate_ms(usual_wait_ms: int, waited_ms: int) -> int:
    """How long a ticket may still wait, at least a second; 0 when nothing is known."""
    return max(usual_wait_ms - waited_ms, 1_000) if usual_wait_ms else 0


@dataclass(frozen=True, slots=True)
class RoomTerms:
    """What quick start asks of a room; `maximum_chips` 0 = no greatest."""

    room_id: str
    book: str
    minimum_chips: int
    maximum_chips: int
    base_chips: int


def best_room(rooms: Iterable[RoomTerms], chips: int) -> RoomTerms | None:
    """The room with the highest base that takes a player with these chips; of equals the first, None for none."""
    fitting = [
        room
        for room in rooms
        if chips >= room.minimum_chips and (not room.maximum_chips or chips <= room.maximum_chips)
    ]
    return max(fitting, key=lambda room: room.base_chips, default=None)
