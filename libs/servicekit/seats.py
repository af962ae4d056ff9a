"""Where players sit, as the tables report it on NATS core (ddz.lobby.v1.TableSummary): a hint with a lease.

A hint may be late or lost, so nothing is decided on it: the table itself is asked before anybody is refused.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from google.protobuf.message import DecodeError
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import identity, remote

# What table nodes and those who listen to them agree on.
SUBJECT: Final = "ddz.lobby.table"
CLOSED: Final = "closed"  # TableSummary.phase of a table's last report
REPORT_S: Final = 5.0  # a table that has nothing to report says so as often
LEASE_S: Final = 3 * REPORT_S  # so long a report counts: two may be lost
_TIMEOUT_S: Final = 2.0


class Seats:
    """The tables of all players that have been heard of."""

    def __init__(self, tables: table_pb2_grpc.TableServiceAsyncStub) -> None:
        self._tables = tables
        self._seated: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()  # by table, oldest report first
        self._table_of: dict[str, str] = {}

    def report(self, summary: lobby_pb2.TableSummary) -> None:
        """Takes in what a table says of itself."""
        now = time.monotonic()
        seated = () if summary.phase == CLOSED else summary.players  # a match that is closed may name who is left
        players = frozenset(player.player_id for player in seated if player.player_id)
        self._drop(summary.table_id, keep=players)
        if players:
            self._seated[summary.table_id] = (now + LEASE_S, players)
            self._table_of.update(dict.fromkeys(players, summary.table_id))
        self._forget_silent(now)

    @property
    def seated(self) -> int:
        """How many players sit at tables."""
        self._forget_silent(time.monotonic())
        return len(self._table_of)

    def hint(self, player_id: str) -> str:
        """The table at which a player probably sits; empty when none has said so lately."""
        table_id = self._table_of.get(player_id, "")
        return table_id if table_id and self._seated[table_id][0] > time.monotonic() else ""

    async def table_of(self, player: common_pb2.Player) -> str:
        """The table at which a player sits by its own word, among those heard of; empty when there is none.

        Raises Refusal UNAVAILABLE when the table service does not answer.
        """
        table_id = self.hint(player.player_id)
        return table_id if table_id and await self.sits_at(player, table_id) else ""

    async def sits_at(self, player: common_pb2.Player, table_id: str) -> bool:
        """Whether a player has a seat at a table that is not closed, by its own word. Raises as `table_of`."""
        request = table_pb2.GetTableRequest(table_id=table_id)
        metadata = [*identity.metadata(player), ("x-table-id", table_id)]
        try:
            call = self._tables.GetTable(request, timeout=_TIMEOUT_S, metadata=metadata)
            snapshot = (await remote.ask(call, "table")).snapshot
        except remote.Silence:
            raise
        except Refusal:  # closed, forgotten, or not for him
            return False
        # A closed table still tells who sat there last.
        return snapshot.you >= 0 and not snapshot.observing and snapshot.clock.phase != events_pb2.PHASE_CLOSED

    @contextlib.asynccontextmanager
    async def listening(self, bus: NatsClient) -> AsyncIterator[None]:
        """Takes in the reports of all tables."""

        async def on_message(message: Msg) -> None:
            with contextlib.suppress(DecodeError):
                self.report(lobby_pb2.TableSummary.FromString(message.data))

        subscription = await bus.subscribe(SUBJECT, cb=on_message)
        try:
            yield
        finally:
            if not bus.is_closed:
                await subscription.unsubscribe()

    def _forget_silent(self, now: float) -> None:
        while self._seated and next(iter(self._seated.values()))[0] <= now:
            self._drop(next(iter(self._seated)))

    def _drop(self, table_id: str, keep: frozenset[str] = frozenset()) -> None:
        _, players = self._seated.pop(table_id, (0.0, frozenset()))
        for player_id in players - keep:
            if self._table_of.get(player_id) == table_id:
                del self._table_of[player_id]
