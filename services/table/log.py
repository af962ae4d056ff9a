"""A table as one node holds it: its state at a version of its log, and the answers that the log gives to repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ddz.table.v1 import events_pb2
from services.table import events, wire
from services.table.evolve import evolve, opened
from services.table.table import Table

Key = tuple[str, str]  # player id, command id

_NOBODY: Final = ("", "")


class Answers:
    """Which command of whom ended at which event: of this hand and of the one before."""

    def __init__(self) -> None:
        self._now: dict[Key, int] = {}
        self._before: dict[Key, int] = {}

    def get(self, key: Key) -> int | None:
        """The first answer to a command; None when it is new."""
        found = self._now.get(key)
        return self._before.get(key) if found is None else found

    def add(self, key: Key, seq: int, *, new_hand: bool) -> None:
        """Remembers an answer; with a new hand the oldest are forgotten."""
        if new_hand:
            self._before, self._now = self._now, {}
        if key != _NOBODY:
            self._now[key] = seq


def encode(entry: Entry) -> bytes:
    """What is appended."""
    player_id, command_id = entry.key
    return events_pb2.LogEntry(player_id=player_id, command_id=command_id, events=entry.messages).SerializeToString()


def fold(table_id: str, table: Table | None, stamped: events.Stamped) -> Table:
    """The table after one more event of its log; None before the first."""
    if table is None:
        assert isinstance(stamped.event, events.Opened), "a log begins with Opened"
        return opened(table_id, stamped.event, stamped.at_ms)
    after = evolve(table, stamped.event, stamped.at_ms)
    assert after.seq == stamped.seq, "the log has a gap"
    return after


@dataclass(frozen=True, slots=True)
class Entry:
    """An append: who asked, its events, and the unmasked messages that the log has of them."""

    key: Key
    stamped: list[events.Stamped]
    messages: list[events_pb2.Event]


def decode(entry: bytes) -> Entry:
    """An entry out of the log."""
    message = events_pb2.LogEntry.FromString(entry)
    messages = list(message.events)
    return Entry((message.player_id, message.command_id), [wire.event_from(event) for event in messages], messages)


def has_new_hand(stamped: Iterable[events.Stamped]) -> bool:
    """Whether a hand begins among these events."""
    return any(isinstance(one.event, events.HandOpening) for one in stamped)
