"""Faults that people reported of other systems, on the real service: rows of area `score` and `ledger`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import grpc
import pytest

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from services.ledger import store
from tests.services.ledger.harness import Database, Ledger
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, refusal, settle

Fresh = Callable[[str], str]


async def seat(ledger: Ledger, fresh: Fresh, balances: Sequence[int]) -> tuple[str, list[str]]:
    """An open hand of three who have so many chips."""
    players, hand_id = [fresh("p") for _ in balances], fresh("hand")
    for player_id, chips in zip(players, balances, strict=True):
        grant = ledger_pb2.GrantRequest(key=f"gift:{player_id}", player_id=player_id, chips=chips, kind="gift")
        await ledger.internal.Grant(grant)
    await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players))
    return hand_id, players


async def play(ledger: Ledger, fresh: Fresh, balances: Sequence[int], **facts: Any) -> ledger_pb2.Settlement:
    """The settlement of a hand of three who have so many chips."""
    hand_id, players = await seat(ledger, fresh, balances)
    return (await ledger.internal.Settle(settle(record(hand_id, players, **facts)))).settlement


def chips(settlement: ledger_pb2.Settlement) -> list[int]:
    return [seat.chips for seat in settlement.seats]


def left(settlement: ledger_pb2.Settlement) -> list[int]:
    return [seat.balance_after_chips for seat in settlement.seats]


CLASSIC: dict[str, Any] = {"book": "classic", "base": 10, "level": 2, "landlord": 0}


async def test_br_054_a_farmer_who_flees_does_not_pay_for_the_robs(ledger: Ledger, fresh: Fresh) -> None:
    facts = {**CLASSIC, "fled": 1, "multiplier": 2, "flee_multiplier": 1}
    assert chips(await play(ledger, fresh, [1000] * 3, **facts)) == [40, -60, 20]


@pytest.mark.parametrize(
    ("facts", "balances", "moved", "remain"),
    [
        ({"winner": "landlord"}, [100, 15, 100], [35, -15, -20], [135, 0, 80]),
        ({"winner": "farmers"}, [25, 100, 100], [-24, 12, 12], [1, 112, 112]),
        ({"fled": 1, "flee_multiplier": 1}, [100, 50, 100], [32, -48, 16], [132, 2, 116]),
    ],
)
async def test_br_055_nobody_pays_more_than_he_has(
    facts: Any, balances: list[int], moved: list[int], remain: list[int], ledger: Ledger, fresh: Fresh
) -> None:
    settlement = await play(ledger, fresh, balances, **CLASSIC, **facts)
    assert (chips(settlement), left(settlement)) == (moved, remain)


async def test_br_056_a_landlord_who_wins_gets_twice_what_each_farmer_pays(ledger: Ledger, fresh: Fresh) -> None:
    assert chips(await play(ledger, fresh, [1000] * 3, **CLASSIC, winner="landlord")) == [40, -20, -20]


async def test_br_058_the_answer_says_what_everybody_has_left(ledger: Ledger, fresh: Fresh) -> None:
    settlement = await play(ledger, fresh, [100, 49, 50], **CLASSIC, winner="landlord")
    assert left(settlement) == [140, 29, 30]  # below three times the base one is unseated, and at it one stays
    asked = ledger_pb2.ListBalancesRequest(player_ids=[seat.player_id for seat in settlement.seats])
    assert [each.chips for each in (await ledger.internal.ListBalances(asked)).balances] == [140, 29, 30]


@pytest.mark.parametrize(
    ("facts", "balances", "moved"),
    [
        # What does not go evenly into the winners' shares stays with who pays: RULES.md section 10.
        ({"book": "classic", "winner": "farmers"}, [21, 1000, 1000], [-20, 10, 10]),
        ({"book": "rob", "winner": "farmers"}, [21, 1000, 1000], [-20, 10, 10]),
        ({"book": "classic", "winner": "landlord"}, [1000, 21, 5000], [1021, -21, -1000]),
    ],
)
async def test_br_100_nobody_goes_into_debt(
    facts: Any, balances: list[int], moved: list[int], ledger: Ledger, fresh: Fresh
) -> None:
    settlement = await play(ledger, fresh, balances, base=1000, landlord=0, **facts)
    assert chips(settlement) == moved
    assert min(left(settlement)) >= 0


async def test_br_101_the_loser_pays_and_not_the_house(ledger: Ledger, fresh: Fresh) -> None:
    settlement = await play(ledger, fresh, [1000] * 3, **CLASSIC, winner="farmers")
    assert (chips(settlement), settlement.system_chips) == ([-40, 20, 20], 0)
    moved = await ledger.root.fetch(
        "SELECT player_id, amount FROM ledger.transfer JOIN ledger.account USING (account_id) WHERE key = $1",
        settlement.hand_id,
    )
    assert {row["player_id"]: row["amount"] for row in moved} == {
        seat.player_id: seat.chips for seat in settlement.seats
    }


async def test_br_102_of_settlements_that_race_one_counts(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await seat(ledger, fresh, [1000] * 3)
    rivals = [settle(record(hand_id, players, winner="landlord", landlord=0, multiplier=1 + n)) for n in range(20)]
    answers = await asyncio.gather(*(ledger.internal.Settle(each) for each in rivals), return_exceptions=True)
    (won,) = [each for each in answers if not isinstance(each, BaseException)]
    assert sum(isinstance(each, grpc.aio.AioRpcError) for each in answers) == 19
    asked = ledger_pb2.ListBalancesRequest(player_ids=players)
    assert [each.chips for each in (await ledger.internal.ListBalances(asked)).balances] == left(won.settlement)


async def test_br_102_nobody_can_say_what_he_won(ledger: Ledger, fresh: Fresh) -> None:
    assert [field.name for field in ledger_pb2.SettleRequest.DESCRIPTOR.fields] == ["record"]
    claimable = [field.name for field in hand_pb2.HandRecord.DESCRIPTOR.fields if "chips" in field.name]
    assert claimable == ["base_chips"]
    hand_id, players = await seat(ledger, fresh, [1000] * 3)
    made = record(hand_id, players, **CLASSIC, winner="landlord")
    delta = b"\xa0\x7f\xc0\x84\x3d"  # a field that no record has: 2036 = 1,000,000
    await ledger.internal.Settle(ledger_pb2.SettleRequest.FromString(settle(made).SerializeToString() + delta))
    assert chips((await ledger.public.GetHand(ledger_pb2.GetHandRequest(hand_id=hand_id))).settlement) == [40, -20, -20]


async def test_br_102_a_balance_that_has_changed_since_it_was_read_moves_nothing(
    ledger: Ledger, database: Database, fresh: Fresh
) -> None:
    _, players = await opened(ledger, fresh)
    connection = await asyncpg.connect(database.dsn())
    try:
        accounts = [(await store.lock_players(connection, [each]))[0][each].account for each in players]
        read = "ARRAY[999, 1000, 1000]::bigint[]"
        with pytest.raises((asyncpg.SerializationError, asyncpg.IntegrityConstraintViolationError)):
            await connection.execute(
                "SELECT ledger.grant_chips($1, $2, $3, ARRAY['gift','gift','gift']::ledger.transfer_kind[], "
                f"ARRAY[1,1,1], (SELECT array_agg(n + 1) FROM unnest({read}) AS n), ARRAY[0,0,0], "
                "ARRAY[NULL,NULL,NULL]::date[], ARRAY[NULL,NULL,NULL]::int[], $4)",
                [fresh("gift:") for _ in players], players, accounts, [b""] * 3,
            )  # fmt: skip
    finally:
        await connection.close()
    asked = ledger_pb2.ListBalancesRequest(player_ids=players)
    assert [each.chips for each in (await ledger.internal.ListBalances(asked)).balances] == [1000] * 3


async def test_br_105_what_is_paid_is_what_is_got_to_the_last_chip(ledger: Ledger, fresh: Fresh) -> None:
    for balance in (1, 2, 3, 22, 101, 102, 999):
        facts: dict[str, Any] = {"winner": "farmers", "landlord": 0, "base": 500, "rake": 3}
        settlement = await play(ledger, fresh, [balance, 700, 40], **facts)
        rakes = [seat.rake_chips for seat in settlement.seats]
        won = [seat.chips + seat.rake_chips for seat in settlement.seats]
        assert sum(won) == 0
        assert -won[0] == won[1] + won[2] <= balance
        assert settlement.system_chips == sum(rakes) == -sum(chips(settlement))
        booked = await ledger.root.fetchval(
            "SELECT sum(amount) FROM ledger.transfer WHERE key = $1 AND account_id = 1 AND unit = 'chips'",
            settlement.hand_id,
        )
        assert booked == sum(rakes)


async def test_br_106_after_every_hand_all_sums_to_nothing_and_nobody_is_below_it(ledger: Ledger, fresh: Fresh) -> None:
    rng, players = random.Random(106), [fresh("p") for _ in range(6)]
    for player_id in players:
        grant = ledger_pb2.GrantRequest(key=f"gift:{player_id}", player_id=player_id, chips=60, kind="gift")
        await ledger.internal.Grant(grant)
    for _ in range(40):
        hand_id, trio = fresh("hand"), rng.sample(players, 3)
        await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=trio))
        facts: dict[str, Any] = {"landlord": rng.randrange(3), "multiplier": rng.choice([1, 2, 8])}
        facts |= rng.choice(
            [{"winner": "landlord"}, {"winner": "farmers"}, {"fled": 1, "flee_multiplier": 4, "elapsed_s": 30}]
        )
        book = rng.choice(["classic", "happy", "rob"])
        await ledger.internal.Settle(settle(record(hand_id, trio, book=book, base=3, rake=2, **facts)))
        found = await ledger.internal.Audit(ledger_pb2.AuditRequest(skip_records=True))
        assert (found.chips_sum, found.rating_sum, found.negative_balances, list(found.faults)) == (0, 0, 0, [])


async def test_br_108_who_leaves_before_the_end_pays_and_cannot_undo_it(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await seat(ledger, fresh, [1000] * 3)
    fled = record(hand_id, players, **CLASSIC, fled=2, multiplier=4, flee_multiplier=4, elapsed_s=300)
    settlement = (await ledger.internal.Settle(settle(fled))).settlement
    assert chips(settlement) == [160, 80, -240]
    late = ledger_pb2.VoidHandRequest(hand_id=hand_id, reason="the game was closed")
    assert (await refusal(ledger.internal.VoidHand(late))).reason == "HAND_OVER"
    as_if_lost = settle(record(hand_id, players, **CLASSIC, winner="landlord", multiplier=4))
    assert (await refusal(ledger.internal.Settle(as_if_lost))).reason == "KEY_CONFLICT"
    asked = ledger_pb2.ListBalancesRequest(player_ids=players)
    assert [each.chips for each in (await ledger.internal.ListBalances(asked)).balances] == left(settlement)


async def test_a_winner_is_bounded_by_what_he_carried_and_not_by_what_came_since(ledger: Ledger, fresh: Fresh) -> None:
    hand_id, players = await seat(ledger, fresh, [100, 1000, 1000])
    gift = ledger_pb2.GrantRequest(key=fresh("gift:"), player_id=players[0], chips=5000, kind="gift")
    await ledger.internal.Grant(gift)
    won = settle(record(hand_id, players, winner="landlord", landlord=0, base=1000))
    settlement = (await ledger.internal.Settle(won)).settlement
    assert (chips(settlement), left(settlement)) == ([100, -50, -50], [5200, 950, 950])
