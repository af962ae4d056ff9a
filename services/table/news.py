"""News over NATS core: to other nodes that a table went on, to the lobby what it may show. Losing them is harmless.

ddz.table.<id>     the number of the table's last event; who watches it on another node reads on in the log, and says
                   goodbye when it is 0: the log has been put aside
ddz.lobby.table    a ddz.lobby.v1.TableSummary, at every change and as long as it lives
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ddz.lobby.v1 import lobby_pb2
from servicekit import clients, logs, seats, traces
from services.table.table import SEATS, Phase, Table
from services.table.wire_values import person_to

log = logs.get("news")

_PAUSE_S: Final = 0.5
_PATIENCE_S: Final = 10.0
_ANY_SEQ: Final = sys.maxsize
PUT_ASIDE: Final = 0

Background = Callable[[Coroutine[Any, Any, None]], None]
Heard = Callable[[int], None]


class News:
    """Publishes and listens; never waits for the bus, never fails because of it."""

    def __init__(self, bus: Client, node_id: str, background: Background) -> None:
        self._bus = bus
        self.rename(node_id)
        self._background = background
        self._changed: dict[str, tuple[int, traces.Context]] = {}
        self._heard: dict[str, Heard] = {}
        self._subscriptions: dict[str, Subscription] = {}

    def rename(self, node_id: str) -> None:
        """The node has this id from now on."""
        self._node_id = node_id.encode()
        self._own = f"{node_id}:"  # what the ids of this node's streams begin with

    def changed(self, before: Table, after: Table) -> None:
        """Tells other nodes how far the table is, if a stream is there or was until now: everybody's is in the log,
        and most tables have none elsewhere. The last of what comes together stands for all.
        """
        moved = before.seats is not after.seats or before.observers is not after.observers
        if not (self._followed_elsewhere(after) or (moved and self._followed_elsewhere(before))):
            return
        if not self._changed:
            self._background(self._tell_changed())
        self._changed[after.table_id] = after.seq, traces.here()

    def _followed_elsewhere(self, table: Table) -> bool:
        return any(not connection.startswith(self._own) for _, connection in table.connections)

    async def _tell_changed(self) -> None:
        while self._changed:
            table_id, (seq, context) = self._changed.popitem()
            with traces.within(context):
                await self._publish(f"ddz.table.{table_id}", b"%d %s" % (seq, self._node_id))

    def put_aside(self, table_id: str) -> None:
        """Tells other nodes that there is no log of this table any more."""
        self._background(self._publish(f"ddz.table.{table_id}", b"%d %s" % (PUT_ASIDE, self._node_id)))

    def report(self, table: Table) -> None:
        """Tells the lobby what everybody may know of the table."""
        self._background(self._publish(seats.SUBJECT, summary_of(table).SerializeToString()))

    def report_change(self, before: Table | None, after: Table) -> None:
        """Tells the lobby when there is something new to show."""
        if before is None or (_may_show(before, after) and _shown(before) != _shown(after)):
            self.report(after)

    async def _publish(self, subject: str, data: bytes) -> None:
        try:
            await self._bus.publish(subject, data, headers=traces.news_headers())
        except (nats.errors.Error, OSError) as error:
            log.warning("news lost", extra={"subject": subject, "why": str(error)})

    def listen(self, table_id: str, heard: Heard) -> None:
        """Calls `heard` with the number that another node tells of this table."""
        if table_id not in self._heard:
            self._heard[table_id] = heard
            self._background(self._subscribe(table_id))

    def unlisten(self, table_id: str) -> None:
        """Ends it."""
        if self._heard.pop(table_id, None) is not None:
            self._background(self._unsubscribe(table_id))

    def listening(self) -> int:
        """How many tables are listened to."""
        return len(self._subscriptions)

    async def _subscribe(self, table_id: str) -> None:
        # What is subscribed before can be lost; the client has no event for it.
        while not self._bus.is_connected and table_id in self._heard:  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE_S)
        if table_id in self._subscriptions or table_id not in self._heard:
            return
        try:
            subscription = await self._bus.subscribe(f"ddz.table.{table_id}", cb=self._on_message)
        except (nats.errors.Error, OSError) as error:
            log.warning("not subscribed", extra={"table": table_id, "why": str(error)})
            return
        self._subscriptions[table_id] = subscription
        if table_id not in self._heard:
            await self._unsubscribe(table_id)
            return
        # What has been told between the attaching of the stream and now was told to nobody here.
        with contextlib.suppress(nats.errors.Error, OSError):
            await clients.answered(self._bus, timeout_s=_PATIENCE_S)
        if heard := self._heard.get(table_id):
            heard(_ANY_SEQ)

    async def _unsubscribe(self, table_id: str) -> None:
        subscription = self._subscriptions.pop(table_id, None)
        if subscription is not None and not self._bus.is_closed:
            try:
                await subscription.unsubscribe()
            except (nats.errors.Error, OSError) as error:
                log.warning("not unsubscribed", extra={"table": table_id, "why": str(error)})

    async def _on_message(self, message: Msg) -> None:
        seq, _, node_id = message.data.partition(b" ")
        heard = self._heard.get(message.subject.rpartition(".")[2])
        if heard is not None and node_id != self._node_id and seq.isdigit():
            with traces.heard("ddz.table", message.headers):
                heard(int(seq))


def summary_of(table: Table) -> lobby_pb2.TableSummary:
    """What the lobby lists."""
    summary = lobby_pb2.TableSummary(
        table_id=table.table_id,
        room_id=table.terms.room_id,
        base_chips=table.base,
        phase=seats.CLOSED if table.phase is Phase.CLOSED else table.phase.lower(),
        observers=len(table.observers),
        seq=table.seq,
    )
    for number in SEATS:
        person = table.seats[number].person
        player = summary.players.add()
        if person is not None:
            player.CopyFrom(person_to(person))
    return summary


def _may_show(before: Table, after: Table) -> bool:
    """Whether anything that the lobby shows may have changed; most events are moves, which leave all of it alone."""
    return (
        before.seats is not after.seats
        or before.stage is not after.stage
        or before.base != after.base
        or before.observers is not after.observers
    )


def _shown(table: Table) -> tuple[object, ...]:
    """What a change of is worth a report."""
    persons = tuple(seat.person for seat in table.seats)
    return (persons, table.base, table.stage, len(table.observers))
