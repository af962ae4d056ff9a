"""The people who watch one table on this node: each gets his own view, and is told when his stream must end."""

from __future__ import annotations

from ddz.table.v1 import events_pb2, table_pb2
from services.table import events, log, wire
from services.table.fanout import Stream, payload
from services.table.replica import Change
from services.table.table import Stage, Table
from services.table.views import NOBODY, Viewer, is_public, masked, viewer, viewers
from services.table.wire_snapshot import snapshot_to


class Audience:
    """The streams of one table."""

    def __init__(self) -> None:
        self.streams: set[Stream] = set()

    def attach(
        self, stream: Stream, table: Table, epoch: int, now_ms: int, missed: list[log.Entry] | None, after_seq: int
    ) -> None:
        """Begins a stream: with what it missed after an event, or with a snapshot."""
        who = viewer(table, stream.player_id)
        both = [
            (one, message)
            for entry in missed or ()
            for one, message in zip(entry.stamped, entry.messages, strict=True)
            if after_seq < one.seq <= table.seq
        ]
        if both:
            stream.push_events(payload(seen(one, message, who) for one, message in both))
        left = any(
            isinstance(one.event, events.SeatLeft) and one.event.player_id == stream.player_id for one, _ in both
        )
        # Whose cards he may see can have changed behind his back.
        if missed is None or who.observing or left:
            _snapshot(stream, table, epoch, now_ms)
        self.streams.add(stream)
        if table.stage is Stage.CLOSED:
            stream.goodbye("closed", reconnect=False)
        elif who.seat is None:
            stream.goodbye("left", reconnect=False)

    def detach(self, stream: Stream) -> None:
        """Ends a stream."""
        self.streams.discard(stream)

    def push(self, change: Change, epoch: int) -> None:
        """Sends events to everybody as he may see them; who sees otherwise from now on gets a snapshot behind them."""
        if not self.streams:
            return
        before, after, entry = change.before, change.after, change.entry
        if all(is_public(one.event) for one in entry.stamped):
            public = payload(entry.messages)
            for stream in self.streams:
                stream.push_events(public)
        else:
            self._push_masked(after, entry)
        if before is not None and (before.seats is not after.seats or before.observers is not after.observers):
            old, new = viewers(before), viewers(after)
            for stream in self.streams:
                if old.get(stream.player_id, NOBODY) != new.get(stream.player_id, NOBODY):
                    _snapshot(stream, after, epoch, entry.stamped[-1].at_ms)
        for one in entry.stamped:
            self._farewells(after, one.event)

    def _push_masked(self, table: Table, entry: log.Entry) -> None:
        """Whoever may see the same cards gets the same bytes."""
        places, payloads = viewers(table), dict[int | None, bytes]()
        for stream in self.streams:
            who = places.get(stream.player_id, NOBODY)
            if who.sees not in payloads:
                both = zip(entry.stamped, entry.messages, strict=True)
                payloads[who.sees] = payload(seen(one, message, who) for one, message in both)
            stream.push_events(payloads[who.sees])

    def _farewells(self, table: Table, event: events.Event) -> None:
        """Newer streams replace older ones; who has left and tables that are closed need none; and who was taken for
        dead (by a node that heard nothing of this one for a while) comes back with a stream that the log knows.
        """
        if isinstance(event, events.PresenceSet | events.ObserverPresenceSet) and event.connected:
            if isinstance(event, events.PresenceSet):
                person = table.seats[event.seat].person
                player_id = "" if person is None else person.player_id
            else:
                player_id = event.player_id
            for stream in self.streams:
                if stream.player_id == player_id and stream.connection != event.connection:
                    stream.goodbye("replaced", reconnect=False)
        elif isinstance(event, events.PresenceSet | events.ObserverPresenceSet):
            for stream in self.streams:
                if stream.connection == event.connection:
                    stream.goodbye("gone", reconnect=True)
        elif isinstance(event, events.SeatLeft | events.ObserverLeft):
            for stream in self.streams:
                if stream.player_id == event.player_id and viewer(table, event.player_id).seat is None:
                    stream.goodbye_soon("left", reconnect=False)
        elif isinstance(event, events.Closed):
            for stream in self.streams:
                stream.goodbye_soon("closed", reconnect=False)

    def begin_anew(self, table: Table, epoch: int) -> None:
        """The log went back, or is ahead of what can be told: everybody gets a snapshot."""
        for stream in self.streams:
            _snapshot(stream, table, epoch, table.since_ms)

    def gone(self) -> None:
        """There is no log any more."""
        for stream in self.streams:
            stream.goodbye("closed", reconnect=False)

    def beat(self, table: Table | None, silent_since: float, now_ms: int) -> None:
        """Sends a heartbeat to those who have heard nothing since then (of the monotonic clock, in seconds)."""
        for stream in self.streams:
            if stream.pushed_at < silent_since:
                stream.push("heartbeat", table_pb2.Heartbeat(seq=0 if table is None else table.seq, at_ms=now_ms))

    def drain(self) -> None:
        """Asks everybody to come back to another node."""
        for stream in self.streams:
            stream.goodbye("drain", reconnect=True)


def _snapshot(stream: Stream, table: Table, epoch: int, now_ms: int) -> None:
    stream.push("snapshot", snapshot_to(table, viewer(table, stream.player_id), epoch=epoch, now_ms=now_ms))


def seen(one: events.Stamped, message: events_pb2.Event, who: Viewer) -> events_pb2.Event:
    """The message of the log as this person may see it."""
    if is_public(one.event):
        return message
    mine = wire.event_to(events.Stamped(one.seq, one.at_ms, masked(one.event, who)), None)
    mine.clock.CopyFrom(message.clock)
    return mine


def told_of(message: events_pb2.Event, secret_from_seq: int) -> events_pb2.Event:
    """The message of the log for who has no part in the table: from an event on without the players' secrets."""
    one = wire.event_from(message)
    if isinstance(one.event, events.PresenceSet | events.ObserverPresenceSet) or one.seq >= secret_from_seq:
        return seen(one, message, NOBODY)
    return message
