"""What is counted of tables. Only the node that has appended an event counts it, so that sums over nodes are right."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Counted
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from doudizhu.hand import (
    BidMade,
    CallMade,
    Fled,
    Passed,
    Played,
    Redealing,
    RobMade,
    ShowDeclined,
    Shown,
    Side,
    Voided,
    Won,
)
from doudizhu.rulebook import BOOKS
from services.table import events
from services.table.table import Stage, Table, Trustee
from services.table.terms import Reason

if TYPE_CHECKING:
    from services.table.actor import Actor

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

ACTIONS: Final = Counter("ddz_table_actions", "What was done at tables, by kind and by who did it", ["kind", "by"])
DURABLE_SECONDS: Final = Histogram(
    "ddz_table_durable_seconds", "From a person's command to its events in the log", buckets=_SECONDS
)
PUSHED_SECONDS: Final = Histogram(
    "ddz_table_pushed_seconds", "From a person's command to its events on their way to everybody", buckets=_SECONDS
)
HANDS: Final = Counter("ddz_table_hands", "Hands that have ended, by book and result", ["book", "result"])
REDEALS: Final = Counter("ddz_table_redeals", "Deals in which nobody wanted to be the landlord", ["book"])
MULTIPLIER: Final = Histogram(
    "ddz_table_multiplier",
    "Multipliers of hands that were won or fled",
    ["book"],
    buckets=(1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024),
)
EXTENDED: Final = Counter("ddz_table_clocks_extended", "Clocks that got more time since nobody could act")
TAKEN_UP: Final = Counter("ddz_table_taken_up", "Tables whose deadline passed unseen, looked after by this node")
GOODBYES: Final = Counter("ddz_table_goodbyes", "Streams that have ended, by why", ["why"])

# What a node without streams has in memory may be long past: other nodes go on, and it is not told.
TABLES: Final = Gauge("ddz_tables", "Tables with somebody connected to this node, by stage", ["stage"])
HELD: Final = Gauge("ddz_table_held", "Tables that this node holds in memory, others' among them for a while")
SEATS: Final = Gauge("ddz_table_seats", "Seats whose player is connected to this node")
OBSERVERS: Final = Gauge("ddz_table_observers", "Observers who are connected to this node")
BACKLOG: Final = Gauge("ddz_table_backlog", "Frames that wait for the network, of all streams")
MAILBOX: Final = Gauge("ddz_table_mailbox", "Requests that wait for their turn at a table")

# Looking a series up by its labels costs more than writing to it; and a series that exists from the start shows 0.
_BY_A_SEAT: Final = (Played, Passed, BidMade, CallMade, RobMade, Shown, ShowDeclined)
_MOVES: Final[dict[type, dict[str, Counter]]] = {
    kind: {by: ACTIONS.labels(name, by) for by in ("player", "clock", "trustee")}
    for kind, name in {
        Played: "play", Passed: "pass", BidMade: "bid", CallMade: "call", RobMade: "rob", Shown: "show",
        ShowDeclined: "show_declined",
    }.items()
}  # fmt: skip
_SEAT: Final = {
    kind: ACTIONS.labels(name, "player")
    for kind, name in {
        events.SeatTaken: "sit", events.BaseSet: "base", events.BaseAnswered: "base_answer", events.ReadySet: "ready",
        events.SeedGiven: "seed", events.CardsAllowed: "allow_observers", events.ObserverJoined: "observe",
    }.items()
}  # fmt: skip
_LEFT: Final = {by: ACTIONS.labels("leave", by) for by in ("player", "clock", "table")}
_TRUSTEE: Final = {by: ACTIONS.labels("trustee", by) for by in ("player", "clock")}
# What comes once a hand is looked up then: an operator's own book is known when it is played.
for _book in BOOKS:
    REDEALS.labels(_book)
    MULTIPLIER.labels(_book)
    for _result in ("landlord", "farmers", "fled", "voided", "passed"):
        HANDS.labels(_book, _result)
_TABLES: Final = {stage: TABLES.labels(stage) for stage in Stage}
for _why in ("done", "gone", "left", "closed", "replaced", "slow", "drain", "expired", "malformed", "fault", "lost"):
    GOODBYES.labels(_why)


def count(before: Table, stamped: Iterable[events.Stamped]) -> None:
    """Counts what this node has just appended to the log of a table."""
    book = before.terms.book_id
    for one in stamped:
        event = one.event
        if isinstance(event, events.Move):
            inner = event.event
            if isinstance(inner, _BY_A_SEAT):
                _MOVES[type(inner)][_author(before, inner.seat, event.by_trustee)].inc()
            else:
                _count_end(book, event)
        elif (known := _SEAT.get(type(event))) is not None:
            known.inc()
        else:
            _count_seldom(book, event)


def _author(before: Table, seat: int, by_trustee: bool) -> str:
    """Who made a move: the player, or the server since the clock ran out or since a trustee plays for the seat."""
    if not by_trustee:
        return "player"
    return "clock" if before.seats[seat].trustee is None else "trustee"


def _count_end(book: str, move: events.Move) -> None:
    event = move.event
    if isinstance(event, Won | Fled):
        assert move.outcome is not None
        fled, winner = isinstance(event, Fled), move.outcome.winner
        HANDS.labels(book, "fled" if fled else "landlord" if winner is Side.LANDLORD else "farmers").inc()
        MULTIPLIER.labels(book).observe(move.outcome.multiplier)
    elif isinstance(event, Redealing):
        REDEALS.labels(book).inc()
    elif isinstance(event, Voided):
        REDEALS.labels(book).inc()
        HANDS.labels(book, "passed").inc()


def _count_seldom(book: str, event: events.Event) -> None:
    if isinstance(event, events.HandVoided):
        HANDS.labels(book, "voided").inc()
    elif isinstance(event, events.SeatLeft):
        _LEFT["clock" if event.reason == Reason.TIMED_OUT else "table" if event.reason else "player"].inc()
    elif isinstance(event, events.TrusteeSet):
        _TRUSTEE["player" if event.why in (None, Trustee.CHOICE) else "clock"].inc()
    elif isinstance(event, events.ClockExtended):
        EXTENDED.inc()


def ended(why: str) -> None:
    """Counts the end of a stream; `why` as its goodbye said, empty when it got none."""
    GOODBYES.labels(why or "lost").inc()


def time_command(asked_at_s: float, durable_at_s: float) -> None:
    """A person's command is in the log and pushed to the streams; times of the performance counter, in seconds."""
    DURABLE_SECONDS.observe(durable_at_s - asked_at_s)
    # The streams that were told wake up before this, and hand their frames to the network.
    asyncio.get_running_loop().call_soon(_pushed, asked_at_s)


def _pushed(asked_at_s: float) -> None:
    PUSHED_SECONDS.observe(time.perf_counter() - asked_at_s)


def seats(actors: Iterable[Actor], here: str) -> int:
    """How many seated players have their stream on the node whose streams' names begin with `here`."""
    tables = [actor.table for actor in actors if actor.table is not None]
    return sum(seat.connection.startswith(here) for table in tables for seat in table.seats)


class Stock:
    """What there is on this node now: `take` table by table, then `tell` as metrics.

    A seat and an observer are of the node of their stream; the names of those begin with `here`.
    """

    def __init__(self, here: str) -> None:
        self._here = here
        self._found: Counted[Gauge] = Counted()
        self._stages: Counted[Stage] = Counted()

    def take(self, actor: Actor) -> None:
        """Adds a table that the node holds."""
        streams, table = actor.audience.streams, actor.table
        self._found[HELD] += 1
        self._found[SEATS] += seats([actor], self._here)
        self._found[MAILBOX] += len(actor.mailbox)
        self._found[BACKLOG] += sum(stream.behind for stream in streams)
        if table is not None:
            self._found[OBSERVERS] += sum(one.connection.startswith(self._here) for one in table.observers)
            if streams:
                self._stages[table.stage] += 1

    def tell(self) -> None:
        """Sets the metrics."""
        for gauge in (HELD, MAILBOX, BACKLOG, SEATS, OBSERVERS):
            gauge.set(self._found[gauge])
        for stage, gauge in _TABLES.items():
            gauge.set(self._stages[stage])
