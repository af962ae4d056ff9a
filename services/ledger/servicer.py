"""Protobuf in, domain call, protobuf out."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import identity, ids
from services.ledger import audit, queries, wire
from services.ledger.batcher import Batcher
from services.ledger.grants import ClaimRelief, Given, ReliefTerms
from services.ledger.leaders import Leaders
from services.ledger.ledger import Opened, OpenHand, Reason, Settled, VoidHand
from services.ledger.reversals import Reverse, Reversed
from services.ledger.trouble import Reads

_PAGE: Final = 50
_LEADERS: Final = 50
_HANDS: Final = 100
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Relief:
    """The terms of relief, and when a day of it begins: hours after midnight UTC, negative in the east."""

    terms: ReliefTerms
    day_begins_utc_h: float

    def today(self) -> date:
        """The day that the clock shows now."""
        return (datetime.now(UTC) - timedelta(hours=self.day_begins_utc_h)).date()


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """What players may ask."""

    def __init__(self, reads: Reads, batcher: Batcher, relief: Relief) -> None:
        self._reads = reads
        self._batcher = batcher
        self._relief = relief
        self._leaders = Leaders(reads)

    async def GetBalance(self, request: ledger_pb2.GetBalanceRequest, context: Any) -> ledger_pb2.GetBalanceResponse:
        player_id = identity.player_id(context)
        chips, rating, hand_id = (await queries.balances(self._reads, [player_id])).get(player_id, (0, 0, ""))
        return ledger_pb2.GetBalanceResponse(balance=wire.balance(player_id, chips, rating), hand_id=hand_id)

    async def ListTransfers(
        self, request: ledger_pb2.ListTransfersRequest, context: Any
    ) -> ledger_pb2.ListTransfersResponse:
        player_id, size = identity.player_id(context), request.page_size or _PAGE
        below = _cursor(request.page_token)
        # A page takes from two accounts, each in its own order; the cursor holds a place in each.
        chips = await queries.statement(self._reads, player_id, "chips", below["chips"], size + 1)
        rating = await queries.statement(self._reads, player_id, "rating", below["rating"], size + 1)
        merged = list(heapq.merge(chips, rating, key=lambda row: row["at"], reverse=True))
        page = merged[:size]
        for row in page:
            below[row["unit"]] = row["seq"]
        token = f"{below['chips']}.{below['rating']}" if len(merged) > size else ""
        return ledger_pb2.ListTransfersResponse(transfers=[wire.transfer(row) for row in page], next_page_token=token)

    async def GetHand(self, request: ledger_pb2.GetHandRequest, context: Any) -> ledger_pb2.GetHandResponse:
        hand = await queries.settled_hand(self._reads, request.hand_id)
        if hand is None:
            raise Refusal(Reason.NOT_FOUND, f"No settled hand {request.hand_id}.", field="hand_id")
        return wire.settled_hand(hand)

    async def ListLeaders(self, request: ledger_pb2.ListLeadersRequest, context: Any) -> ledger_pb2.ListLeadersResponse:
        rows = await self._leaders.get(request.unit or "rating", request.limit or _LEADERS)
        return ledger_pb2.ListLeadersResponse(leaders=[wire.balance(*row) for row in rows])

    async def ClaimRelief(self, request: ledger_pb2.ClaimReliefRequest, context: Any) -> ledger_pb2.ClaimReliefResponse:
        player_id, terms = identity.player_id(context), self._relief.terms
        key = f"relief:{player_id}:{request.command_id}"
        given = await self._batcher.submit(ClaimRelief(key, player_id, self._relief.today(), terms))
        assert isinstance(given, Given)
        assert given.relief_number is not None
        return ledger_pb2.ClaimReliefResponse(
            result=wire.result(given.replayed),
            chips=given.chips,
            balance=wire.balance(player_id, given.chips_after, given.rating_after),
            claims_left=max(terms.per_day - given.relief_number, 0),
        )


class LedgerInternalServicer(ledger_pb2_grpc.LedgerInternalServiceServicer):
    """What services ask of the ledger."""

    def __init__(self, reads: Reads, batcher: Batcher) -> None:
        self._reads = reads
        self._batcher = batcher

    async def OpenHand(self, request: ledger_pb2.OpenHandRequest, context: Any) -> ledger_pb2.OpenHandResponse:
        opened = await self._batcher.submit(
            OpenHand(request.hand_id, request.table_id, tuple(request.player_ids), request.minimum_chips)
        )
        assert isinstance(opened, Opened)
        return ledger_pb2.OpenHandResponse(result=wire.result(opened.replayed), carried_chips=opened.hand.carried)

    async def Settle(self, request: ledger_pb2.SettleRequest, context: Any) -> ledger_pb2.SettleResponse:
        ids.bind(hand=request.record.hand_id)
        settled = await self._batcher.submit(wire.settle_request(request.record))
        assert isinstance(settled, Settled)
        return ledger_pb2.SettleResponse(result=wire.result(settled.replayed), settlement=wire.settlement(settled.hand))

    async def VoidHand(self, request: ledger_pb2.VoidHandRequest, context: Any) -> ledger_pb2.VoidHandResponse:
        player_ids = await queries.hand_players(self._reads, request.hand_id)
        voided = await self._batcher.submit(VoidHand(request.hand_id, player_ids, request.reason))
        return ledger_pb2.VoidHandResponse(result=wire.result(voided.replayed))

    async def Grant(self, request: ledger_pb2.GrantRequest, context: Any) -> ledger_pb2.GrantResponse:
        given = await self._batcher.submit(wire.grant_request(request))
        assert isinstance(given, Given)
        return ledger_pb2.GrantResponse(
            result=wire.result(given.replayed),
            balance=wire.balance(given.player_id, given.chips_after, given.rating_after),
        )

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, context: Any
    ) -> ledger_pb2.ListBalancesResponse:
        found = await queries.balances(self._reads, list(request.player_ids))
        return ledger_pb2.ListBalancesResponse(
            balances=[wire.balance(each, *found.get(each, (0, 0, ""))[:2]) for each in request.player_ids]
        )

    async def ListHands(self, request: ledger_pb2.ListHandsRequest, context: Any) -> ledger_pb2.ListHandsResponse:
        hands = await queries.settled_hands(self._reads, request.since_ms, request.limit or _HANDS)
        return ledger_pb2.ListHandsResponse(hands=[wire.settled_hand(hand) for hand in hands])

    async def ListOpenHands(
        self, request: ledger_pb2.ListOpenHandsRequest, context: Any
    ) -> ledger_pb2.ListOpenHandsResponse:
        rows = await queries.open_hands(self._reads, request.older_than_ms, request.limit or _HANDS)
        return ledger_pb2.ListOpenHandsResponse(hands=[wire.open_hand(row) for row in rows])

    async def Reverse(self, request: ledger_pb2.ReverseRequest, context: Any) -> ledger_pb2.ReverseResponse:
        player_ids = await queries.hand_players(self._reads, request.hand_id)
        done = await self._batcher.submit(Reverse(request.hand_id, player_ids, request.operator, request.reason))
        assert isinstance(done, Reversed)
        return ledger_pb2.ReverseResponse(
            result=wire.result(done.replayed),
            balances=wire.balances_after(done),
            chips=done.chips,
            rating=done.rating,
            shortage_chips=done.shortage_chips,
            shortage_rating=done.shortage_rating,
        )

    async def Audit(self, request: ledger_pb2.AuditRequest, context: Any) -> ledger_pb2.AuditResponse:
        report = await self._reads.in_snapshot(
            lambda connection: audit.audit(
                connection, request.since_ms, request.open_limit_ms, records=not request.skip_records
            )
        )
        totals: dict[str, Any] = report.totals
        return ledger_pb2.AuditResponse(faults=report.faults, records_checked=report.records_checked, **totals)


def _cursor(token: str) -> dict[str, int]:
    """Below which seq each account's part of the next page lies."""
    if not token:
        return {"chips": _NEWEST, "rating": _NEWEST}
    places = token.split(".")
    if len(places) != 2 or not all(re.fullmatch("[0-9]{1,19}", place) and int(place) <= _NEWEST for place in places):
        raise Refusal(Reason.INVALID, "This is no page token of ours.", field="page_token")
    return {"chips": int(places[0]), "rating": int(places[1])}
