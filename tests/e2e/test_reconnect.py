"""Hands over broken connections, drained and killed nodes: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from ddz.table.v1.events_pb2 import Event, Snapshot
from ddzclient import Gateway, Player, Session, TableView, find_table
from deploy.local import folders, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from tests.e2e.proxy import proxy

NODES = 3


@pytest.fixture(scope="module")
def own_stack(leash: Leash) -> Iterator[whole.Stack]:
    """A stack of this module's own, of which nodes are killed."""
    options = whole.Options(rooms_file=folders.ROOT / "deploy" / "rooms.fast.yaml", drain_s=2.0)
    with whole.running(leash, folders.scratch(), ports.plan(ports.free(ports.count(NODES)), NODES), options) as running:
        yield running


@contextlib.asynccontextmanager
async def three_at_a_table(address: str, room_id: str) -> AsyncIterator[tuple[list[Session], str]]:
    """Three guests with a connection each, who have found a table; its id."""
    async with contextlib.AsyncExitStack() as doors:
        sessions = []
        for _ in range(3):
            gateway = await doors.enter_async_context(Gateway(address, timeout_s=30.0))
            sessions.append(await Session.guest(gateway, f"reconnect-{uuid.uuid4()}"))
        found = await asyncio.gather(*(find_table(session, room_id) for session in sessions))
        assert len(set(found)) == 1
        yield sessions, found[0]


class Watched:
    """A player who plays, and everything that he was told on the way."""

    def __init__(self, table: TableView) -> None:
        self.table = table
        self.updates: list[tuple[type, int]] = []

    async def play(self, hands: int) -> list[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            return await Player().play(self.table, hands)

    async def _listen(self) -> None:
        async for update in self.table.updates():
            self.updates.append((type(update), update.seq))

    def assert_nothing_lost(self) -> None:
        """One snapshot at first, then every event, each once; a snapshot may come where the view changes."""
        last = self.updates[0][1]
        assert self.updates[0][0] is Snapshot
        for kind, seq in self.updates[1:]:
            assert seq == (last + 1 if kind is Event else last)
            last = seq


async def played_through(
    sessions: Sequence[Session], table_id: str, hands: int, harm: asyncio.Task[None]
) -> list[Watched]:
    """All three play while `harm` is done; returns what they saw."""
    async with contextlib.AsyncExitStack() as tables:
        seen = [Watched(await tables.enter_async_context(session.table(table_id))) for session in sessions]
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            playing = [group.create_task(watched.play(hands)) for watched in seen]
        harm.cancel()
    results = [task.result() for task in playing]
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == hands
    for hand_id in results[0]:
        kept = await sessions[0].hand(hand_id)
        assert sum(seat.chips for seat in kept.settlement.seats) + kept.settlement.system_chips == 0
        assert not any(action.by_trustee for action in kept.record.actions if action.seat >= 0)
    for watched in seen:
        watched.assert_nothing_lost()
    return seen


@pytest.mark.parametrize("room_id", ["classic-beginner", "happy-beginner", "rob-beginner"])
async def test_hands_over_connections_that_are_cut_again_and_again(own_stack: whole.Stack, room_id: str) -> None:
    async with proxy(own_stack.address) as passing, three_at_a_table(passing.address, room_id) as (sessions, table_id):

        async def cut_often() -> None:
            while True:
                await asyncio.sleep(0.25)
                passing.cut()

        seen = await played_through(sessions, table_id, 2, asyncio.create_task(cut_often()))
        assert sum(watched.table.reconnects for watched in seen) > 0
