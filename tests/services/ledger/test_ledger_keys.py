"""Keys: the same request gets the first answer, another one is refused, and a player sits in one open hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2
from doudizhu.refusal import Refusal
from servicekit import errors
from tests.services.ledger.harness import Ledger
from tests.services.ledger.records import record

Fresh = Callable[[str], str]


async def seated(ledger: Ledger, fresh: Fresh, chips: int = 1000) -> list[str]:
    players = [fresh("p") for _ in range(3)]
    for player_id in players:
        await ledger.internal.Grant(
            ledger_pb2.GrantRequest(key=fresh("signup:"), player_id=player_id, chips=chips, kind="signup")
        )
    return players


async def opened(ledger: Ledger, fresh: Fresh) -> tuple[str, list[str]]:
    players, hand_id = await seated(ledger, fresh), fresh("hand")
    await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players))
    return hand_id, players


async def refusal(call: Awaitable[Any]) -> Refusal:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    found = errors.from_rpc_error(caught.value)
    assert found is not None
    return found


def settle(record_of_hand: Any) -> ledger_pb2.SettleRequest:
    return ledger_pb2.SettleRequest(record=record_of_hand)


async def test_a_repeat_gets_the_first_answer(ledger: Ledger, fresh: Fresh) -> None:
    players = await seated(ledger, fresh)
    open_request = ledger_pb2.OpenHandRequest(hand_id=fresh("hand"), player_ids=players, minimum_chips=5)
    first = await ledger.internal.OpenHand(open_request)
    repeated = await ledger.internal.OpenHand(open_request)
    assert (repeated.result, repeated.carried_chips) == (ledger_pb2.RESULT_REPLAYED, first.carried_chips)
    request = settle(record(open_request.hand_id, players, winner="landlord", landlord=1, multiplier=2, rake=1))
    applied = await ledger.internal.Settle(request)
    again = await ledger.internal.Settle(request)
    assert applied.result == ledger_pb2.RESULT_APPLIED
    assert again.result == ledger_pb2.RESULT_REPLAYED
    assert again.settlement == applied.settlement


async def test_a_hand_that_has_ended_is_not_opened_again(ledger: Ledger, fresh: Fresh) -> None:
    settled_id, players = await opened(ledger, fresh)
    await ledger.internal.Settle(settle(record(settled_id, players, winner="farmers", landlord=0)))
    voided_id, others = await opened(ledger, fresh)
    await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=voided_id, reason="test"))
    for hand_id, player_ids in ((settled_id, players), (voided_id, others)):
        again = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=player_ids)
        assert (await refusal(ledger.internal.OpenHand(again))).reason == "HAND_OVER"
        balance = ledger_pb2.GetBalanceRequest()
        seat = await ledger.public.GetBalance(balance, metadata=(("x-player-id", player_ids[0]),))
        assert seat.hand_id == ""


async def test_many_repeats_at_once_settle_once(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    request = settle(record(hand_id, players, winner="farmers", landlord=0, multiplier=3))
    replies = await asyncio.gather(*(ledger.internal.Settle(request) for _ in range(50)))
    assert [reply.result for reply in replies].count(ledger_pb2.RESULT_APPLIED) == 1
    assert all(reply.settlement == replies[0].settlement for reply in replies)


async def test_a_known_key_with_another_request_conflicts(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    one = settle(record(hand_id, players, winner="farmers", landlord=0, multiplier=3))
    other = settle(record(hand_id, players, winner="farmers", landlord=0, multiplier=4))
    both = await asyncio.gather(ledger.internal.Settle(one), ledger.internal.Settle(other), return_exceptions=True)
    failed = [each for each in both if isinstance(each, grpc.aio.AioRpcError)]
    assert len(failed) == 1
    found = errors.from_rpc_error(failed[0])
    assert found is not None
    assert found.reason == "KEY_CONFLICT"
    reopened = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players, minimum_chips=7)
    assert (await refusal(ledger.internal.OpenHand(reopened))).reason == "KEY_CONFLICT"
    key = fresh("gift:")
    await ledger.internal.Grant(ledger_pb2.GrantRequest(key=key, player_id=players[0], chips=5, kind="gift"))
    bare = ledger_pb2.GrantRequest(key=hand_id, player_id=players[0], chips=5, kind="gift")
    assert (await refusal(ledger.internal.Grant(bare))).reason == "INVALID"  # it would be a hand's key too
    other_gift = ledger_pb2.GrantRequest(key=key, player_id=players[0], chips=6, kind="gift")
    assert (await refusal(ledger.internal.Grant(other_gift))).reason == "KEY_CONFLICT"


async def test_a_player_is_in_at_most_one_open_hand(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    others = await seated(ledger, fresh)
    second = ledger_pb2.OpenHandRequest(hand_id=fresh("hand"), player_ids=[others[0], players[1], others[1]])
    found = await refusal(ledger.internal.OpenHand(second))
    assert (found.reason, found.data) == ("PLAYER_IN_HAND", {"player_id": players[1], "hand_id": hand_id})
    assert (
        await ledger.public.GetBalance(ledger_pb2.GetBalanceRequest(), metadata=(("x-player-id", others[0]),))
    ).hand_id == ""
    await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hand_id, reason="test"))
    assert (await ledger.internal.OpenHand(second)).result == ledger_pb2.RESULT_APPLIED


async def test_many_hands_at_once_seat_a_player_once(ledger: Ledger, fresh: Fresh) -> None:
    star = (await seated(ledger, fresh))[0]
    requests = []
    for _ in range(20):
        one, two, _ = await seated(ledger, fresh)
        requests.append(ledger_pb2.OpenHandRequest(hand_id=fresh("hand"), player_ids=[one, star, two]))
    replies = await asyncio.gather(*(ledger.internal.OpenHand(each) for each in requests), return_exceptions=True)
    assert sum(not isinstance(reply, BaseException) for reply in replies) == 1


async def test_below_the_minimum_is_refused(ledger: Ledger, fresh: Fresh) -> None:
    players = await seated(ledger, fresh)
    players[2] = fresh("new")
    request = ledger_pb2.OpenHandRequest(hand_id=fresh("hand"), player_ids=players, minimum_chips=30)
    found = await refusal(ledger.internal.OpenHand(request))
    assert (found.reason, found.data) == (
        "BELOW_MINIMUM", {"player_id": players[2], "balance": "0", "minimum": "30"}
    )  # fmt: skip
    request.minimum_chips = 0
    assert list((await ledger.internal.OpenHand(request)).carried_chips) == [1000, 1000, 0]


async def test_void_closes_once_and_moves_nothing(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    request = ledger_pb2.VoidHandRequest(hand_id=hand_id, reason="nobody bid")
    assert (await ledger.internal.VoidHand(request)).result == ledger_pb2.RESULT_APPLIED
    assert (await ledger.internal.VoidHand(request)).result == ledger_pb2.RESULT_REPLAYED
    late = settle(record(hand_id, players, winner="farmers", landlord=0))
    assert (await refusal(ledger.internal.Settle(late))).reason == "HAND_OVER"
    settled_id, settled_players = await opened(ledger, fresh)
    await ledger.internal.Settle(settle(record(settled_id, settled_players, winner="farmers", landlord=0)))
    assert (
        await refusal(ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=settled_id)))
    ).reason == "HAND_OVER"
    assert (await refusal(ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id="none")))).reason == "NOT_FOUND"


async def test_what_was_never_opened_is_not_settled(ledger: Ledger, fresh: Fresh) -> None:
    players = await seated(ledger, fresh)
    unknown = settle(record(fresh("hand"), players, winner="farmers", landlord=0))
    assert (await refusal(ledger.internal.Settle(unknown))).reason == "NOT_FOUND"
    hand_id, members = await opened(ledger, fresh)
    strangers = settle(record(hand_id, [members[1], members[0], members[2]], winner="farmers", landlord=0))
    assert (await refusal(ledger.internal.Settle(strangers))).reason == "KEY_CONFLICT"


@pytest.mark.parametrize(
    ("field", "facts"),
    [
        ("winner", {}),
        ("winner", {"winner": "landlord", "landlord": 0, "fled": 1, "flee_multiplier": 1}),
        ("landlord", {"winner": "landlord"}),
        ("landlord", {"winner": "landlord", "landlord": 3}),
        ("level", {"winner": "landlord", "landlord": 0, "level": 0}),
        ("multiplier", {"winner": "landlord", "landlord": 0, "multiplier": 0}),
        ("multiplier", {"fled": 0, "multiplier": 1, "flee_multiplier": 0}),
        ("multiplier", {"winner": "landlord", "landlord": 0, "multiplier": 2**62}),
        ("elapsed_s", {"winner": "landlord", "landlord": 0, "elapsed_s": -1}),
    ],
)
async def test_an_impossible_outcome_is_refused(field: str, facts: Any, ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    found = await refusal(ledger.internal.Settle(settle(record(hand_id, players, **facts))))
    assert (found.reason, found.field) == ("INVALID", f"record.outcome.{field}")
    assert (await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hand_id))).result
