"""The queue's rules, and that the scripts keep them: real Valkey, a clock of the test's own."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.matchmaking import queue, store
from services.matchmaking.queue import State, Strength
from services.matchmaking.store import Entry, Patience, Pointer, Store
from tests.services.matchmaking.model import Waiting, three_for

_numbers = itertools.count(1)
EVEN = Strength(0, 0)


@pytest.fixture(scope="session")
async def scripts(valkey: str) -> AsyncIterator[Store]:
    pipe = store.pipe(f"{valkey.rsplit('/', 1)[0]}/8")
    async with pipe.running():
        yield Store(pipe, Patience(lease_ms=10**9, longest_ms=10**9), epoch="")


class Room:
    """A fresh queue."""

    def __init__(self, scripts: Store) -> None:
        self.store = scripts
        self.id = f"room-{next(_numbers)}"

    async def enter(self, player: str, now_ms: int, strength: Strength = EVEN, number: int = 1) -> Waiting:
        pointer = Pointer(f"{player}-{number}", self.id, now_ms)
        ticket = await self.store.enter(pointer, Entry(player.encode(), strength, reserve=False), now_ms, create=True)
        assert ticket.state is State.WAITING
        return Waiting(ticket.ticket_id, ticket.joined_ms, strength)

    async def look(self, now_ms: int, limit: int = 100) -> list[list[str]]:
        """The threes that a look claims."""
        _, claims = await self.store.look(self.id, now_ms, "test", limit)
        return [claim.ticket_ids for claim in claims]

    async def sit(self, *players: str) -> None:
        """Matches three for the first time."""
        for player in players:
            await self.enter(player, 0)
        _, (claim,) = await self.store.look(self.id, 0, "test", 10)
        assert await self.store.matched(self.id, claim, "table", b"", 0)


@pytest.fixture
def room(scripts: Store) -> Room:
    return Room(scripts)


# ---- the rules ------------------------------------------------------------------------------------------------------


def test_windows_only_widen_and_end_open_to_all() -> None:
    for before, after in itertools.pairwise(queue.WINDOWS):
        assert before.age_ms < after.age_ms
        assert before.near <= after.near
        assert before.also <= after.also
    assert queue.WINDOWS[0].age_ms == 0
    greatest = queue.strength(2**62, 2**62, rated=True)
    least = queue.strength(0, 0, rated=True)
    assert queue.fits([least, greatest, greatest], queue.WINDOWS[-1].age_ms)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_more_chips_are_never_less_strength(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert queue.strength(low, 0, rated=False).near <= queue.strength(high, 0, rated=False).near


def test_a_match_has_the_same_id_and_seats_whoever_computes_them() -> None:
    tickets = ["p3-1", "p1-7", "p2-4"]
    ids = {queue.match_id("rob", "", order) for order in itertools.permutations(tickets)}
    assert len(ids) == 1
    (match,) = ids
    assert len(match) == 21
    assert match != queue.match_id("rob", "other life", tickets) != queue.match_id("happy", "", tickets)
    seats = {tuple(queue.seat_order(match, order)) for order in itertools.permutations(["p1", "p2", "p3"])}
    assert len(seats) == 1


def test_every_order_of_seats_is_as_likely() -> None:
    counts: dict[tuple[str, ...], int] = {}
    for number in range(6_000):
        order = tuple(queue.seat_order(f"m{number}", ["p1", "p2", "p3"]))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(850 < count < 1_150 for count in counts.values())


def test_the_estimate_is_what_others_waited_less_what_one_has() -> None:
    assert queue.estimate_ms(0, 5) == 0
    assert queue.estimate_ms(10_000, 4_000) == 6_000
    assert queue.estimate_ms(10_000, 60_000) == 1_000
    assert queue.estimate_ms(1, 0) == 1_000


@pytest.mark.parametrize(
    ("chips", "best"),
    [(99, None), (100, "low"), (9_999, "low"), (10_000, "middle"), (90_000, "high")],
)
def test_quick_start_takes_the_highest_room_for_the_chips(chips: int, best: str | None) -> None:
    rooms = [
        queue.RoomTerms("low", "a", 100, 30_000, 1),
        queue.RoomTerms("middle", "a", 10_000, 0, 10),
        queue.RoomTerms("high", "b", 20_000, 0, 100),
    ]
    found = queue.best_room(rooms, chips)
    assert (found.room_id if found else None) == best


# ---- the scripts ----------------------------------------------------------------------------------------------------


async def test_three_of_a_kind_are_claimed_together(room: Room) -> None:
    for player in ("p1", "p2"):
        await room.enter(player, 0)
    assert await room.look(0) == []
    await room.enter("p3", 1)
    assert await room.look(1) == [["p1-1", "p2-1", "p3-1"]]
    assert await room.look(1) == []


async def test_the_window_widens_with_the_wait_of_the_oldest(room: Room) -> None:
    await room.enter("p1", 0, Strength(0, 0))
    await room.enter("p2", 0, Strength(900, 0))
    await room.enter("p3", 2_500, Strength(0, 0))
    assert await room.look(2_999) == []
    assert await room.look(3_000) == [["p1-1", "p2-1", "p3-1"]]


async def test_at_thirty_seconds_anybody_suits(room: Room) -> None:
    for player, near in (("p1", 0), ("p2", 60_000), ("p3", -60_000)):
        await room.enter(player, 0, Strength(near, near))
    assert await room.look(29_999) == []
    assert await room.look(30_000) == [["p1-1", "p2-1", "p3-1"]]


async def test_a_newcomer_serves_the_one_that_waits_for_anybody(room: Room) -> None:
    await room.enter("old", 0, Strength(60_000, 0))
    assert await room.look(40_000) == []
    for player in ("p1", "p2", "p3"):
        await room.enter(player, 40_000)
    assert await room.look(40_000) == [["old-1", "p1-1", "p2-1"]]


async def test_the_longest_waiting_go_first(room: Room) -> None:
    for number in range(7):
        await room.enter(f"p{number}", number)
    assert await room.look(10) == [["p0-1", "p1-1", "p2-1"], ["p3-1", "p4-1", "p5-1"]]


async def test_who_just_sat_together_are_parted_when_others_wait(room: Room) -> None:
    await room.sit("p1", "p2", "p3")
    await room.enter("p1", 0, number=2)
    await room.enter("p2", 1, number=2)
    await room.enter("p4", 2)
    await room.enter("p5", 3)
    assert await room.look(10) == [["p1-2", "p4-1", "p5-1"]]


async def test_who_just_sat_together_do_so_again_when_nobody_else_waits(room: Room) -> None:
    await room.sit("p1", "p2", "p3")
    for player in ("p1", "p2", "p3"):
        await room.enter(player, 0, number=2)
    assert await room.look(0) == [["p1-2", "p2-2", "p3-2"]]


async def test_who_just_sat_together_are_not_parted_for_ever(room: Room) -> None:
    await room.sit("p1", "p2", "q1")
    await room.sit("p3", "p4", "q2")
    for player in ("p1", "p2", "p3", "p4"):
        await room.enter(player, 0, number=2)
    assert await room.look(5_000) == []
    assert len(await room.look(6_000)) == 1


async def test_a_cancelled_ticket_does_not_make_one_forget_with_whom_one_sat(room: Room) -> None:
    await room.sit("p1", "p2", "p3")
    again = await room.enter("p1", 0, number=2)
    await room.store.cancel(room.id, again.ticket_id, 0)
    await room.enter("p1", 0, number=3)
    await room.enter("p2", 1, number=2)
    await room.enter("p4", 2)
    await room.enter("p5", 3)
    assert await room.look(10) == [["p1-3", "p4-1", "p5-1"]]


async def test_a_claim_given_back_keeps_its_place(room: Room) -> None:
    for number in range(3):
        await room.enter(f"p{number}", number)
    _, (claim,) = await room.store.look(room.id, 10, "test", 10)
    assert claim.joined_ms == (0, 1, 2)
    await room.enter("late", 15)
    assert not await room.store.give_back(room.id, claim, "somebody else", 20, 20)
    assert await room.store.give_back(room.id, claim, "test", 20, 20)
    tickets = await room.store.watch(room.id, ["p0-1", "late-1"], "", 30)
    assert [ticket and (ticket.position, ticket.waited_ms) for ticket in tickets] == [(1, 30), (4, 15)]
    assert await room.look(30) == [["p0-1", "p1-1", "p2-1"]]


async def test_a_claim_given_back_can_end_some_of_its_tickets(room: Room) -> None:
    for number in range(3):
        await room.enter(f"p{number}", number)
    _, (claim,) = await room.store.look(room.id, 10, "test", 10)
    assert await room.store.give_back(room.id, claim, "test", 20, 20, ["p1-1"])
    await room.enter("late", 20)
    tickets = await room.store.watch(room.id, ["p0-1", "p1-1", "p2-1"], "", 20)
    assert [ticket and ticket.state for ticket in tickets] == [State.WAITING, State.CANCELLED, State.WAITING]
    assert await room.look(20) == [["late-1", "p0-1", "p2-1"]]


async def test_a_dead_matchers_claim_is_taken_over_once(room: Room) -> None:
    for number in range(3):
        await room.enter(f"p{number}", 0)
    _, (claim,) = await room.store.look(room.id, 0, "dead", 10)
    lease = Patience().claim_ms
    assert await room.store.sweep(room.id, lease - 1, "heir", 10) == ([], [])
    _, (taken,) = await room.store.sweep(room.id, lease, "heir", 10)
    assert (taken.claim_id, taken.who, taken.inherited) == (claim.claim_id, claim.who, True)
    assert await room.store.sweep(room.id, lease, "another", 10) == ([], [])
    assert not await room.store.renew(room.id, claim, "dead", lease)
    assert not await room.store.give_back(room.id, claim, "dead", lease, lease)
    assert await room.store.renew(room.id, claim, "heir", lease)


async def test_a_ticket_of_who_is_gone_is_skipped_and_ends(scripts: Store, room: Room) -> None:
    for player in ("p1", "p2", "p3"):
        await room.enter(player, 0)
    await room.store.watch(room.id, ["p1-1"], "w1", 0, attach=True)
    await room.store.leave(room.id, "p1-1", "w1", 1)
    assert await room.look(1) == []
    await room.enter("p4", 2)
    assert await room.look(2) == [["p2-1", "p3-1", "p4-1"]]
    grace = Patience().grace_ms
    assert await room.store.sweep(room.id, grace, "test", 10) == ([], [])
    assert await room.store.sweep(room.id, grace + 1, "test", 10) == ([("p1-1", "gone")], [])


async def test_who_comes_back_in_time_keeps_his_place(room: Room) -> None:
    for player in ("p1", "p2"):
        await room.enter(player, 0)
    await room.store.watch(room.id, ["p1-1"], "w1", 0, attach=True)
    await room.store.leave(room.id, "p1-1", "w1", 1)
    await room.store.watch(room.id, ["p1-1"], "w2", 5_000, attach=True)
    await room.enter("p3", 5_000)
    assert await room.look(5_000) == [["p1-1", "p2-1", "p3-1"]]


async def test_the_close_of_a_stale_watcher_changes_nothing(room: Room) -> None:
    for player in ("p1", "p2", "p3"):
        await room.enter(player, 0)
    await room.store.watch(room.id, ["p1-1"], "w1", 0, attach=True)
    await room.store.watch(room.id, ["p1-1"], "w2", 0, attach=True)
    await room.store.leave(room.id, "p1-1", "w1", 1)
    assert len(await room.look(1)) == 1


async def test_a_claim_given_back_does_not_revive_who_left_meanwhile(room: Room) -> None:
    for player in ("p1", "p2", "p3"):
        await room.enter(player, 0)
    await room.store.watch(room.id, ["p1-1"], "w1", 0, attach=True)
    _, (claim,) = await room.store.look(room.id, 0, "test", 10)
    await room.store.leave(room.id, "p1-1", "w1", 1)
    assert await room.store.give_back(room.id, claim, "test", 2, 2)
    assert await room.look(100_000) == []


async def test_a_number_that_never_came_into_the_queue_can_be_ended_for_good(room: Room) -> None:
    pointer = Pointer("p1-1", room.id, 0)
    entry = Entry(b"", Strength(0, 0), reserve=False)
    assert (await room.store.enter(pointer, entry, 0, create=False)).state is State.CANCELLED
    assert (await room.store.enter(pointer, entry, 0, create=True)).state is State.CANCELLED


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
async def test_looks_make_the_threes_of_the_rules_and_leave_none(seed: int, scripts: Store) -> None:
    """Each claim is the oldest possible for one of its three, and after a look nobody is left who could be matched."""
    dice, room = random.Random(seed), Room(scripts)
    waiting: list[Waiting] = []
    now = 0
    for number in range(16):
        now += dice.choice((0, 1, 500, 3_000, 9_000))
        strength = Strength(dice.randrange(0, 6_000, 100), dice.randrange(0, 6_000, 500))
        waiting.append(await room.enter(f"p{number:02}", now, strength))
        due = int(dice.random() < 0.6)  # else they gather
        while due:
            due, claims = await scripts.look(room.id, now, "test", 1)
            for claim in claims:
                assert claim.ticket_ids in [ids_of(three_for(one, waiting, now)) for one in waiting]
                waiting = [ticket for ticket in waiting if ticket.ticket_id not in claim.ticket_ids]
            if not due:
                assert [three_for(one, waiting, now) for one in waiting] == [None] * len(waiting)


def ids_of(three: list[Waiting] | None) -> list[str]:
    return sorted(ticket.ticket_id for ticket in three or ())
