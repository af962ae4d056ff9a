"""The entries of a table's log, and what they say of commands that come twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ddz.table.v1 import events_pb2
from services.table import events, wire
from services.table.evolve import evolve, opened
from services.table.table import Table
from services.table.wire_checkpoint import checkpoint_from, checkpoint_to

Key = tuple[str, str]  # player id, command id

NOBODY: Final[Key] = ("", "")


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
        if key != NOBODY:
            self._now[key] = seq


@dataclass(frozen=True, slots=True)
class Entry:
    """An append: who asked, its events, and the unmasked messages that the log has of them; or a checkpoint."""

    key: Key
    stamped: list[events.Stamped] = field(default_factory=list)
    messages: list[events_pb2.Event] = field(default_factory=list)
    checkpoint: Table | None = None


def encode(entry: Entry) -> bytes:
    """What is appended."""
    player_id, command_id = entry.key
    return events_pb2.LogEntry(player_id=player_id, command_id=command_id, events=entry.messages).SerializeToString()


def encode_checkpoint(table: Table) -> bytes:
    """What a log that is cut begins with."""
    return events_pb2.LogEntry(checkpoint=checkpoint_to(table)).SerializeToString()


def decode(table_id: str, entry: bytes) -> Entry:
    """An entry out of the log."""
    message = events_pb2.LogEntry.FromString(entry)
    if message.HasField("checkpoint"):
        return Entry(NOBODY, checkpoint=checkpoint_from(table_id, message.checkpoint))
    messages = list(message.events)
    return Entry((message.player_id, message.command_id), [wire.event_from(event) for event in messages], messages)


def fold(table_id: str, table: Table | None, stamped: events.Stamped) -> Table:
    """The table after one more event of its log; None before the first."""
    if table is None:
        assert isinstance(stamped.event, events.Opened), "a log begins with Opened"
        return opened(table_id, stamped.event, stamped.at_ms)
    after = evolve(table, stamped.event, stamped.at_ms)
    assert after.seq == stamped.seq, "the log has a gap"
    return after


def has_new_hand(stamped: Iterable[events.Stamped]) -> bool:
    """Whether a hand begins among these events."""
    return any(type(one.event) is events.HandOpening for one in stamped)
