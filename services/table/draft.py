"""A decision as it grows: each event is folded at once, so that what follows is decided on the state after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.table.events import Event, Stamped
from services.table.evolve import evolve
from services.table.table import Table


@dataclass(slots=True)
class Draft:
    """The table so far and the events that led there. `draw` is a random number of 32 bits, given by the caller; in a
    system that is `closed` no hand begins.
    """

    table: Table
    now_ms: int
    draw: int
    closed: bool = False
    events: list[Stamped] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Adds an event and folds it."""
        self.table = evolve(self.table, event, self.now_ms)
        self.events.append(Stamped(self.table.seq, self.now_ms, event))
