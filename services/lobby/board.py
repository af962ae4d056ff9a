"""The lobby as everybody sees it: rooms with counts, tables as they report themselves, and the streams that watch."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

from google.protobuf.message import DecodeError
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import logs
from servicekit.lasting import end, lasting
from servicekit.orders import Orders
from servicekit.rooms import Rooms
from servicekit.seats import CLOSED, LEASE_S, SUBJECT, Seats
from services.lobby.account import Reason
from services.lobby.directory import Changes, Directory, Report
from services.lobby.presence import Presence
from services.lobby.tables import Tables, is_private

REPORTS: Final = CounterMetric("ddz_lobby_reports", "Reports of tables, by what became of them", ["result"])
TABLES: Final = Gauge("ddz_lobby_tables", "Listed tables", ["room"])
PLAYERS: Final = Gauge("ddz_lobby_seated", "Seats taken at listed tables", ["room"])

_FRAME_S: Final = 0.25  # at most so often a stream is told of changes
_HEARTBEAT_S: Final = 15.0
_SWEEP_S: Final = 1.0
_TABLES_A_FRAME: Final = 500
_STREAMS_A_PLAYER: Final = 8

log = logs.get("board")


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Board:
    """One instance's view of all tables, fed by NATS; `running` keeps it fresh."""

    def __init__(
        self, rooms: Rooms, tables: Tables, presence: Presence, seats: Seats, orders: Orders, bus: NatsClient
    ) -> None:
        self._rooms = rooms
        self._seats = seats
        self._orders = orders
        orders.on_change(self._wake)
        self._tables = tables
        self._presence = presence
        self._bus = bus
        self._directory: Directory[lobby_pb2.TableSummary] = Directory(round(LEASE_S * 1000))
        self._changed = asyncio.Event()
        self._streams: Counter[str] = Counter()
        self._rooms_version = 0
        self._shown: list[tuple[lobby_pb2.Room, bytes]] = []  # rooms with counts and their bytes, shared by all streams
        self._shown_at = (-1, -1)  # the versions of counts and rooms that they were made from
        self._measured: set[str] = set()  # rooms that have gauges
        self._closed = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens to the tables, drops those that report no more, and follows the rooms file."""
        subscription = await self._bus.subscribe(SUBJECT, cb=self._on_message)
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "board": self._sweep,
            "rooms": functools.partial(self._rooms.follow, self.rooms_changed),
        }
        tasks = [asyncio.create_task(lasting(where, work)) for where, work in works.items()]
        try:
            yield
        finally:
            await end(*tasks)
            if not self._bus.is_closed:
                await subscription.unsubscribe()

    def close(self) -> None:
        """Ends every stream: their clients find another instance."""
        self._closed = True
        self._wake()

    # ---- what is asked --------------------------------------------------------------------------------------------

    def rooms(self) -> list[lobby_pb2.Room]:
        """Every room with its counts as they stand."""
        return [room for room, _ in self._rooms_shown()]

    def notice(self) -> common_pb2.Notice:
        """What operators tell to all."""
        return self._orders.notice

    def page(self, room_id: str, after: str, size: int) -> tuple[list[lobby_pb2.TableSummary], str]:
        """Listed tables of a room by id; and the token of the next page. Raises NOT_FOUND for no room."""
        self._rooms.get(room_id)
        return self._directory.page(room_id, after, size)

    def room_of(self, table_id: str) -> str:
        """The room that a table reported; empty when it has not."""
        report = self._directory.get(table_id)
        return report.room_id if report else ""

    async def watch(self, player_id: str, room_id: str) -> AsyncGenerator[lobby_pb2.WatchLobbyResponse, None]:
        """Everything, then changes as they come, at most four times a second; of one room or, empty, of all.

        A stream that falls behind is told the newest state of what changed, never more than there are tables.
        """
        if room_id:
            self._rooms.get(room_id)
        if self._streams[player_id] >= _STREAMS_A_PLAYER:
            raise Refusal(Reason.LIMIT_REACHED, f"At most {_STREAMS_A_PLAYER} lobby streams a player.")
        self._streams[player_id] += 1
        try:
            await self._presence.seen(self._without_seat([player_id]))
            async for frame in self._frames(player_id, room_id):
                yield frame
        finally:
            self._streams[player_id] -= 1
            if not self._streams[player_id]:
                del self._streams[player_id]

    # ---- streams --------------------------------------------------------------------------------------------------

    async def _frames(self, player_id: str, room_id: str) -> AsyncIterator[lobby_pb2.WatchLobbyResponse]:
        shown: dict[str, bytes] = {}
        version, rooms_version = -1, self._rooms_version
        told = common_pb2.Notice()
        while not self._closed:
            changed = self._changed
            self._orders.require_welcome(player_id)
            if rooms_version != self._rooms_version:  # rooms may be gone, which only a snapshot tells
                version, rooms_version = -1, self._rooms_version
                shown.clear()
            changes = self._directory.changes(version) if version >= 0 else None
            if changes is None:
                told = common_pb2.Notice()  # a snapshot without a notice says that there is none
            version = self._directory.version if changes is None else changes.version  # before a slow reader takes it
            for frame in self._snapshot(room_id) if changes is None else self._delta(room_id, changes):
                self._add_rooms(frame, room_id, shown)
                if told != self._orders.notice:
                    told = self._orders.notice
                    frame.notice.CopyFrom(told)
                yield frame
            await asyncio.sleep(_FRAME_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_S):
                    await changed.wait()

    def _snapshot(self, room_id: str) -> list[lobby_pb2.WatchLobbyResponse]:
        tables = [table for table in self._directory.listed() if room_id in ("", table.room_id)]
        starts = range(0, max(len(tables), 1), _TABLES_A_FRAME)
        frames = [lobby_pb2.WatchLobbyResponse(tables=tables[start : start + _TABLES_A_FRAME]) for start in starts]
        frames[0].snapshot = True
        return frames

    def _delta(self, room_id: str, changes: Changes[lobby_pb2.TableSummary]) -> list[lobby_pb2.WatchLobbyResponse]:
        tables = [table for table in changes.changed if room_id in ("", table.room_id)]
        return [lobby_pb2.WatchLobbyResponse(tables=tables, gone_table_ids=changes.gone)]

    def _add_rooms(self, frame: lobby_pb2.WatchLobbyResponse, room_id: str, shown: dict[str, bytes]) -> None:
        """Adds the rooms that differ from what the stream has been shown."""
        frame.online = self._presence.online + self._seats.seated
        for room, packed in self._rooms_shown():
            if room_id in ("", room.room_id) and shown.get(room.room_id) != packed:
                shown[room.room_id] = packed
                frame.rooms.append(room)

    def _rooms_shown(self) -> list[tuple[lobby_pb2.Room, bytes]]:
        versions = (self._directory.counted, self._rooms_version)
        if self._shown_at != versions:
            self._shown_at = versions
            self._shown = []
            for room in self._rooms.all():
                counts = self._directory.counts(room.room_id)
                shown = lobby_pb2.Room()
                shown.CopyFrom(room)
                shown.tables, shown.players = counts.tables, counts.players
                self._shown.append((shown, shown.SerializeToString(deterministic=True)))
        return self._shown

    # ---- news -----------------------------------------------------------------------------------------------------

    async def _on_message(self, message: Msg) -> None:
        try:
            summary = lobby_pb2.TableSummary.FromString(message.data)
        except DecodeError:
            REPORTS.labels("unreadable").inc()
            return
        self._seats.report(summary)
        closed = summary.phase == CLOSED
        private = is_private(summary.table_id)
        summary.private = private
        taken = sum(1 for player in summary.players if player.player_id)
        report = Report(summary.table_id, summary.room_id, summary.seq, taken, closed, not private, summary)
        changed = self._directory.report(report, _now_ms())
        REPORTS.labels("changed" if changed else "same").inc()
        if changed:
            self._wake()
        if closed:
            await self._tables.forget(summary.table_id)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            if self._directory.expire(_now_ms()):
                self._wake()
            await self._presence.beat(self._without_seat(self._streams))
            self._measure()

    def _measure(self) -> None:
        """Sets the gauges; of rooms that have left the file too, whose last tables end at a time of their own."""
        self._measured |= {room.room_id for room in self._rooms.all()}
        for room_id in self._measured:
            counts = self._directory.counts(room_id)
            TABLES.labels(room_id).set(counts.tables)
            PLAYERS.labels(room_id).set(counts.players)

    def _without_seat(self, player_ids: Iterable[str]) -> list[str]:
        """Those who are counted as watchers: who sits at a table is counted there."""
        return [player_id for player_id in player_ids if not self._seats.hint(player_id)]

    def rooms_changed(self) -> None:
        """Shows the rooms anew."""
        self._rooms_version += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
