"""What operators ask of a node: to stand down for a while, to end a table, to show its log; and what all are told."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable

from google.protobuf.message import DecodeError
from nats.aio.client import Client

from ddz.admin.v1 import orders_pb2
from ddz.table.v1 import events_pb2
from doudizhu import Refusal
from servicekit import errands, logs
from servicekit.lasting import always
from servicekit.orders import Orders
from services.table import commands, log
from services.table.effects import Ledger
from services.table.node import Node
from services.table.push import told_of
from services.table.table import Stage, Table
from services.table.terms import Reason

_log = logs.get("steward")


class Steward:
    """Follows the orders for one node, and does the errands that concern it."""

    def __init__(self, node: Node, orders: Orders, ledger: Ledger, bus: Client) -> None:
        self.say_healthy: Callable[[bool], Awaitable[None]] = _to_nobody
        self._node = node
        self._orders = orders
        self._ledger = ledger
        self._bus = bus
        self._told = orders.notice
        orders.on_change(self._ordered)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens until left."""
        async with always(
            orders=functools.partial(self._orders.follow, self._bus),
            errands=functools.partial(errands.answering, self._bus, self.do_errand),
        ):
            yield

    def _ordered(self) -> None:
        """Orders have changed: who is banned is sent away, notices go to everybody, hands that were held back begin."""
        notice = self._orders.notice
        is_new, self._told = notice != self._told, notice
        for actor in self._node.actors():
            for stream in list(actor.audience.streams):
                if self._orders.is_banned(stream.player_id):
                    stream.goodbye("banned", reconnect=False)
                elif is_new:
                    stream.push("notice", notice)
            if is_new and not notice.maintenance and actor.table is not None:
                actor.tell(commands.Proceed())

    async def do_errand(self, errand: orders_pb2.Errand) -> orders_pb2.Report | None:
        """What the lobby asks of all nodes, or of this one; None when it is for others."""
        if errand.HasField("set_draining") and errand.set_draining.node_id == self._node.settings.node_id:
            await self._set_draining(errand.set_draining.draining)
        elif not errand.HasField("tell_node"):
            return None
        actors = self._node.actors()
        node = orders_pb2.Node(
            node_id=self._node.settings.node_id,
            tables=len(actors),
            seats=self._node.seats_here(),
            streams=sum(len(actor.audience.streams) for actor in actors),
            draining=self._node.draining,
        )
        return orders_pb2.Report(node=node)

    async def _set_draining(self, draining: bool) -> None:
        """The gateway learns of it first, so that nobody comes back to this node."""
        if draining == self._node.draining:
            return
        await self.say_healthy(not draining)
        if draining:
            await self._node.stand_down()
        else:
            await self._node.stand_up()

    async def void_table(self, table_id: str, reason: str) -> str:
        """Ends a table, and closes its hand in the ledger; the hand that is void, empty when none was played.

        Raises NOT_FOUND, UNAVAILABLE. A hand that the ledger has settled meanwhile stays settled. A table whose log
        cannot be read for a fault of ours is put aside: its log stays for a while, for `read_log` alone.
        """
        actor = self._node.actor(table_id)
        decided_on: list[Table] = []

        def end(table: Table) -> commands.Command:
            decided_on.append(table)
            return commands.VoidTable()

        try:
            await actor.ask(end)
        except Refusal:
            raise
        except Exception:  # whatever it is, the actor has told of it
            hand_id, _ = hand_of(await self._messages(table_id))
            voided = bool(hand_id) and await self._ledger.void_if_open(hand_id, reason)
            await self._node.put_aside(actor)
        else:
            before = decided_on[-1]
            hand_id = "" if before.stage in (Stage.WAITING, Stage.COUNTDOWN) else before.hand_id
            opening = before.stage is Stage.OPENING
            # Of a closed table too: an earlier call may not have come as far as the ledger.
            voided = bool(hand_id) and await self._ledger.void_if_open(hand_id, reason, opening=opening)
        return hand_id if voided else ""

    async def read_log(self, table_id: str, after_seq: int) -> tuple[list[events_pb2.Event], str]:
        """The events behind one, without what nobody but a player may know of a live hand; and that hand's id.

        Of a table whose log cannot be read for a fault of ours, also after it was put aside, the last hand counts as
        live, and of an event that cannot be read there is the number alone. Raises NOT_FOUND.
        """
        messages = await self._messages(table_id)
        hand_id, first_seq = hand_of(messages)
        try:
            table = await self._node.actor(table_id).refresh()
        except Refusal as refusal:
            if refusal.reason != Reason.NOT_FOUND or not messages:
                raise
        except Exception:  # whatever it is, the actor has told of it
            pass
        else:
            messages = [message for message in messages if message.seq <= table.seq]
            live = table.stage in (Stage.OPENING, Stage.HAND)
            hand_id, first_seq = (table.hand_id, table.hand_seq) if live else ("", table.seq + 1)
        return [_told(table_id, message, first_seq) for message in messages if message.seq > after_seq], hand_id

    async def _messages(self, table_id: str) -> list[events_pb2.Event]:
        history = await self._node.store.history(table_id)
        return [message for seq, entry in history for message in _messages_of(table_id, seq, entry)]


def _messages_of(table_id: str, seq: int, entry: bytes) -> list[events_pb2.Event]:
    """The messages of the entry that ends at an event; that event's number alone where they cannot be read."""
    try:
        return list(log.messages(entry))
    except DecodeError as error:
        _log.error("entry not read", extra={"table": table_id, "seq": seq, "why": str(error)})
        return [events_pb2.Event(seq=seq)]


def _told(table_id: str, message: events_pb2.Event, secret_from_seq: int) -> events_pb2.Event:
    """The message without secrets; its number alone where it cannot be read, whatever fault of ours is why."""
    try:
        return told_of(message, secret_from_seq)
    except Exception as error:
        _log.error("event not read", exc_info=error, extra={"table": table_id, "seq": message.seq})
        return events_pb2.Event(seq=message.seq)


def hand_of(messages: list[events_pb2.Event]) -> tuple[str, int]:
    """The last hand that was opened, and the number of the event that did; without one everything is its."""
    opened = [message for message in messages if message.HasField("hand_opening")]
    return (opened[-1].hand_opening.hand_id, opened[-1].seq) if opened else ("", 0)


async def _to_nobody(_healthy: bool) -> None:
    """Nobody asks for the health of a node that serves no calls."""
