"""Races of the queue, thousands of times, each party with a connection of its own to a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from services.matchmaking import store
from services.matchmaking.queue import LIVE, State, Strength, Ticket
from services.matchmaking.store import Claim, Entry, Patience, Store

A = TypeVar("A")
B = TypeVar("B")

ROUNDS = 2_000
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
async def parties(valkey: str) -> AsyncIterator[list[Store]]:
    """Four instances."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(4):
            pipe = store.pipe(f"{valkey.rsplit('/', 1)[0]}/7")
            await stack.enter_async_context(pipe.running())
            found.append(Store(pipe, Patience(), epoch=""))
        yield found


def new_room() -> str:
    return f"race-{next(_numbers)}"


async def join(at: Store, room_id: str, player: str, now_ms: int = 0, ended: str = "") -> Ticket:
    pointer = await at.allocate(player, room_id, now_ms, ended)
    entry = Entry(player.encode(), Strength(0, 0), reserve=False)
    return await at.enter(pointer, entry, now_ms, create=True)


async def look(at: Store, room_id: str, owner: str) -> list[Claim]:
    _, claims = await at.look(room_id, 0, owner, 32)
    return claims


def only(claims: Sequence[Claim]) -> Claim:
    (claim,) = claims
    return claim


async def together(one: Coroutine[Any, Any, A], other: Coroutine[Any, Any, B], *, swapped: bool) -> tuple[A, B]:
    """Both at once; `swapped` sends the other first."""
    if swapped:
        second, first = asyncio.create_task(other), asyncio.create_task(one)
    else:
        first, second = asyncio.create_task(one), asyncio.create_task(other)
    return await first, await second


async def test_joins_at_once_make_one_ticket(parties: list[Store]) -> None:
    room_id = new_room()

    async def one(number: int) -> None:
        player = f"join{number}"
        tickets = await asyncio.gather(*(join(party, room_id, player) for party in parties))
        assert {ticket.ticket_id for ticket in tickets} == {f"{player}-1"}

    for start in range(0, ROUNDS, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))
    assert await parties[0].waiting(room_id) == ROUNDS


async def test_joins_after_an_end_at_once_make_one_new_ticket(parties: list[Store]) -> None:
    room_id = new_room()

    async def one(number: int) -> None:
        player = f"again{number}"
        first = await join(parties[0], room_id, player)
        await parties[0].cancel(room_id, first.ticket_id, 0)
        tickets = await asyncio.gather(*(join(at, room_id, player, ended=first.ticket_id) for at in parties))
        assert {ticket.ticket_id for ticket in tickets} == {f"{player}-2"}

    for start in range(0, ROUNDS, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))
    assert await parties[0].waiting(room_id) == ROUNDS


async def test_a_cancel_and_a_claim_have_one_definite_answer(parties: list[Store]) -> None:
    """Either the cancel is done and nobody is claimed, or the three are claimed and the cancel comes too late."""
    dice = random.Random(1)
    wins: Counter[bool] = Counter()

    async def one(number: int) -> None:
        room_id = new_room()
        players = [f"cancel{number}.{seat}" for seat in range(3)]
        tickets = [await join(parties[0], room_id, player) for player in players]
        (done, ticket), claims = await together(
            parties[1].cancel(room_id, tickets[0].ticket_id, 0),
            look(parties[2], room_id, "matcher"),
            swapped=dice.random() < 0.5,
        )
        assert ticket is not None
        wins[done] += 1
        if done:
            assert (ticket.state, claims) == (State.CANCELLED, [])
            assert await parties[3].waiting(room_id) == 2
        else:
            assert ticket.state is State.CLAIMED
            assert tickets[0].ticket_id in only(claims).ticket_ids

    for start in range(0, ROUNDS, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))
    assert min(wins.values()) > ROUNDS // 10


async def test_matchers_at_once_claim_nobody_twice(parties: list[Store]) -> None:
    room_id = new_room()
    count = 3 * ROUNDS
    for start in range(0, count, 500):
        numbers = range(start, start + 500)
        await asyncio.gather(*(join(parties[number % 4], room_id, f"twice{number}") for number in numbers))
    claimed: list[str] = []

    async def match(at: Store) -> None:
        while claims := await look(at, room_id, "matcher"):
            claimed.extend(ticket for claim in claims for ticket in claim.ticket_ids)

    await asyncio.gather(*(match(party) for party in parties))
    assert len(claimed) == len(set(claimed)) == count


async def test_the_last_place_of_a_three_goes_to_one(parties: list[Store]) -> None:
    async def one(number: int) -> None:
        room_id = new_room()
        for seat in range(2):
            await join(parties[0], room_id, f"last{number}.{seat}")
        rivals = [f"last{number}.{seat}" for seat in (2, 3)]
        await asyncio.gather(*(join(at, room_id, rival) for at, rival in zip(parties[:2], rivals, strict=True)))
        found = await asyncio.gather(*(look(party, room_id, "matcher") for party in parties))
        only([claim for claims in found for claim in claims])
        assert await parties[0].waiting(room_id) == 1

    for start in range(0, ROUNDS // 2, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))


async def test_a_match_and_a_give_back_have_one_outcome(parties: list[Store]) -> None:
    wins: Counter[bool] = Counter()

    async def one(number: int) -> None:
        room_id = new_room()
        tickets = [await join(parties[0], room_id, f"back{number}.{seat}") for seat in range(3)]
        claim = only(await look(parties[0], room_id, "matcher"))
        matched, back = await together(
            parties[1].matched(room_id, claim, "table", b"", 0),
            parties[2].give_back(room_id, claim, "matcher", 0, 0),
            swapped=number % 2 == 0,
        )
        assert matched != back
        wins[matched] += 1
        states = await parties[3].watch(room_id, [ticket.ticket_id for ticket in tickets], "", 0)
        expected = State.MATCHED if matched else State.WAITING
        assert {state.state for state in states if state} == {expected}

    for start in range(0, ROUNDS, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))
    assert min(wins.values()) > 0


async def test_everybody_has_one_end_whatever_races(parties: list[Store]) -> None:
    """Joins, cancels, looks, losses of matchers: each ticket ends once, and nobody is in two matches."""
    room_id = new_room()
    dice = random.Random(2)
    players = [f"mix{number}" for number in range(1_500)]
    tables: list[str] = []
    cancelled: set[str] = set()
    late: set[str] = set()
    joining = True

    async def person(player: str) -> None:
        at = dice.choice(parties)
        ticket = await join(at, room_id, player)
        if dice.random() < 0.4:
            await asyncio.sleep(dice.random() / 20)
            done, _ = await dice.choice(parties).cancel(room_id, ticket.ticket_id, 0)
            (cancelled if done else late).add(ticket.ticket_id)

    async def matcher(at: Store, owner: str) -> None:
        while joining or await at.waiting(room_id) >= 3:
            for claim in await look(at, room_id, owner):
                chance = dice.random()
                if chance < 0.2:
                    assert await at.give_back(room_id, claim, owner, 0, 0)
                elif chance < 0.9:
                    assert await at.matched(room_id, claim, claim.claim_id, b"", 0)
                    tables.append(claim.claim_id)
            await asyncio.sleep(0)

    matchers = [asyncio.create_task(matcher(party, f"m{number}")) for number, party in enumerate(parties)]
    await asyncio.gather(*(person(player) for player in players))
    joining = False
    await asyncio.gather(*matchers)
    _, left = await parties[0].sweep(room_id, Patience().claim_ms, "heir", 10_000)
    seated = [ticket for table in tables for ticket in table.split(",")]
    claimed = [ticket for claim in left for ticket in claim.ticket_ids]
    assert len(seated) == len(set(seated))
    assert not cancelled & {*seated, *claimed}
    assert late <= {*seated, *claimed}
    tickets = [f"{player}-1" for player in players]
    states = await parties[0].watch(room_id, tickets, "", 0)
    by_state = Counter(state.state for state in states if state)
    assert by_state[State.MATCHED] == len(seated)
    assert by_state[State.CLAIMED] == len(claimed)
    assert by_state[State.CANCELLED] == len(cancelled)
    assert by_state[State.WAITING] < 3
    assert sum(by_state.values()) == len(players)
    assert set(by_state) <= {*LIVE, State.MATCHED, State.CANCELLED}
