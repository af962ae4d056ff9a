"""What matchmaking tells: to all instances which tickets have changed (NATS core), to the world which matches were made
(JetStream). Losing the first costs a second, until the next poll."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

import nats.errors
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from servicekit import logs, stream, traces

MATCH_SUBJECT: Final = "ddz.match.made"
TICKET_SUBJECT: Final = "ddz.ticket"
_TIMEOUT_S: Final = 2.0
_TROUBLE: Final = (nats.errors.Error, OSError, TimeoutError)

log = logs.get("news")


class News:
    """Publishes; never fails because of the bus."""

    def __init__(self, bus: NatsClient) -> None:
        self._bus = bus
        self._stream = bus.jetstream(timeout=_TIMEOUT_S)
        self._ensured = False

    @property
    def connected(self) -> bool:
        """Whether the bus is there, as far as one knows."""
        return self._bus.is_connected

    async def changed(self, room_id: str, ticket_ids: Iterable[str]) -> None:
        """Tells every instance that these tickets have changed."""
        try:
            told = ",".join(ticket_ids).encode()
            await self._bus.publish(f"{TICKET_SUBJECT}.{room_id}", told, headers=traces.news_headers())
        except _TROUBLE as error:
            log.warning("news lost", extra={"room": room_id, "why": str(error)})

    async def made(self, matches: Mapping[str, bytes]) -> list[str]:
        """Tells of matches, MatchMade by id, which is the message's id too; the ids that JetStream has now."""
        try:
            if not self._ensured:
                await stream.ensure(self._stream)
                self._ensured = True
            sends = (self._stream.publish(MATCH_SUBJECT, m, headers={"Nats-Msg-Id": i}) for i, m in matches.items())
            sent = await asyncio.gather(*sends, return_exceptions=True)
        except _TROUBLE as error:
            log.warning("matches not told", extra={"count": len(matches), "why": str(error)})
            return []
        for outcome in sent:
            if isinstance(outcome, BaseException) and not isinstance(outcome, _TROUBLE):
                raise outcome
        return [match for match, outcome in zip(matches, sent, strict=True) if not isinstance(outcome, BaseException)]

    @contextlib.asynccontextmanager
    async def heard(self, on_changed: Callable[[str, list[str]], None]) -> AsyncIterator[None]:
        """Calls `on_changed(room_id, ticket_ids)` for what any instance tells."""

        async def on_message(message: Msg) -> None:
            room_id = message.subject.removeprefix(f"{TICKET_SUBJECT}.")
            with traces.heard(TICKET_SUBJECT, message.headers):
                on_changed(room_id, message.data.decode(errors="replace").split(","))

        subscription = await self._bus.subscribe(f"{TICKET_SUBJECT}.*", cb=on_message)
        try:
            yield
        finally:
            if not self._bus.is_closed:
                await subscription.unsubscribe()
