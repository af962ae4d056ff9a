"""What players and services read: statement, record, board, open hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddz.ledger.v1 import ledger_pb2
from doudizhu.titles import title
from tests.services.ledger.harness import Ledger
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, refusal, seated, settle

Fresh = Callable[[str], str]


def of(player_id: str) -> Any:
    return (("x-player-id", player_id),)


async def play(ledger: Ledger, fresh: Fresh, players: list[str], **facts: Any) -> str:
    hand_id = fresh("hand")
    await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players))
    await ledger.internal.Settle(settle(record(hand_id, players, **facts)))
    return hand_id


async def test_a_statement_is_paged_newest_first(ledger: Ledger, fresh: Fresh) -> None:
    players = await seated(ledger, fresh)
    hands = [
        await play(ledger, fresh, players, winner="landlord", landlord=0, multiplier=number + 1, rake=1, base=1)
        for number in range(5)
    ]
    seen: list[ledger_pb2.Transfer] = []
    request = ledger_pb2.ListTransfersRequest(page_size=3)
    while True:
        page = await ledger.public.ListTransfers(request, metadata=of(players[0]))
        assert len(page.transfers) <= 3
        seen += page.transfers
        if len(seen) == 6:  # what comes in between pages does not move them
            hands.append(await play(ledger, fresh, players, winner="landlord", landlord=0, multiplier=9))
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    chips = [each for each in seen if each.unit == "chips"]
    assert [each.hand_id for each in chips] == [*reversed(hands[:5]), ""]
    assert [each.amount for each in chips] == [9, 7, 5, 3, 1, 1000]
    assert [each.rake_chips for each in chips] == [1, 1, 1, 1, 1, 0]
    assert [each.balance_after for each in chips] == [1025, 1016, 1009, 1004, 1001, 1000]
    assert [each.kind for each in chips] == ["win"] * 5 + ["signup"]
    assert [each.amount for each in seen if each.unit == "rating"] == [5, 4, 3, 2, 1]
    assert len({each.transfer_id for each in seen}) == len(seen)
    assert [each.at_ms for each in seen] == sorted((each.at_ms for each in seen), reverse=True)


async def test_a_page_token_of_somebody_else_is_refused(ledger: Ledger, fresh: Fresh) -> None:
    for token in ("x", "1", "1.", "1.-2", "1.99999999999999999999", "²."):
        request = ledger_pb2.ListTransfersRequest(page_token=token)
        found = await refusal(ledger.public.ListTransfers(request, metadata=of(fresh("p"))))
        assert (found.reason, found.field) == ("INVALID", "page_token")


async def test_a_stranger_has_nothing(ledger: Ledger, fresh: Fresh) -> None:
    player_id = fresh("p")
    reply = await ledger.public.GetBalance(ledger_pb2.GetBalanceRequest(), metadata=of(player_id))
    assert reply.balance == ledger_pb2.Balance(player_id=player_id, title="casual_labourer")
    page = await ledger.public.ListTransfers(ledger_pb2.ListTransfersRequest(), metadata=of(player_id))
    assert page == ledger_pb2.ListTransfersResponse()
    assert (await refusal(ledger.public.GetBalance(ledger_pb2.GetBalanceRequest()))).reason == "UNAUTHENTICATED"


async def test_a_settled_hand_is_open_to_all_with_its_record(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await opened(ledger, fresh)
    request = ledger_pb2.GetHandRequest(hand_id=hand_id)
    assert (await refusal(ledger.public.GetHand(request))).reason == "NOT_FOUND"
    made = record(hand_id, players, winner="farmers", landlord=2, multiplier=5)
    settled = await ledger.internal.Settle(settle(made))
    found = await ledger.public.GetHand(request)
    assert found.record == made
    assert found.settlement == settled.settlement
    newest = await ledger.internal.ListHands(ledger_pb2.ListHandsRequest(limit=1))
    assert newest.hands[0] == found
    since = ledger_pb2.ListHandsRequest(since_ms=settled.settlement.settled_at_ms + 60_000)
    assert list((await ledger.internal.ListHands(since)).hands) == []


async def test_the_board_shows_the_highest_with_titles(ledger: Ledger, fresh: Fresh) -> None:
    players = await seated(ledger, fresh, chips=10_000_000)
    for _ in range(2):
        await play(ledger, fresh, players, winner="landlord", landlord=1, multiplier=100_000, base=1)
    board = await ledger.public.ListLeaders(ledger_pb2.ListLeadersRequest(limit=1))
    assert list(board.leaders) == [
        ledger_pb2.Balance(player_id=players[1], chips=10_400_000, rating=200_000, title=title(200_000).id)
    ]
    rich = await ledger.public.ListLeaders(ledger_pb2.ListLeadersRequest(unit="chips", limit=3))
    assert [each.chips for each in rich.leaders] == [10_400_000, 9_800_000, 9_800_000]


async def test_open_hands_are_listed_oldest_first(ledger: Ledger, fresh: Fresh) -> None:
    one, players = await opened(ledger, fresh)
    two, _ = await opened(ledger, fresh)
    listed = (await ledger.internal.ListOpenHands(ledger_pb2.ListOpenHandsRequest(limit=1000))).hands
    ids = [each.hand_id for each in listed]
    assert ids.index(one) < ids.index(two)
    found = listed[ids.index(one)]
    assert (list(found.player_ids), list(found.carried_chips)) == (players, [1000] * 3)
    old = ledger_pb2.ListOpenHandsRequest(older_than_ms=3_600_000)
    assert list((await ledger.internal.ListOpenHands(old)).hands) == []
