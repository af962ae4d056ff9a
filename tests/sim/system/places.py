"""Who has which place at a table, and whose cards he may see, told from the log's events alone.

None of the code that decides what is sent has a say in it (services/table/views.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from doudizhu.turn import SEATS, with_seat
from services.table import events

_NOBODY: Final = ("", "", "")


@dataclass(frozen=True, slots=True)
class Places:
    """Persons by seat, now and when the hand was opened; who watches which seat; the seats that give leave to it."""

    sits: tuple[str, str, str] = _NOBODY
    plays: tuple[str, str, str] = _NOBODY
    watches: tuple[tuple[str, int], ...] = ()
    leave: frozenset[int] = frozenset()

    def after(self, event: events.Event) -> Places:
        """The places after one more event."""
        match event:
            case events.SeatTaken(seat, person):
                return self._seat(seat, person.player_id)
            case events.SeatLeft(seat):
                return self._seat(seat, "")
            case events.HandOpening():
                return replace(self, plays=self.sits)
            case events.ObserverJoined(observer, seat):
                return replace(self, watches=(*self._others(observer.player_id), (observer.player_id, seat)))
            case events.ObserverLeft(player_id):
                return replace(self, watches=self._others(player_id))
            case events.CardsAllowed(seat, allow):
                return replace(self, leave=self.leave | {seat} if allow else self.leave - {seat})
        return self

    def sees(self, player_id: str) -> list[int]:
        """The seats whose cards this person may know: the one that he plays, or has played, this hand on; and the one
        that he watches, if who plays there gives leave. Whoever sits there since has no part in its cards.
        """
        watched = [seat for watcher, seat in self.watches if watcher == player_id]
        return [
            seat
            for seat in SEATS
            if self.plays[seat] == player_id
            or (seat in watched and seat in self.leave and self.plays[seat] == self.sits[seat])
        ]

    def _seat(self, seat: int, player_id: str) -> Places:
        """A seat is another's: the leave of who sat there goes with him."""
        return replace(self, sits=with_seat(self.sits, seat, player_id), leave=self.leave - {seat})

    def _others(self, player_id: str) -> tuple[tuple[str, int], ...]:
        return tuple(one for one in self.watches if one[0] != player_id)
