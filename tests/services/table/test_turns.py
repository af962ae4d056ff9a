"""Turns and clocks on two nodes. Rows of area `turn` in the reports of other systems: BR-059 to 072."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import table_pb2
from services.table import commands
from tests.services.table.stack import PASS, Client, Stack, act, look, until
from tests.services.table.test_streams import LONG, close, happy_hand, to_play

REASON = common_pb2.Reason


async def on_turn(stack: Stack, table_id: str, ids: list[str]) -> int:
    """The seat that is waited for."""
    return (await look(stack.nodes[0], table_id, ids[0])).clock.seat


async def lead(stack: Stack, table_id: str, ids: list[str], landlord: int, node: int = 0) -> int:
    """The landlord puts down his lowest card, which is returned."""
    card = (await look(stack.nodes[node], table_id, ids[landlord])).seats[landlord].cards.cards[0]
    await act(stack.nodes[node], table_id, ids[landlord], play=hand_pb2.PlayCards(cards=[card]))
    return card


def told_of(client: Client, *names: str) -> list[Any]:
    """The events of these names, in order."""
    return [event for event in client.events if event.WhichOneof("event") in names]


async def test_br_059_at_the_last_moment_either_the_play_or_the_auto_play_applies_and_not_both(stack: Stack) -> None:
    for _ in range(4):
        _, _, clients = await happy_hand(stack, auction_ms=150)
        seat = clients[0].last("dealt").first_seat
        opening = next(event for event in clients[0].events if event.HasField("dealt"))
        await asyncio.sleep(max(0.0, (opening.clock.deadline_ms - stack.nodes[0].service.node.now_ms()) / 1000))
        asked = await clients[seat].act(bid=hand_pb2.Bid(level=1))
        await clients[0].until_told("bid_made")
        bids = [event.bid_made for event in told_of(clients[0], "bid_made") if event.bid_made.seat == seat]
        assert len(bids) == 1
        assert isinstance(asked, table_pb2.Accepted) is (not bids[0].by_trustee)
        await close(clients)


async def test_br_060_one_clock_per_table_however_often_it_is_restored(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, auction_ms=200)
    for number in range(6):
        await look(stack.nodes[number % 2], table_id, ids[0])
        for node in stack.nodes:
            node.service.node.actor(table_id).tell(commands.Tick())
    await clients[0].until_told("bid_made", times=3)
    bids = told_of(clients[0], "bid_made")
    assert len({event.bid_made.seat for event in bids[:3]}) == 3
    assert all(second.at_ms - first.at_ms >= 190 for first, second in itertools.pairwise(bids))
    await close(clients)


async def test_br_061_an_invalid_message_does_not_stop_the_clock(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, auction_ms=3_000)
    seat = clients[0].last("dealt").first_seat
    deadline = next(event.clock.deadline_ms for event in clients[0].events if event.HasField("dealt"))
    refused = await clients[seat].act(play=hand_pb2.PlayCards(cards=[1]))
    assert isinstance(refused, table_pb2.Refused)
    assert (await look(stack.nodes[1], table_id, ids[0])).clock.deadline_ms == deadline
    await clients[0].until_told("bid_made")
    bid = told_of(clients[0], "bid_made")[0]
    assert bid.bid_made.by_trustee
    assert bid.at_ms >= deadline
    await close(clients)


async def test_br_062_silence_is_acted_for_after_the_limit(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack, auction_ms=50)
    bid = await clients[2].until_told("bid_made")
    assert (bid.level, bid.by_trustee) == (0, True)
    await close(clients)


async def test_br_063_an_auto_play_is_flagged_in_the_log_and_in_the_record(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack, first_lead_ms=50, play_ms=50)
    seat = clients[0].last("dealt").first_seat
    await clients[seat].act(bid=hand_pb2.Bid(level=3))
    played = await clients[0].until_told("played")
    assert played.by_trustee
    assert not clients[0].last("bid_made").by_trustee
    await close(clients)


async def test_br_065_who_has_passed_cannot_play_in_the_same_turn(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    landlord = await to_play(stack, table_id, ids)
    await lead(stack, table_id, ids, landlord)
    follower = clients[(landlord + 1) % 3]
    await follower.act(**PASS)
    own = (await look(stack.nodes[1], table_id, follower.player_id)).seats[(landlord + 1) % 3].cards.cards
    refused = await follower.act(play=hand_pb2.PlayCards(cards=[own[-1]]))
    assert refused.refusal.reason == REASON.REASON_NOT_YOUR_TURN
    await close(clients)


async def test_br_067_a_message_before_the_own_turn_is_refused_and_not_queued(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    first = clients[0].last("dealt").first_seat
    early = clients[(first + 1) % 3]
    refused = await early.act(bid=hand_pb2.Bid(level=2))
    assert refused.refusal.reason == REASON.REASON_NOT_YOUR_TURN
    await clients[first].act(bid=hand_pb2.Bid(level=1))
    await clients[0].until_told("bid_made")
    assert await on_turn(stack, table_id, ids) == (first + 1) % 3
    await close(clients)


async def test_br_068_br_069_a_leader_may_not_pass_nor_may_the_landlord_begin_with_one(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack)
    landlord = await to_play(stack, table_id, ids)
    refused = await clients[landlord].act(**PASS)
    assert refused.refusal.reason == REASON.REASON_INVALID_PASS
    await lead(stack, table_id, ids, landlord)
    for step in (1, 2):
        await clients[(landlord + step) % 3].act(**PASS)
    refused = await clients[landlord].act(**PASS)
    assert refused.refusal.reason == REASON.REASON_INVALID_PASS
    await close(clients)


async def test_br_070_the_first_of_two_racing_actions_counts_and_the_other_is_refused(stack: Stack) -> None:
    for _ in range(5):
        table_id, ids, clients = await happy_hand(stack)
        seat = await on_turn(stack, table_id, ids)
        twins = [await stack.client(ids[seat], table_id, node=0).open()]
        racing = [
            act(stack.nodes[number], table_id, ids[seat], bid=hand_pb2.Bid(level=level))
            for number, level in ((0, 1), (1, 2))
        ]
        answers = await asyncio.gather(*racing, return_exceptions=True)
        assert sum(isinstance(answer, int) for answer in answers) == 1
        await clients[(seat + 1) % 3].until_told("bid_made")
        assert len(told_of(clients[(seat + 1) % 3], "bid_made")) == 1
        await close([*clients, *twins])


async def test_br_071_two_misses_in_a_row_host_a_seat_and_an_own_action_between_does_not(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, play_ms=1_500)
    landlord = await to_play(stack, table_id, ids)
    other, third = (landlord + 1) % 3, (landlord + 2) % 3
    for number in range(3):
        await lead(stack, table_id, ids, landlord, node=number % 2)
        if number == 1:
            await act(stack.nodes[0], table_id, ids[other], **PASS)
        await until(lambda: len(told_of(clients[0], "passed")) >= 2 * (number + 1))  # noqa: B023
    # By the events: the landlord's own clock runs meanwhile, and he may be hosted later.
    told = told_of(clients[0], "passed", "trustee_set")
    sixth = [number for number, event in enumerate(told) if event.HasField("passed")][5]
    hosted = [event.trustee_set for event in told[:sixth] if event.HasField("trustee_set")]
    assert [(one.seat, one.on, one.why) for one in hosted] == [(third, True, "misses")]
    passed = [event.passed for event in told[: sixth + 1] if event.HasField("passed")]
    assert [one.by_trustee for one in passed if one.seat == other] == [True, False, True]
    await close(clients)


async def test_br_072_two_reports_of_one_expiry_move_the_turn_once(stack: Stack) -> None:
    table_id, ids, clients = await happy_hand(stack, auction_ms=100)
    deadline = next(event.clock.deadline_ms for event in clients[0].events if event.HasField("dealt"))
    await asyncio.sleep(max(0.0, (deadline - stack.nodes[0].service.node.now_ms()) / 1000))
    for _ in range(5):
        for node in stack.nodes:
            node.service.node.actor(table_id).tell(commands.Tick())
    await clients[0].until_told("bid_made")
    bids = [event for event in told_of(clients[0], "bid_made") if event.at_ms < deadline + 100]
    assert len(bids) == 1
    assert (await look(stack.nodes[1], table_id, ids[0])).seq >= bids[0].seq
    await close(clients)


async def test_a_trustee_leads_and_follows_until_the_hand_is_settled(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack, trustee_ms=1, **dict.fromkeys(("play_ms",), LONG["play_ms"]))
    seat = clients[0].last("dealt").first_seat
    await clients[seat].act(bid=hand_pb2.Bid(level=1))
    for client in clients:
        await client.act(trustee=table_pb2.Trustee(on=True))
    settled = await clients[0].until_told("hand_settled")
    assert sum(settled.chips) + settled.system_chips == 0
    await close(clients)
