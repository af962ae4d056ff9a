"""What an operator can have done: each by the service that it concerns. Who may ask, and that it is written down, is
settled before (admin_servicer.py, acts.py)."""

from __future__ import annotations

import time
from typing import Final

import nats.errors
from nats.aio.client import Client as NatsClient

from ddz.admin.v1 import admin_pb2, orders_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import errands, orders, remote
from services.lobby.account import Account, Reason, ends_at_ms, number_of
from services.lobby.decrees import Decrees
from services.lobby.profiles import Profiles

_TIMEOUT_S: Final = 5.0
_NODE_S: Final = 3.0  # a node answers at once
_ALL_S: Final = 1.0  # how many there are nobody knows


class Admin:
    """The acts."""

    def __init__(
        self,
        decrees: Decrees,
        profiles: Profiles,
        bus: NatsClient,
        table: table_pb2_grpc.TableInternalServiceAsyncStub,
        ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
    ) -> None:
        self._decrees = decrees
        self._profiles = profiles
        self._bus = bus
        self._table = table
        self._ledger = ledger

    async def require_operator(self, player_id: str) -> None:
        """Raises FORBIDDEN for who is no operator any more, though his token says so."""
        if not await self._decrees.is_operator(number_of(player_id)):
            raise Refusal(Reason.FORBIDDEN, "This is for operators.")

    # ---- nodes and rooms -------------------------------------------------------------------------------------------

    async def set_draining(self, node_id: str, draining: bool) -> orders_pb2.Node:
        """The node as it is then; raises UNAVAILABLE when none of that id answers, though one may have been told."""
        errand = orders_pb2.Errand(set_draining=orders_pb2.SetDraining(node_id=node_id, draining=draining))
        reports = await self._send(errand, _NODE_S, first=True)
        if not reports:
            words = f"No table node {node_id} answers; ListNodes has those that do."
            raise Refusal(Reason.UNAVAILABLE, words, field="node_id")
        return reports[0].node

    async def nodes(self) -> list[orders_pb2.Node]:
        """The table nodes that answer, by id."""
        reports = await self._send(orders_pb2.Errand(tell_node=orders_pb2.TellNode()), _ALL_S)
        return sorted((report.node for report in reports), key=lambda node: node.node_id)

    async def reload_rooms(self) -> admin_pb2.ReloadRoomsResponse:
        """What each process has of the rooms now, by its name; raises UNAVAILABLE when none answers."""
        reports = await self._send(orders_pb2.Errand(reread_rooms=orders_pb2.RereadRooms()), _ALL_S)
        if not reports:
            raise Refusal(Reason.UNAVAILABLE, "No process answers; try again in a moment.")
        read = sorted((report.rooms_read for report in reports), key=lambda one: one.process)
        return admin_pb2.ReloadRoomsResponse(processes=read)

    async def _send(self, errand: orders_pb2.Errand, listen_s: float, first: bool = False) -> list[orders_pb2.Report]:
        try:
            return await errands.send(self._bus, errand, listen_s=listen_s, first=first)
        except nats.errors.Error:
            raise Refusal(Reason.UNAVAILABLE, "NATS does not answer; try again in a moment.") from None

    # ---- everybody -------------------------------------------------------------------------------------------------

    async def set_maintenance(self, on: bool, message: str) -> None:
        """Closes or opens the system; raises INVALID without a message to close it with."""
        if on and not message.strip():
            raise Refusal(Reason.INVALID, "People must be told something: give a message.", field="message")
        await self._decrees.set_maintenance(message.strip() if on else None)
        await self._decrees.mirror()

    # ---- players ---------------------------------------------------------------------------------------------------

    async def mute(self, player_id: str, until_ms: int) -> str:
        """Mutes a player; what he is called now. Raises NOT_FOUND, INVALID for an end that is past."""
        account = await self._profiles.account(player_id)
        await self._decrees.mute(account.number, ends_at_ms(until_ms, _now_ms()))
        await self._decrees.mirror()
        return orders.neutral_name(player_id)

    async def unmute(self, player_id: str) -> str:
        """Ends a mute; what he is called now. Raises NOT_FOUND."""
        account = await self._profiles.account(player_id)
        await self._decrees.mute(account.number, 0)
        await self._decrees.mirror()
        return account.display_name

    async def ban(self, player_id: str, until_ms: int) -> None:
        """Bans a player; 0 = for ever. Raises NOT_FOUND, INVALID for an end that is past, FORBIDDEN for an operator."""
        account = await self._profiles.account(player_id)
        await self._spare_operators(account)
        await self._decrees.ban(account.number, ends_at_ms(until_ms or orders.FOR_EVER_MS, _now_ms()))
        await self._decrees.mirror()

    async def unban(self, player_id: str) -> None:
        """Ends a ban. Raises NOT_FOUND."""
        account = await self._profiles.account(player_id)
        await self._decrees.ban(account.number, 0)
        await self._decrees.mirror()

    async def _spare_operators(self, account: Account) -> None:
        if await self._decrees.is_operator(account.number):
            raise Refusal(Reason.FORBIDDEN, "An operator is not banned: dismiss him first.", field="player_id")

    # ---- tables and chips ------------------------------------------------------------------------------------------

    async def void_table(self, table_id: str, reason: str) -> str:
        """Ends a table; the hand that is void by it, empty when none was played. Raises NOT_FOUND."""
        request = table_pb2.VoidTableRequest(table_id=table_id, reason=reason)
        call = self._table.VoidTable(request, timeout=_TIMEOUT_S, metadata=[("x-table-id", table_id)])
        return (await remote.ask(call, "table")).hand_id

    async def read_table(self, table_id: str, after_seq: int) -> admin_pb2.ReadTableResponse:
        """What happened at a table, but for the secrets of a live hand. Raises NOT_FOUND."""
        request = table_pb2.ReadLogRequest(table_id=table_id, after_seq=after_seq)
        call = self._table.ReadLog(request, timeout=_TIMEOUT_S, metadata=[("x-table-id", table_id)])
        found = await remote.ask(call, "table")
        return admin_pb2.ReadTableResponse(events=found.events, live_hand_id=found.live_hand_id)

    async def grant(self, key: str, player_id: str, chips: int) -> int:
        """Gives chips, once a key; how many the player has now. Raises NOT_FOUND."""
        await self._profiles.account(player_id)
        request = ledger_pb2.GrantRequest(key=f"gift:{key}", player_id=player_id, chips=chips, kind="gift")
        return (await remote.ask(self._ledger.Grant(request, timeout=_TIMEOUT_S), "ledger")).balance.chips

    async def reverse(self, hand_id: str, operator_id: str, reason: str) -> admin_pb2.ReverseResponse:
        """Takes a settlement back. Raises what the ledger refuses with."""
        request = ledger_pb2.ReverseRequest(hand_id=hand_id, operator=operator_id, reason=reason)
        found = await remote.ask(self._ledger.Reverse(request, timeout=_TIMEOUT_S), "ledger")
        return admin_pb2.ReverseResponse(
            player_ids=[balance.player_id for balance in found.balances],
            chips=found.chips,
            rating=found.rating,
            shortage_chips=found.shortage_chips,
            shortage_rating=found.shortage_rating,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
