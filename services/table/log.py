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


# So many answers to each player are known, more than he has commands in a hand: nobody can have another's forgotten.
# By number and not by hand, as hands that all pass are over before a message that was sent twice has come twice.
ANSWERS_KEPT: Final = 32
_PLAYERS_KEPT: Final = 16  # those who were answered last


class Answers:
    """Which of everybody's last commands ended at which event."""

    def __init__(self, known: Mapping[Key, int] = MappingProxyType({})) -> None:
        self._of: dict[str, dict[str, int]] = {}  # by player, each in the order of the log
        for key, seq in known.items():
            self.add(key, seq)

    @property
    def known(self) -> Mapping[Key, int]:
        """All that are known: what outlives a cut."""
        return {(player_id, one): seq for player_id, mine in self._of.items() for one, seq in mine.items()}

    def get(self, key: Key) -> int | None:
        """The first answer to a command; None when it is new."""
        mine = self._of.get(key[0])
        return None if mine is None else mine.get(key[1])

    def add(self, key: Key, seq: int) -> None:
        """Remembers an answer, and forgets the player's oldest when there are enough younger ones."""
        if key == NOBODY:
            return
        player_id, command_id = key
        mine = self._of.setdefault(player_id, {})
        if len(mine) >= ANSWERS_KEPT:
            del mine[next(iter(mine))]
        mine[command_id] = seq
        if len(self._of) > _PLAYERS_KEPT:
            del self._of[min(self._of, key=lambda one: next(reversed(self._of[one].values())))]


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
