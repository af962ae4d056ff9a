"""Commands that were answered, and what their answers promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# What is never acknowledged without an event, by the name of its message: it is refused where it would change nothing.
# Of the others, Ready, Trustee and AllowObservers may find what they ask for, and a second Leave finds the first.
ALWAYS_LOGGED: Final = frozenset(
    ("Bid", "Call", "Rob", "Show", "PlayCards", "Pass", "SetBase", "AnswerBase", "GiveSeed")
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A command that was answered: its events end at seq. `action` is the name of its message."""

    table_id: str
    player_id: str
    command_id: str
    action: str
    seq: int
