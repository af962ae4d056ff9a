"""How a node of the table service behaves."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from servicekit import seats

UNNAMED: Final = "table"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node behaves. Times by their names; limits are numbers of requests and frames."""

    node_id: str = UNNAMED  # a node that comes back under its own name takes the place of the one before
    shards: int = 64
    heartbeat_s: float = 15.0
    mailbox_limit: int = 64
    stream_limit: int = 256
    commands_per_s: float = 20.0  # of one stream, on the average
    commands_burst: int = 60
    idle_ms: int = 60_000  # an empty table, and outside of hands an absent person, is kept
    keep_ms: int = 300_000  # a closed table's log is kept
    poll_s: float = 0.5
    grace_ms: int = 300  # so long a deadline is left to the node that serves the table
    retire_s: float = 30.0  # an actor that nobody needs is kept in memory
    report_s: float = seats.REPORT_S  # between reports to the lobby; who has not reported three times is dead
    cut_events: int = 60  # a log that has grown so long is cut, between two hands: who takes a table up reads it all
    review_s: float = 60.0  # so often some node looks at every open table: nothing that was lost stays lost
    lost_s: float = 600.0  # an open hand of the ledger that is so old, and that no table plays, is void
    lost_sweep_s: float = 60.0
    store_patience_s: float = 5.0
    drain_s: float = 10.0

    def new_id(self) -> str:
        """A name that no node has had, for one that begins or begins anew."""
        return f"{self.node_id}-{secrets.token_hex(4)}"
