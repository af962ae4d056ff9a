"""What the lobby asks of all processes at once, for operators: over NATS core, answered by whom it concerns."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final

import nats.errors
from google.protobuf.message import DecodeError
from nats.aio.client import Client as NatsClient

from ddz.admin.v1 import orders_pb2
from servicekit import logs
from servicekit.rooms import Rooms, RoomsError

SUBJECT: Final = "ddz.errand"  # outside of the stream DDZ, which would answer too
_PAUSE_S: Final = 0.5

log = logs.get("errands")

Answer = Callable[[orders_pb2.Errand], Awaitable[orders_pb2.Report | None]]


async def answering(bus: NatsClient, answer: Answer) -> None:
    """Does what is asked, for ever; None = it is for others. To be run by `lasting`."""
    while not bus.is_connected:  # noqa: ASYNC110 - what is subscribed before can be lost
        await asyncio.sleep(_PAUSE_S)
    subscription = await bus.subscribe(SUBJECT)
    try:
        async for message in subscription.messages:
            if not message.reply:  # whoever asks wants to know
                log.warning("errand of nobody")
                continue
            try:
                errand = orders_pb2.Errand.FromString(message.data)
            except DecodeError as error:
                log.warning("errand not read", extra={"why": str(error)})
                continue
            report = await answer(errand)
            if report is not None:
                await bus.publish(message.reply, report.SerializeToString())
    finally:
        if not bus.is_closed:
            await subscription.unsubscribe()


def rooms_reader(service: str, rooms: Rooms, changed: Callable[[], None]) -> Answer:
    """Reads the rooms file when it is asked to, whatever its date; `changed` is called when it could be used."""
    process = f"{service}-{secrets.token_hex(4)}"

    async def answer(errand: orders_pb2.Errand) -> orders_pb2.Report | None:
        if not errand.HasField("reread_rooms"):
            return None
        error = ""
        try:
            rooms.reread()
            changed()
        except RoomsError as refused:
            error = str(refused)
        read = orders_pb2.RoomsRead(process=process, room_ids=[room.room_id for room in rooms.all()], error=error)
        return orders_pb2.Report(rooms_read=read)

    return answer


async def send(
    bus: NatsClient, errand: orders_pb2.Errand, *, listen_s: float, first: bool = False
) -> list[orders_pb2.Report]:
    """The reports that come within `listen_s` seconds; with `first` the first alone, as soon as it is there.

    Raises nats.errors.Error when the bus is away: what is asked then would be done some time later, told to nobody.
    """
    if not bus.is_connected:
        raise nats.errors.ConnectionReconnectingError
    inbox = bus.new_inbox()
    subscription = await bus.subscribe(inbox)
    reports: list[orders_pb2.Report] = []
    ends_at = time.monotonic() + listen_s
    try:
        await bus.publish(SUBJECT, errand.SerializeToString(), reply=inbox)
        while (left_s := ends_at - time.monotonic()) > 0 and not (first and reports):
            try:
                message = await subscription.next_msg(timeout=left_s)
            except nats.errors.TimeoutError:
                break
            if message.data:  # nobody listens: NATS says so by an empty message
                reports.append(orders_pb2.Report.FromString(message.data))
    finally:
        await subscription.unsubscribe()
    return reports
