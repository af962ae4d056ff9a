"""How long a table has to wait before it does something by itself: from its terms and its events' times alone.

None of the code that sets deadlines has a say in it (services/table/clocks.py). Times are milliseconds since the epoch,
as the log has them.
"""

from __future__ import annotations

from typing import Final

from doudizhu import Hand
from doudizhu.hand import (
    BidMade,
    CallMade,
    Dealt,
    Passed,
    Phase,
    Played,
    RobMade,
    ShowDeclined,
    Shown,
    ShowWindowClosed,
)
from doudizhu.turn import SEATS
from services.table import events
from services.table.table import Trustee
from services.table.terms import Clocks

_MISSES: Final = 2  # time-outs in a row turn the trustee on (D-06)
_ACTS: Final = (BidMade, CallMade, RobMade, Shown, ShowDeclined, Played, Passed)
_AUCTION: Final = frozenset((Phase.BID, Phase.CALL, Phase.ROB))


class Waits:
    """`early` judges an event before `take` takes it in."""

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._turn_ms = 0  # since when the hand waits for what it waits for
        self._committed_ms = 0
        self._countdown_ms: int | None = None
        self._grace_ms = 0  # everybody has been given time until then
        self._seeded: set[int] = set()
        self._trustee_ms: dict[int, int] = {}  # since when the server plays for a seat
        self._misses = [0, 0, 0]

    def early(self, one: events.Stamped, hand: Hand | None) -> str:
        """What came before its time; empty when nothing did. `hand` is the hand before the event."""
        due_ms = self._due_ms(one.event, hand)
        if due_ms is not None and one.at_ms < max(due_ms, self._grace_ms):
            return f"event {one.seq} acts {max(due_ms, self._grace_ms) - one.at_ms} ms before its deadline"
        if isinstance(one.event, events.TrusteeSet) and one.event.why is Trustee.MISSES:
            misses = self._misses[one.event.seat]
            return f"event {one.seq} brings a trustee after {misses} time-outs" if misses < _MISSES else ""
        return ""

    def _due_ms(self, event: events.Event, hand: Hand | None) -> int | None:
        """When an event may come by itself; None when somebody's act, or nobody, is waited for."""
        match event:
            case events.HandOpening() | events.CountdownEnded() if self._countdown_ms is not None:
                return self._countdown_ms + self._clocks.countdown_ms
            case events.Move(Dealt()):
                settled = all(seat in self._seeded or seat in self._trustee_ms for seat in SEATS)
                return None if settled or not self._clocks.seed_ms else self._committed_ms + self._clocks.seed_ms
            case events.Move(ShowWindowClosed()):
                assert hand is not None
                return None if len(hand.shown) == len(SEATS) else self._turn_ms + self._clocks.show_window_ms
            case events.Move(by_trustee=True):
                assert hand is not None
                return self._turn_due_ms(hand)
        return None

    def _turn_due_ms(self, hand: Hand) -> int:
        clocks, seat = self._clocks, hand.turn
        assert seat is not None
        if hand.phase in _AUCTION:
            wait_ms = clocks.auction_ms
        elif hand.phase is Phase.SHOW:
            wait_ms = clocks.show_ms
        else:
            wait_ms = clocks.play_ms if any(hand.combos_by_seat) else clocks.first_lead_ms
        due_ms = self._turn_ms + wait_ms
        if seat in self._trustee_ms:
            due_ms = min(due_ms, max(self._turn_ms, self._trustee_ms[seat]) + clocks.trustee_ms)
        return due_ms

    def take(self, one: events.Stamped, before: Hand | None, after: Hand | None) -> None:
        """One more event, and the hand before and after it."""
        match one.event:
            case events.Move():
                self._move(one.event, one.at_ms, before, after)
            case events.Opened(terms):
                self._clocks = terms.clocks
            case events.Committed():
                self._committed_ms, self._seeded = one.at_ms, set()
            case events.SeedGiven(seat):
                self._seeded.add(seat)
            case events.CountdownStarted():
                self._countdown_ms = one.at_ms
            case events.CountdownEnded():
                self._countdown_ms = None
            case events.HandOpening():
                self._countdown_ms, self._grace_ms = None, 0
            case events.BaseAsked() | events.BaseSet():
                self._grace_ms = 0
            case events.ClockExtended(until_ms):
                self._grace_ms = until_ms
            case events.TrusteeSet(seat, why):
                self._trustee_ms.pop(seat, None)
                if why is not None:
                    self._trustee_ms[seat] = one.at_ms
            case events.SeatTaken(seat) | events.SeatLeft(seat):
                self._trustee_ms.pop(seat, None)
                self._misses[seat] = 0
            case events.PresenceSet(seat, connected=True):
                self._misses[seat] = 0

    def _move(self, move: events.Move, at_ms: int, before: Hand | None, after: Hand | None) -> None:
        assert before is not None
        assert after is not None
        self._grace_ms = 0
        if not isinstance(move.event, Shown) or after.phase is not before.phase:
            self._turn_ms = at_ms  # a show leaves the clock of the window or of the lead alone
        if not isinstance(move.event, _ACTS):  # what follows on an act is none
            return
        seat = move.event.seat
        if not move.by_trustee:
            self._misses[seat] = 0
        elif seat not in self._trustee_ms:
            self._misses[seat] += 1
