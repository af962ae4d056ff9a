"""What one person may see of a table (RULES.md sections 5, 7 and D-03)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import doudizhu
from doudizhu import Hand
from doudizhu.hand import Dealt
from services.table import events
from services.table.table import Observer, Table


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person's place: `seat` is his own or the one he observes (None = neither), `sees` whose cards he may know."""

    seat: int | None
    observing: bool
    sees: int | None


NOBODY: Final = Viewer(None, False, None)


def viewer(table: Table, player_id: str) -> Viewer:
    """A player sees his cards; an observer those of his seat, if its player allows it.

    Whoever takes a seat after a hand, or observes it from then on, has no part in the cards that were played on it.
    """
    seat = table.seat_of(player_id)
    if seat is not None:
        return Viewer(seat, False, seat if _plays(table, seat) else None)
    observer = table.observer_of(player_id)
    return NOBODY if observer is None else _observing(table, observer)


def viewers(table: Table) -> dict[str, Viewer]:
    """The places of all who have one, by account: as `viewer` says of each."""
    found = {one.person.player_id: _observing(table, one) for one in table.observers}
    for number in table.seated:
        person = table.seats[number].person
        assert person is not None, "seated are those seats that somebody has"
        found[person.player_id] = Viewer(number, False, number if _plays(table, number) else None)
    return found


def _observing(table: Table, observer: Observer) -> Viewer:
    allowed = table.seats[observer.seat].observers_allowed and _plays(table, observer.seat)
    return Viewer(observer.seat, True, observer.seat if allowed else None)


def _plays(table: Table, number: int) -> bool:
    """Whether who sits there plays the hand, or has played it."""
    person = table.seats[number].person
    return not table.players or (person is not None and table.players[number].player_id == person.player_id)


def hand_for(table: Table, who: Viewer) -> Hand | None:
    """The hand as this person may know it."""
    return None if table.hand is None else doudizhu.view(table.hand, who.sees)


def is_public(event: events.Event) -> bool:
    """Whether everybody sees the event whole."""
    if isinstance(event, events.Move):
        return not isinstance(event.event, Dealt)
    return not isinstance(event, events.Committed | events.PresenceSet | events.ObserverPresenceSet)


def masked(event: events.Event, who: Viewer) -> events.Event:
    """The event without what this person may not know: cards, the server's seed, ids of connections."""
    if isinstance(event, events.Move):
        if not isinstance(event.event, Dealt):
            return event
        return replace(event, event=doudizhu.view_event(event.event, who.sees))
    if isinstance(event, events.Committed):
        return replace(event, server_seed=b"")
    if isinstance(event, events.PresenceSet | events.ObserverPresenceSet):
        return replace(event, connection="")
    return event
