"""Protobuf in, domain call, protobuf out."""

from __future__ import annotations

import heapq
from typing import Any, Final

import asyncpg

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import identity
from services.ledger import store, wire
from services.ledger.batcher import Batcher
from services.ledger.grants import Given, Grant
from services.ledger.ledger import Opened, OpenHand, Reason, Settled, VoidHand

_PAGE: Final = 50
_LEADERS: Final = 50
_HANDS: Final = 100
_NEWEST: Final = 2**63 - 1


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """What players may read."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def GetBalance(self, request: ledger_pb2.GetBalanceRequest, context: Any) -> ledger_pb2.GetBalanceResponse:
        player_id = identity.player_id(context)
        chips, rating, hand_id = (await store.balances(self._pool, [player_id])).get(player_id, (0, 0, ""))
        return ledger_pb2.GetBalanceResponse(balance=wire.balance(player_id, chips, rating), hand_id=hand_id)

    async def ListTransfers(
        self, request: ledger_pb2.ListTransfersRequest, context: Any
    ) -> ledger_pb2.ListTransfersResponse:
        player_id, size = identity.player_id(context), request.page_size or _PAGE
        below = _cursor(request.page_token)
        # A page takes from two accounts, each in its own order; the cursor holds a place in each.
        chips = await store.statement(self._pool, player_id, "chips", below["chips"], size + 1)
        rating = await store.statement(self._pool, player_id, "rating", below["rating"], size + 1)
        merged = list(heapq.merge(chips, rating, key=lambda row: row["at"], reverse=True))
        page = merged[:size]
        for row in page:
            below[row["unit"]] = row["seq"]
        token = f"{below['chips']}.{below['rating']}" if len(merged) > size else ""
        return ledger_pb2.ListTransfersResponse(transfers=[wire.transfer(row) for row in page], next_page_token=token)

    async def GetHand(self, request: ledger_pb2.GetHandRequest, context: Any) -> ledger_pb2.GetHandResponse:
        hand = await store.settled_hand(self._pool, request.hand_id)
        if hand is None:
            raise Refusal(Reason.NOT_FOUND, f"No settled hand {request.hand_id}.", field="hand_id")
        return wire.settled_hand(hand)

    async def ListLeaders(self, request: ledger_pb2.ListLeadersRequest, context: Any) -> ledger_pb2.ListLeadersResponse:
        rows = await store.leaders(self._pool, request.unit or "rating", request.limit or _LEADERS)
        return ledger_pb2.ListLeadersResponse(leaders=[wire.balance(*row) for row in rows])


class LedgerInternalServicer(ledger_pb2_grpc.LedgerInternalServiceServicer):
    """What services ask of the ledger."""

    def __init__(self, pool: asyncpg.Pool, batcher: Batcher) -> None:
        self._pool = pool
        self._batcher = batcher

    async def OpenHand(self, request: ledger_pb2.OpenHandRequest, context: Any) -> ledger_pb2.OpenHandResponse:
        opened = await self._batcher.submit(
            OpenHand(request.hand_id, request.table_id, tuple(request.player_ids), request.minimum_chips)
        )
        assert isinstance(opened, Opened)
        return ledger_pb2.OpenHandResponse(result=wire.result(opened.replayed), carried_chips=opened.hand.carried)

    async def Settle(self, request: ledger_pb2.SettleRequest, context: Any) -> ledger_pb2.SettleResponse:
        settled = await self._batcher.submit(wire.settle_request(request.record))
        assert isinstance(settled, Settled)
        return ledger_pb2.SettleResponse(result=wire.result(settled.replayed), settlement=wire.settlement(settled.hand))

    async def VoidHand(self, request: ledger_pb2.VoidHandRequest, context: Any) -> ledger_pb2.VoidHandResponse:
        player_ids = await store.hand_players(self._pool, request.hand_id)
        voided = await self._batcher.submit(VoidHand(request.hand_id, player_ids, request.reason))
        return ledger_pb2.VoidHandResponse(result=wire.result(voided.replayed))

    async def Grant(self, request: ledger_pb2.GrantRequest, context: Any) -> ledger_pb2.GrantResponse:
        given = await self._batcher.submit(Grant(request.key, request.player_id, request.kind, request.chips))
        assert isinstance(given, Given)
        return ledger_pb2.GrantResponse(
            result=wire.result(given.replayed),
            balance=wire.balance(given.player_id, given.chips_after, given.rating_after),
        )

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, context: Any
    ) -> ledger_pb2.ListBalancesResponse:
        found = await store.balances(self._pool, list(request.player_ids))
        return ledger_pb2.ListBalancesResponse(
            balances=[wire.balance(each, *found.get(each, (0, 0, ""))[:2]) for each in request.player_ids]
        )

    async def ListHands(self, request: ledger_pb2.ListHandsRequest, context: Any) -> ledger_pb2.ListHandsResponse:
        hands = await store.settled_hands(self._pool, request.since_ms, request.limit or _HANDS)
        return ledger_pb2.ListHandsResponse(hands=[wire.settled_hand(hand) for hand in hands])

    async def Audit(self, request: ledger_pb2.AuditRequest, context: Any) -> ledger_pb2.AuditResponse:
        totals: Any = await store.totals(self._pool)
        return ledger_pb2.AuditResponse(**totals)


def _cursor(token: str) -> dict[str, int]:
    """Below which seq each account's part of the next page lies."""
    if not token:
        return {"chips": _NEWEST, "rating": _NEWEST}
    chips, _, rating = token.partition(".")
    if not (chips.isascii() and chips.isdigit() and rating.isascii() and rating.isdigit()):
        raise Refusal(Reason.INVALID, "This is no page token of ours.", field="page_token")
    return {"chips": int(chips), "rating": int(rating)}
