"""The queue as its rules say it, slowly: what the scripts are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from services.matchmaking.queue import Strength, fits


@dataclass(frozen=True)
class Waiting:
    """A ticket that waits."""

    ticket_id: str
    joined_ms: int
    strength: Strength


def three_for(one: Waiting, others: list[Waiting], now_ms: int) -> list[Waiting] | None:
    """The oldest two that suit `one`: first the oldest possible first, then the oldest second."""
    by_age = sorted((other for other in others if other != one), key=_age)
    for index, first in enumerate(by_age):
        for second in by_age[index + 1 :]:
            three = [one, first, second]
            oldest = min(ticket.joined_ms for ticket in three)
            if fits([ticket.strength for ticket in three], now_ms - oldest):
                return three
    return None


def _age(ticket: Waiting) -> str:
    """By arrival; the order of those who came in one millisecond is as good as any, but the scripts' own."""
    return f"{ticket.joined_ms:015}|{ticket.strength.near}|{ticket.strength.also}|{ticket.ticket_id}"
