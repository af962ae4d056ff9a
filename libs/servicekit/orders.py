"""What operators have ordered, as every process knows it: a mirror in Redis, read once a second and when it changes.

The lobby decides and keeps it in Postgres (ddz.admin.v1.Orders). A process that cannot read the mirror goes on with
what it knew; one that starts reads it first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import nats.errors
from nats.aio.client import Client as NatsClient
from redis.exceptions import RedisError

from ddz.admin.v1 import orders_pb2
from ddz.common.v1 import common_pb2
from doudizhu.refusal import Refusal
from servicekit import logs
from servicekit.errors import Trouble
from servicekit.pipe import StoreLost

KEY: Final = "ddz:orders"
CHANGED: Final = "ddz.orders"  # the subject that says: read it now
NEUTRAL_NAME: Final = "玩家"  # and his number: who is muted
_POLL_S: Final = 1.0

log = logs.get("orders")

Read = Callable[[], Awaitable[bytes | str | None]]


async def nothing() -> None:
    """Reads no orders: for a part that runs alone."""


class Orders:
    """The newest orders that this process has read; `changed` functions are called after each change."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._orders = orders_pb2.Orders()
        self._sanctions: Mapping[str, orders_pb2.Sanction] = {}
        self._listeners: list[Callable[[], None]] = []
        self._wake = asyncio.Event()

    @property
    def newest(self) -> orders_pb2.Orders:
        """As they were read last."""
        return self._orders

    @property
    def closed(self) -> bool:
        """Whether there is maintenance."""
        return self._orders.HasField("maintenance")

    @property
    def notice(self) -> common_pb2.Notice:
        """What everybody is told."""
        return common_pb2.Notice(maintenance=self.closed, message=self._orders.maintenance)

    @property
    def banned(self) -> list[str]:
        """The players who are banned and may have a token that is still good."""
        return [player_id for player_id in self._sanctions if self.is_banned(player_id)]

    def on_change(self, call: Callable[[], None]) -> None:
        """Has `call` called after each change, until the process ends."""
        self._listeners.append(call)

    def is_banned(self, player_id: str) -> bool:
        """Whether a player whose token is still good has been banned since."""
        return self._until_ms(player_id) > _now_ms()

    def require_open(self) -> None:
        """Raises Refusal MAINTENANCE, whose data has the operators' message as `notice`."""
        if self.closed:
            notice = self._orders.maintenance
            raise Refusal(Trouble.MAINTENANCE, f"Closed for maintenance: {notice}", notice=notice)

    def require_welcome(self, player_id: str) -> None:
        """Raises Refusal BANNED with its end."""
        until_ms = self._until_ms(player_id)
        if until_ms > _now_ms():
            raise banned(until_ms)

    def shown(self, player: common_pb2.Player) -> common_pb2.Player:
        """The player as others may see him: under a neutral name while he is muted."""
        sanction = self._sanctions.get(player.player_id)
        if sanction is None or sanction.muted_until_ms <= _now_ms():
            return player
        seen = common_pb2.Player()
        seen.CopyFrom(player)
        seen.display_name = neutral_name(player.player_id)
        return seen

    async def refresh(self) -> None:
        """Reads the mirror now; without Redis, or when Redis has lost it, what is known stays."""
        try:
            found = await self._read()
        except (RedisError, StoreLost, OSError) as error:
            log.warning("orders not read", extra={"why": str(error)})
            return
        if found is None:  # never what is ordered: without orders the lobby writes an empty mirror
            return
        assert not isinstance(found, str), "a client that decodes cannot read it"
        self.take(orders_pb2.Orders.FromString(found))

    def take(self, orders: orders_pb2.Orders) -> None:
        """Has these orders from now on."""
        if orders == self._orders:
            return
        self._orders = orders
        self._sanctions = {sanction.player_id: sanction for sanction in orders.sanctions}
        for call in self._listeners:
            call()

    async def follow(self, bus: NatsClient) -> None:
        """Reads the mirror again and again, for ever."""
        listening = asyncio.create_task(self._listen(bus))
        try:
            while True:
                self._wake.clear()
                await self.refresh()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._wake.wait()
        finally:
            listening.cancel()

    async def _listen(self, bus: NatsClient) -> None:
        async def heard(_: object) -> None:
            self._wake.set()

        while not bus.is_connected:  # noqa: ASYNC110 - what is subscribed before can be lost
            await asyncio.sleep(_POLL_S)
        with contextlib.suppress(nats.errors.Error, OSError):  # then the poll is what there is
            await bus.subscribe(CHANGED, cb=heard)

    def _until_ms(self, player_id: str) -> int:
        sanction = self._sanctions.get(player_id)
        return 0 if sanction is None else sanction.banned_until_ms


def banned(until_ms: int) -> Refusal:
    """The refusal of who is banned; `until_ms` in its data is the end."""
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until_ms / 1000))
    end = "for good" if until_ms >= FOR_EVER_MS else f"until {day}"
    return Refusal(Trouble.BANNED, f"This account is banned {end}.", until_ms=until_ms)


FOR_EVER_MS: Final = 253_402_300_799_000  # the end of the year 9999


def neutral_name(player_id: str) -> str:
    """What a muted player is called."""
    return f"{NEUTRAL_NAME}{player_id.removeprefix('p')}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
