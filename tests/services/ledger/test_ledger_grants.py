"""Relief and reversal: how often, for whom, never below 0, the shortage on the books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2
from services.ledger.grants import ReliefTerms
from services.ledger.servicer import Relief
from tests.services.ledger.harness import RELIEF, Ledger
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, refusal, seated, settle

Fresh = Callable[[str], str]


async def claim(ledger: Ledger, player_id: str, command_id: str) -> ledger_pb2.ClaimReliefResponse:
    request = ledger_pb2.ClaimReliefRequest(command_id=command_id)
    return await ledger.public.ClaimRelief(request, metadata=(("x-player-id", player_id),))


async def balances(ledger: Ledger, players: Sequence[str]) -> list[tuple[int, int]]:
    reply = await ledger.internal.ListBalances(ledger_pb2.ListBalancesRequest(player_ids=players))
    return [(each.chips, each.rating) for each in reply.balances]


async def lose_all(ledger: Ledger, fresh: Fresh, player_id: str) -> None:
    """He sits down with what he has and loses it in one hand of `classic`."""
    hand_id, others = fresh("hand"), await seated(ledger, fresh)
    players = [player_id, *others[:2]]
    await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players))
    facts: dict[str, Any] = {"book": "classic", "winner": "landlord", "landlord": 1, "multiplier": 64, "base": 1000}
    await ledger.internal.Settle(settle(record(hand_id, players, **facts)))


async def test_relief_is_for_the_broke_and_so_many_times_a_day(ledger: Ledger, fresh: Fresh) -> None:
    player_id = fresh("p")
    first = await claim(ledger, player_id, "one")
    assert (first.chips, first.balance.chips, first.claims_left) == (RELIEF.chips, RELIEF.chips, 1)
    assert (await claim(ledger, player_id, "one")).result == ledger_pb2.RESULT_REPLAYED
    found = await refusal(claim(ledger, player_id, "two"))
    assert (found.reason, found.data) == ("LIMIT_REACHED", {"balance": "100", "below": "50"})
    await lose_all(ledger, fresh, player_id)
    second = await claim(ledger, player_id, "two")
    assert (second.result, second.claims_left) == (ledger_pb2.RESULT_APPLIED, 0)
    await lose_all(ledger, fresh, player_id)
    found = await refusal(claim(ledger, player_id, "three"))
    assert (found.reason, found.data) == ("LIMIT_REACHED", {"claimed": "2", "per_day": "2"})


async def test_relief_is_not_for_who_sits_in_a_hand(ledger: Ledger, fresh: Fresh) -> None:
    player_id, others = fresh("p"), await seated(ledger, fresh)
    request = ledger_pb2.OpenHandRequest(hand_id=fresh("hand"), player_ids=[player_id, *others[:2]])
    await ledger.internal.OpenHand(request)
    assert (await refusal(claim(ledger, player_id, "one"))).reason == "PLAYER_IN_HAND"


async def test_relief_claimed_at_once_is_given_once(ledger: Ledger, fresh: Fresh) -> None:
    player_id = fresh("p")
    replies = await asyncio.gather(
        *(claim(ledger, player_id, f"command-{number}") for number in range(12)), return_exceptions=True
    )
    assert sum(not isinstance(reply, BaseException) for reply in replies) == 1
    assert await balances(ledger, [player_id]) == [(RELIEF.chips, 0)]


@pytest.mark.parametrize(("day_begins", "day"), [(-8.0, "2026-03-02"), (0.0, "2026-03-01"), (4.0, "2026-03-01")])
def test_a_day_begins_where_the_operator_says(day_begins: float, day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    from services.ledger import servicer

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Clock:
            return cls(2026, 3, 1, 20, 0, tzinfo=UTC)

    monkeypatch.setattr(servicer, "datetime", Clock)
    assert Relief(ReliefTerms(1, 1, 1), day_begins).today().isoformat() == day


async def test_a_reversal_gives_everything_back(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    before = await balances(ledger, players)
    await ledger.internal.Settle(
        settle(record(hand_id, players, winner="landlord", landlord=1, multiplier=6, base=10, rake=5))
    )
    request = ledger_pb2.ReverseRequest(hand_id=hand_id, operator="eve", reason="two seats colluded")
    reply = await ledger.internal.Reverse(request)
    assert (reply.result, list(reply.chips), reply.shortage_chips) == (ledger_pb2.RESULT_APPLIED, [65, -115, 65], 0)
    assert list(reply.rating) == [0, -6, 0]
    assert await balances(ledger, players) == before
    again = await ledger.internal.Reverse(request)
    assert again.result == ledger_pb2.RESULT_REPLAYED
    assert again.balances == reply.balances
    request.reason = "another reason"
    assert (await refusal(ledger.internal.Reverse(request))).reason == "KEY_CONFLICT"
    audit = await ledger.internal.Audit(ledger_pb2.AuditRequest(skip_records=True))
    assert list(audit.faults) == []


async def test_a_reversal_books_what_a_winner_no_longer_has(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    facts: dict[str, Any] = {"winner": "landlord", "landlord": 0, "multiplier": 30, "base": 10}
    await ledger.internal.Settle(settle(record(hand_id, players, **facts)))
    await lose_all(ledger, fresh, players[0])
    reply = await ledger.internal.Reverse(ledger_pb2.ReverseRequest(hand_id=hand_id, operator="eve", reason="error"))
    assert list(reply.chips) == [0, 300, 300]
    assert reply.shortage_chips == 600
    assert await balances(ledger, players) == [(0, 0), (1000, 0), (1000, 0)]
    assert list((await ledger.internal.Audit(ledger_pb2.AuditRequest(skip_records=True))).faults) == []


async def test_only_a_settlement_is_reversed(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, _ = await opened(ledger, fresh)
    request = ledger_pb2.ReverseRequest(hand_id=hand_id, operator="eve", reason="error")
    assert (await refusal(ledger.internal.Reverse(request))).reason == "NOT_FOUND"
    await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hand_id))
    assert (await refusal(ledger.internal.Reverse(request))).reason == "HAND_OVER"
    request.hand_id = "nobody-opened-it"
    with pytest.raises(grpc.aio.AioRpcError, match="No settled hand"):
        await ledger.internal.Reverse(request)
