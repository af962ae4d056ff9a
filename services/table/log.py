"""The entries of a table's log, and what they say of commands that come twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from ddz.table.v1 import events_pb2
from services.table import events, wire
from services.table.evolve import evolve, opened
from services.table.table import Table
from services.table.wire_checkpoint import checkpoint_from, checkpoint_to

Key = tuple[str, str]  # player id, command id

NOBODY: Final[Key] = ("", "")


# At least so many of a table's last answers are known, and fewer than twice as many: more than a hand has commands.
# By number and not by hand, as hands that all pass are over before a message that was sent twice has come twice.
ANSWERS_KEPT: Final = 64


class Answers:
    """Which of the last commands, and of whom, ended at which event."""

    def __init__(self, known: Mapping[Key, int] = MappingProxyType({})) -> None:
        self._now: dict[Key, int] = {}
        self._before: dict[Key, int] = {}
        for key, seq in known.items():
            self.add(key, seq)

    @property
    def known(self) -> Mapping[Key, int]:
        """All that are known, the oldest first: what outlives a cut."""
        return self._before | self._now

    def get(self, key: Key) -> int | None:
        """The first answer to a command; None when it is new."""
        found = self._now.get(key)
        return self._before.get(key) if found is None else found

    def add(self, key: Key, seq: int) -> None:
        """Remembers an answer, and forgets the oldest when there are enough younger ones."""
        if key == NOBODY:
            return
        if len(self._now) >= ANSWERS_KEPT:
            self._before, self._now = self._now, {}
        self._now[key] = seq


@dataclass(frozen=True, slots=True)
class Entry:
    """An append: who asked, its events, and the unmasked messages that the log has of them; or a checkpoint."""

    key: Key
    stamped: list[events.Stamped] = field(default_factory=list)
    messages: list[events_pb2.Event] = field(default_factory=list)
    checkpoint: Table | None = None
    answers: Answers | None = None  # of a checkpoint


def encode(entry: Entry) -> bytes:
    """What is appended."""
    player_id, command_id = entry.key
    return events_pb2.LogEntry(player_id=player_id, command_id=command_id, events=entry.messages).SerializeToString()


def encode_checkpoint(table: Table, answers: Answers) -> bytes:
    """What a log that is cut begins with."""
    message = checkpoint_to(table)
    for (player_id, command_id), seq in answers.known.items():
        message.answers.add(player_id=player_id, command_id=command_id, seq=seq)
    return events_pb2.LogEntry(checkpoint=message).SerializeToString()


def messages(entry: bytes) -> Iterable[events_pb2.Event]:
    """The messages of an entry, as the log has them."""
    return events_pb2.LogEntry.FromString(entry).events


def decode(table_id: str, entry: bytes) -> Entry:
    """An entry out of the log."""
    message = events_pb2.LogEntry.FromString(entry)
    if message.HasField("checkpoint"):
        kept = {(one.player_id, one.command_id): one.seq for one in message.checkpoint.answers}
        return Entry(NOBODY, checkpoint=checkpoint_from(table_id, message.checkpoint), answers=Answers(kept))
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
