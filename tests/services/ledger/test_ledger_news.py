"""What is committed is told: by the outbox to JetStream, each at least once, once by its key."""

from __future__ import annotations

from collections.abc import Callable

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, news_pb2
from servicekit import clients
from tests.services.ledger.conftest import Ledger
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, settle


async def test_settlements_and_grants_are_told(ledger: Ledger, nats: str, fresh: Callable[[str], str]) -> None:
    hand_id, players = await opened(ledger, fresh)
    reply = await ledger.internal.Settle(settle(record(hand_id, players, winner="landlord", landlord=2, multiplier=4)))
    async with clients.nats_bus(nats, name="test") as bus:
        news = await bus.jetstream().subscribe("ddz.hand.settled", ordered_consumer=True)
        while True:
            message = await news.next_msg(timeout=10)
            told = news_pb2.HandSettled.FromString(message.data)
            if told.settlement.hand_id == hand_id:
                break
        assert told.settlement == reply.settlement
        assert (told.room_id, told.book) == ("room", "rob")
        assert (told.outcome.winner, told.outcome.landlord, told.outcome.multiplier) == (hand_pb2.SIDE_LANDLORD, 2, 4)
        assert not told.outcome.HasField("fled")
        assert (message.headers or {})["Nats-Msg-Id"] == hand_id
        changes = await bus.jetstream().subscribe("ddz.account.changed", ordered_consumer=True)
        while True:
            change = news_pb2.AccountChanged.FromString((await changes.next_msg(timeout=10)).data)
            if [each.player_id for each in change.balances] == players[2:]:
                break
        assert change.balances == [ledger_pb2.Balance(player_id=players[2], chips=1000, title="casual_labourer")]
