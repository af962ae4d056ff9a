"""How long tables stood still after the death of their node, read from their logs.

A table goes on when a move, a phase or the end of a hand stands in its log. Who comes and goes, whom a trustee plays
for, who watches, and time that is given to everybody are no such thing. Its nodes are those that its players' streams
are at. When the node that they have come to dies too, the table has lost its node anew and its time begins again; a
table that nobody has come back to loses nothing by a death.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Phase

_STANDING: Final = frozenset(
    (
        "presence_set",
        "observer_presence_set",
        "observer_joined",
        "observer_left",
        "cards_allowed",
        "trustee_set",
        "leave_asked",
        "clock_extended",
    )
)
# People are waited for without a clock, or nobody is.
_AT_REST: Final = frozenset((events_pb2.PHASE_SEATING, events_pb2.PHASE_READY, events_pb2.PHASE_CLOSED))
# A clock alone is waited for; until it runs out the table does not stand still.
_TIMED: Final = frozenset((events_pb2.PHASE_SEED, events_pb2.PHASE_SHOW_WINDOW, events_pb2.PHASE_COUNTDOWN))
_ON_PEOPLE: Final = frozenset(
    (
        events_pb2.PHASE_BASE,
        events_pb2.PHASE_AGREE,
        events_pb2.PHASE_BID,
        events_pb2.PHASE_CALL,
        events_pb2.PHASE_ROB,
        events_pb2.PHASE_SHOW,
        events_pb2.PHASE_PLAY,
    )
)


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a log: when, what the table waits for since, until when (0 = no clock), whether it went on, and
    which node each seat's stream is at since when.
    """

    at_ms: int
    phase: Phase.ValueType
    deadline_ms: int
    went_on: bool
    streams: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def at_node(self, node: str, since_ms: int) -> bool:
        """Whether somebody's stream has come to this node since then."""
        return any(name == node and came_ms > since_ms for name, came_ms in self.streams.values())


def step_of(message: events_pb2.Event, before: Step | None) -> Step:
    """What an event is for a standstill; `before`: the step before it."""
    phase = message.clock.phase
    went_on = message.WhichOneof("event") not in _STANDING or (before is not None and before.phase != phase)
    streams = {} if before is None else before.streams
    if message.HasField("presence_set"):
        seat = message.presence_set.seat
        streams = {other: stream for other, stream in streams.items() if other != seat}
        if message.presence_set.connected:  # "name-of-this-life:number"
            node = message.presence_set.connection.rpartition(":")[0].rpartition("-")[0]
            streams[seat] = (node, message.at_ms)
    return Step(message.at_ms, phase, message.clock.deadline_ms, went_on, streams)


@dataclass(frozen=True, slots=True)
class Ended:
    """When which nodes died, in order, when something else was away (from, to), and when it all ended; milliseconds of
    the epoch.
    """

    deaths: Sequence[tuple[int, str]]
    away: Sequence[tuple[int, int]]
    until_ms: int

    def judged(self, death_ms: int, longest_ms: int) -> bool:
        """Whether it can be said what came of a death: nothing else was away then, nor two seconds before."""
        return death_ms + longest_ms <= self.until_ms and not any(
            begin - 500 <= death_ms + longest_ms and death_ms <= end + 2_000 for begin, end in self.away
        )


def _own_deaths(steps: Sequence[Step], deaths: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """When nodes of this table died, each with the number of steps before."""
    died_ms: dict[str, int] = {}
    for death_ms, node in deaths:
        index = bisect.bisect_right(steps, death_ms, key=lambda step: step.at_ms)
        if index and steps[index - 1].at_node(node, died_ms.get(node, 0)):
            yield death_ms, index
        died_ms[node] = death_ms


def standstills(logs: Mapping[str, Sequence[Step]], chaos: Ended, allowed_ms: int, think_ms: int) -> dict[str, Any]:
    """How long each table stood still after each death of its node.

    What a table waits for by itself, the ledger say, may take `allowed_ms`, a person's act `think_ms` more: as long as
    a player thinks at most, for he may have begun only now. A countdown, a show window and the time for seeds count
    from the deadline that was shown at the death: time that is given afterwards is a standstill too. A table that has
    not gone on at the end of the chaos has stood still until then. `died_again` counts those whose next node died
    before their time was over; how long they stood in all is in the quantiles and in `longest_ms` nevertheless.
    """
    delays: list[int] = []
    late: Counter[str] = Counter()
    died_again = 0
    for steps in logs.values():
        own = [*_own_deaths(steps, chaos.deaths), (chaos.until_ms, 0)]
        for (death, index), (next_death, _) in itertools.pairwise(own):
            last = steps[index - 1]
            if last.phase in _AT_REST or not chaos.judged(death, allowed_ms + think_ms):
                continue
            went_on_ms = next((step.at_ms for step in steps[index:] if step.went_on), chaos.until_ms)
            since = max(death, last.deadline_ms) if last.phase in _TIMED else death
            delays.append(max(0, min(went_on_ms, chaos.until_ms) - since))
            may_ms = allowed_ms + (think_ms if last.phase in _ON_PEOPLE else 0)
            if delays[-1] <= may_ms:
                continue
            if next_death < min(since + may_ms, chaos.until_ms):
                died_again += 1
            else:
                late[Phase.Name(last.phase).removeprefix("PHASE_")] += 1
    quantiles = statistics.quantiles(delays, n=100) if len(delays) > 1 else [0.0] * 99
    return {
        "looked_at": len(delays),
        "p50_ms": round(quantiles[49]),
        "p99_ms": round(quantiles[98]),
        "longest_ms": max(delays, default=0),
        "died_again": died_again,
        "later_than_allowed": late.total(),
        "late_in": dict(late.most_common()),
    }
