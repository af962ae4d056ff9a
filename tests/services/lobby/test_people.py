"""Profiles, statistics, leaders."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, news_pb2
from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import clients, stream
from services.lobby import scorekeeper
from services.lobby.scorekeeper import Scorekeeper
from services.lobby.tally import Tally, tally
from tests.services.lobby.conftest import Person, Town, refusal_of
from tests.services.lobby.test_board import until


async def profile(person: Person, player_id: str = "") -> lobby_pb2.Profile:
    answer = await person.call("GetProfile", lobby_pb2.GetProfileRequest(player_id=player_id))
    assert isinstance(answer, lobby_pb2.GetProfileResponse)
    return answer.profile


async def test_a_profile_shows_chips_to_its_owner_alone(town: Town) -> None:
    person, other = await town.player(), await town.player()
    town.ledger.rating[person.id] = 450
    own, seen = await profile(person), await profile(other, person.id)
    assert (own.chips, own.rating, own.title) == (10_000, 450, "poor_peasant")
    assert (seen.chips, seen.rating, seen.title) == (0, 450, "poor_peasant")
    assert own.player == seen.player == person.player
    assert own.created_at_ms > 0


@pytest.mark.parametrize("player_id", ["p999999999", "nobody", "p", "p-1"])
async def test_nobody_has_no_profile(town: Town, player_id: str) -> None:
    assert (await refusal_of(profile(await town.player(), player_id))).reason == "NOT_FOUND"


async def test_name_and_avatar_change_and_the_next_token_knows(town: Town) -> None:
    key = secrets.token_hex(16)
    answer = await town.guest(key)
    person = Person(town, answer.player)
    request = lobby_pb2.UpdateProfileRequest(display_name=" 李  四 ", avatar_id=7)
    changed = (await person.call("UpdateProfile", request)).profile
    assert (changed.player.display_name, changed.player.avatar_id) == ("李 四", 7)
    again = await town.guest(key)
    assert again.player == changed.player
    bad = lobby_pb2.UpdateProfileRequest(display_name="a\u202eb", avatar_id=7)
    refused = await refusal_of(person.call("UpdateProfile", bad))
    assert (refused.reason, refused.field) == ("INVALID", "display_name")
    assert (await profile(person)).player == changed.player


async def test_leaders_have_names_and_titles(town: Town) -> None:
    people = [await town.player() for _ in range(3)]
    for person, rating in zip(people, (10**9, 10**9 + 2, 10**9 + 1), strict=True):
        town.ledger.rating[person.id] = rating
    answer = await people[0].call("ListLeaders", lobby_pb2.ListLeadersRequest(limit=3))
    assert [leader.player for leader in answer.leaders] == [people[i].player for i in (1, 2, 0)]
    assert [leader.place for leader in answer.leaders] == [1, 2, 3]
    assert {leader.title for leader in answer.leaders} == {"emperor"}


async def test_who_has_chips_and_no_account_is_no_leader(town: Town) -> None:
    """`ddz admin gift alice 1000000` names nobody, and is nobody's to take back."""
    person = await town.player()
    given = {"alice": 3 * 10**12, person.id: 2 * 10**12, "p999999999999": 10**12, "p01": 10**12}
    town.ledger.chips.update(given)
    try:
        answer = await person.call("ListLeaders", lobby_pb2.ListLeadersRequest(unit="chips", limit=4))
    finally:
        for player_id in given:
            del town.ledger.chips[player_id]
    [leader] = answer.leaders
    assert (leader.place, leader.player, leader.chips) == (1, person.player, given[person.id])


async def test_without_the_ledger_profiles_say_so(town: Town) -> None:
    def down() -> None:
        raise Refusal("UNAVAILABLE", "down")

    person = await town.player()
    town.ledger.fault = down
    try:
        assert (await refusal_of(profile(person))).reason == "UNAVAILABLE"
    finally:
        town.ledger.fault = lambda: None


# ---- statistics -----------------------------------------------------------------------------------------------------

THREE = ("p1", "p2", "p3")


@pytest.mark.parametrize(
    ("landlord_won", "landlord", "farmer"),
    [
        (True, Tally(1, landlord_hands=1, landlord_wins=1, greatest_multiplier=8), Tally(1, farmer_hands=1)),
        (False, Tally(1, landlord_hands=1), Tally(1, farmer_hands=1, farmer_wins=1, greatest_multiplier=8)),
    ],
)
def test_br_049_both_farmers_win_or_lose_together(landlord_won: bool, landlord: Tally, farmer: Tally) -> None:
    found = tally(THREE, landlord=1, landlord_won=landlord_won, fled=None, multiplier=8)
    assert found == {"p1": farmer, "p2": landlord, "p3": farmer}


def test_a_hand_that_somebody_fled_is_nobodys_win() -> None:
    found = tally(THREE, landlord=0, landlord_won=False, fled=2, multiplier=8)
    assert found == {"p1": Tally(1), "p2": Tally(1), "p3": Tally(1, flees=1)}


@given(st.sampled_from([None, 0, 1, 2]), st.booleans(), st.integers(0, 2))
def test_every_hand_is_counted_for_three(fled: int | None, landlord_won: bool, landlord: int) -> None:
    found = tally(THREE, landlord=landlord, landlord_won=landlord_won, fled=fled, multiplier=2)
    assert [counts.hands for counts in found.values()] == [1, 1, 1]
    wins = sum(counts.landlord_wins + counts.farmer_wins for counts in found.values())
    assert wins == (0 if fled is not None else 1 if landlord_won else 2)


def news(hand_id: str, people: list[Person], multiplier: int, *, fled: int | None = None) -> bytes:
    winner = hand_pb2.SIDE_UNSPECIFIED if fled is not None else hand_pb2.SIDE_LANDLORD
    outcome = hand_pb2.Outcome(winner=winner, landlord=0, multiplier=multiplier, fled=fled)
    seats = [ledger_pb2.SeatResult(player_id=person.id) for person in people]
    settlement = ledger_pb2.Settlement(hand_id=hand_id, seats=seats)
    return news_pb2.HandSettled(settlement=settlement, outcome=outcome).SerializeToString()


async def test_settled_hands_are_counted_once_however_often_they_are_told(town: Town) -> None:
    people = [await town.player() for _ in range(3)]
    hand = secrets.token_hex(8)
    jetstream = town.bus.jetstream()
    await stream.ensure(jetstream)
    for number, payload in enumerate(
        [
            news(f"{hand}-1", people, 4),
            news(f"{hand}-1", people, 4),
            b"junk",
            news(f"{hand}-2", people, 16),
            news(f"{hand}-3", people, 64, fled=1),
            news(f"{hand}-2", people, 16),
        ]
    ):
        await jetstream.publish("ddz.hand.settled", payload, headers={"Nats-Msg-Id": f"{hand}.{number}"})

    async def counted() -> bool:
        return (await profile(people[0])).statistics.hands == 3

    # Longer than the stream waits for a lobby that has ended with messages in its hands.
    await until(counted, timeout_s=60.0)
    landlord, fled = (await profile(people[0])).statistics, (await profile(people[2], people[1].id)).statistics
    assert landlord == lobby_pb2.Statistics(hands=3, landlord_hands=2, landlord_wins=2, greatest_multiplier=16)
    assert fled == lobby_pb2.Statistics(hands=3, farmer_hands=2, flees=1)


async def test_a_counter_that_fails_leaves_no_subscription_behind(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Scorekeeper):
        tries = 0

        async def count(self, hands: Mapping[str, Mapping[str, Tally]]) -> int:
            self.tries += 1
            raise OSError("no database")

    monkeypatch.setattr(scorekeeper, "DURABLE", f"failing-{secrets.token_hex(4)}")
    monkeypatch.setattr(scorekeeper, "_BATCH", 1)
    monkeypatch.setattr(scorekeeper, "_TROUBLE_S", 0.001)
    jetstream = town.bus.jetstream()
    await stream.ensure(jetstream)
    for _ in range(5):
        await jetstream.publish("ddz.hand.settled", b"junk")
    async with (
        clients.postgres(town.config.postgres_dsn, connections=1) as pool,
        clients.nats_bus(town.config.nats_url, name="failing") as bus,
    ):
        keeper = Failing(pool, bus)

        async def tried() -> bool:
            return keeper.tries >= 5

        async with keeper.running():
            await until(tried)
            assert len(bus._subs) <= 2  # one for the answers to requests, one for the messages
        assert len(bus._subs) <= 1
    await jetstream.delete_consumer(stream.STREAM, scorekeeper.DURABLE)


async def test_two_instances_that_count_the_same_hands_count_them_once(town: Town) -> None:
    async with clients.postgres(town.config.postgres_dsn, connections=4) as pool:
        keepers = [Scorekeeper(pool, town.bus) for _ in range(4)]
        mark = secrets.token_hex(6)
        players = [f"{mark}.{number}" for number in range(9)]

        def batch(start: int) -> dict[str, dict[str, Tally]]:
            hands = {}
            for number in range(start, start + 40):
                three = [players[(number + step) % 9] for step in (0, 2, 5)]
                hands[f"{mark}-{number}"] = tally(three, landlord=0, landlord_won=True, fled=None, multiplier=number)
            return hands

        starts = [0, 20, 40, 20, 0, 60]
        added = await asyncio.gather(*(keepers[i % 4].count(batch(start)) for i, start in enumerate(starts)))
        assert sum(added) == 100
        counts = [await keepers[0].of(player) for player in players]
        assert sum(count.hands for count in counts) == 300
        assert sum(count.landlord_wins for count in counts) == 100
        assert max(count.greatest_multiplier for count in counts) == 99
        assert await keepers[0].of("nobody") == Tally()


async def test_instances_that_count_the_same_hands_in_other_orders_do_not_wait_for_each_other_in_a_ring(
    town: Town,
) -> None:
    async with clients.postgres(town.config.postgres_dsn, connections=8) as pool:
        keepers = [Scorekeeper(pool, town.bus) for _ in range(8)]
        for _ in range(40):
            mark = secrets.token_hex(6)
            hands = {
                f"{mark}-{number}": tally(
                    [f"{mark}.{number % 3}", f"{mark}.{3 + number % 5}", f"{mark}.{8 + number % 7}"],
                    landlord=0,
                    landlord_won=True,
                    fled=None,
                    multiplier=1,
                )
                for number in range(200)
            }
            orders = [dict(random.sample(sorted(hands.items()), random.choice((20, 60, 200)))) for _ in keepers]
            added = await asyncio.gather(*(keeper.count(some) for keeper, some in zip(keepers, orders, strict=True)))
            assert sum(added) == len({hand for some in orders for hand in some})
