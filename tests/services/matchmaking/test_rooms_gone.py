"""A room that is gone from the file while its tickets are claimed: they end, and nobody is locked out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from doudizhu.refusal import Refusal
from servicekit import errors
from services.matchmaking import store
from services.matchmaking.opening import now_ms
from services.matchmaking.queue import Strength
from services.matchmaking.store import Claim, Entry, Patience, Store
from tests.services.matchmaking.conftest import (
    CANCELLED,
    EXPIRED,
    ROOM,
    WAITING,
    Hall,
    Open,
    Person,
    rooms_file,
    until,
)

OTHER = "happy-beginner"


@pytest.fixture
async def hall(opened: Open, tmp_path: Path) -> AsyncIterator[Hall]:
    """Started again with a file that has no such room any more."""
    async with opened(claim_s=0.5, rooms_file=rooms_file(tmp_path / "rooms.yaml", without=ROOM)) as hall:
        yield hall


async def claimed(at: Store, players: Sequence[Person]) -> Claim:
    """The claim of an instance called "other"."""
    now = now_ms()
    await at.rooms([ROOM])
    for player in players:
        pointer = await at.allocate(player.id, ROOM, now)
        entry = Entry(player.player.SerializeToString(), Strength(0, 0), reserve=False)
        await at.enter(pointer, entry, now, create=True)
    _, (claim,) = await at.look(ROOM, now, "other", 32)
    return claim


async def watched(hall: Hall, players: Sequence[Person]) -> asyncio.Future[set[int]]:
    """The states in which the players' first tickets end, watched from now on."""

    async def ends() -> set[int]:
        async with asyncio.timeout(30):
            return {end.state for end in await asyncio.gather(*(p.end_of(f"{p.id}-1", hall) for p in players))}

    async def attached() -> bool:
        keys = [f"mm:{{{ROOM}}}:t:{player.id}-1" for player in players]
        return all([await hall.redis.hexists(key, "watcher") for key in keys])

    ending = asyncio.create_task(ends())
    await until(attached)
    return ending


async def test_the_claim_of_a_dead_instance_ends_with_its_room(hall: Hall) -> None:
    players = hall.players(3)
    async with store.connected(hall.config.redis_url, Patience(claim_ms=500), epoch="test") as dead:
        await claimed(dead, players)
    assert await (await watched(hall, players)) == {CANCELLED}
    assert [(await player.join(OTHER)).state for player in players[:2]] == [WAITING, WAITING]


async def test_a_room_that_is_gone_is_looked_after_while_somebody_is_claimed(
    hall: Hall, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another instance holds the claim, and gives it back late."""
    players, sweeps = hall.players(3), []
    sweep = Store.sweep

    async def noted(self: Store, room_id: str, *arguments: Any, everything: bool = False) -> Any:
        if everything:
            sweeps.append(room_id)
        return await sweep(self, room_id, *arguments, everything=everything)

    monkeypatch.setattr(Store, "sweep", noted)
    file = tmp_path / "changing" / "rooms.yaml"
    file.parent.mkdir()
    async with store.connected(hall.config.redis_url, Patience(claim_ms=60_000), epoch="test") as other:
        claim = await claimed(other, players)
        async with opened(beside=hall, rooms_file=rooms_file(file)) as beside:
            ending = await watched(beside, players)
            rooms_file(file, without=ROOM)
            await until(lambda: times(sweeps, 2))
            assert await other.give_back(ROOM, claim, "other", now_ms(), now_ms())
            assert await ending == {EXPIRED}
    assert set(sweeps) == {ROOM}


async def times(things: Sequence[object], count: int) -> bool:
    return len(things) >= count


async def test_tickets_given_back_to_a_room_that_is_gone_end(opened: Open, tmp_path: Path) -> None:
    file = tmp_path / "rooms.yaml"
    async with opened(rooms_file=rooms_file(file), open_patience_s=2.0) as hall:
        hall.tables.fault = silent
        players = hall.players(3)
        for player in players:
            await player.join()
        ending = await watched(hall, players)
        await until(lambda: times(hall.tables.opens, 1))
        rooms_file(file, without=ROOM)
        await until(lambda: is_gone(hall))
        count = len(hall.tables.opens) + 2
        await until(lambda: times(hall.tables.opens, count))
        hall.tables.fault = refusing
        assert await ending == {CANCELLED}
        assert (await players[0].join(OTHER)).state == WAITING


def silent(table_id: str) -> None:
    raise RuntimeError("planted: silence")


def refusing(table_id: str) -> None:
    raise Refusal("INVALID", "planted")


async def is_gone(hall: Hall) -> bool:
    """Whether the instance has read the file without the room."""
    player = hall.player()
    try:
        await player.cancel((await player.join()).ticket_id)
    except grpc.aio.AioRpcError as error:
        refused = errors.from_rpc_error(error)
        assert refused is not None
        return refused.reason == "NOT_FOUND"
    return False
