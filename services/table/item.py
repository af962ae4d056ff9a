"""What waits in a table's mailbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from servicekit import traces
from services.table import commands, life, log
from services.table.table import Table

Make = Callable[[Table], commands.Command | None]
Then = Callable[[Table], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Item:
    """A request in the mailbox: `make` says what is asked of the table as it then is, `then` runs right after."""

    make: Make
    key: log.Key
    then: Then | None = None
    opening: life.Decision | None = None
    answer: asyncio.Future[int] | None = None  # set while it waits in the mailbox
    context: traces.Context = field(default_factory=traces.here)  # of who asks
    at_s: float = field(default_factory=time.perf_counter)
