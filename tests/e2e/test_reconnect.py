"""Hands over broken connections, drained and killed nodes: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from urllib.request import urlopen

import pytest
import yaml

from ddz.table.v1.events_pb2 import Event, Snapshot
from ddzclient import Gateway, Player, Session, TableView, find_table
from deploy.local import folders, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from deploy.local.process import Process
from tests.e2e.proxy import proxy

NODES = 3
ROOMS = ("classic-beginner", "happy-beginner", "rob-beginner")
# Long enough for everybody to come back before a trustee acts, or before the next hand begins.
CLOCKS = {"trustee_ms": 60_000, "countdown_ms": 1_500, "show_window_ms": 50, "seed_ms": 60_000}


@pytest.fixture(scope="module")
def own_stack(leash: Leash) -> Iterator[whole.Stack]:
    """A stack of this module's own, whose nodes are killed."""
    folder = folders.scratch()
    rooms = yaml.safe_load((folders.ROOT / "deploy" / "rooms.yaml").read_text())
    rooms["clocks"] |= CLOCKS
    rooms_file = folder / "rooms.yaml"
    rooms_file.write_text(yaml.safe_dump(rooms, allow_unicode=True))
    rooms_file.chmod(0o644)
    options = whole.Options(rooms_file=rooms_file, drain_s=5.0)
    with whole.running(leash, folder, ports.plan(ports.free(ports.count(NODES)), NODES), options) as running:
        yield running


class Watched:
    """A player who plays, and everything that he was told on the way; `on_event` is called for each event."""

    def __init__(self, table: TableView, on_event: Callable[[Event], None]) -> None:
        self.table = table
        self.told: list[tuple[type, int]] = []
        self._on_event = on_event

    async def play(self, hands: int) -> list[str]:
        listening = asyncio.create_task(self._listen())
        try:
            return await Player().play(self.table, hands)
        finally:
            listening.cancel()

    async def _listen(self) -> None:
        async for update in self.table.updates():
            self.told.append((type(update), update.seq))
            if isinstance(update, Event):
                self._on_event(update)

    def assert_nothing_lost(self) -> None:
        """A snapshot first, then every event, each once; further snapshots only say more of the same moment."""
        assert self.told[0][0] is Snapshot
        last = self.told[0][1]
        for kind, seq in self.told[1:]:
            assert seq == (last + 1 if kind is Event else last)
            last = seq


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


async def play(sessions: Sequence[Session], table_id: str, hands: int, on_event: Callable[[Event], None]) -> int:
    """All three play so many hands while `on_event` does its harm; asserts that nothing shows of it in the records.

    Returns how often they had to come back.
    """
    async with contextlib.AsyncExitStack() as tables:
        seen = [
            Watched(await tables.enter_async_context(session.table(table_id)), on_event if index == 0 else _nothing)
            for index, session in enumerate(sessions)
        ]
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            playing = [group.create_task(watched.play(hands)) for watched in seen]
    results = [task.result() for task in playing]
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == hands
    for hand_id in results[0]:
        kept = await sessions[0].hand(hand_id)
        assert sum(seat.chips for seat in kept.settlement.seats) + kept.settlement.system_chips == 0
        assert not any(action.by_trustee for action in kept.record.actions)
    for watched in seen:
        watched.assert_nothing_lost()
    return sum(watched.table.reconnects for watched in seen)


def _nothing(_: Event) -> None:
    pass


@pytest.mark.parametrize("room_id", ROOMS)
async def test_hands_over_connections_that_are_cut_again_and_again(own_stack: whole.Stack, room_id: str) -> None:
    async with proxy(own_stack.address) as passing, three_at_a_table(passing.address, room_id) as (sessions, table_id):
        cuts = 0

        def cut(event: Event) -> None:
            nonlocal cuts
            if event.WhichOneof("event") in ("dealt", "bid_made", "call_made", "landlord_set", "played", "hand_won"):
                cuts += passing.cut()

        came_back = await play(sessions, table_id, 2, cut)
        assert cuts > 10
        assert came_back > 10


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
async def test_a_hand_goes_on_when_the_node_that_serves_it_ends(own_stack: whole.Stack, signum: signal.Signals) -> None:
    ended: list[Process] = []

    def end(event: Event) -> None:
        if not ended and event.WhichOneof("event") == "played" and event.played.cards_left < 15:
            ended.append(serving_node(own_stack))
            ended[0].popen.send_signal(signum)

    async with three_at_a_table(own_stack.address, "happy-beginner") as (sessions, table_id):
        came_back = await play(sessions, table_id, 1, end)
    assert came_back >= 3
    ended[0].popen.wait(60)


def serving_node(stack: whole.Stack) -> Process:
    """The table node that holds streams; there must be one."""
    for number, node in enumerate(stack.ports.services["table"], 1):
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{node.metrics}/metrics") as answer:
            if re.search(r'^ddz_streams{method="[^"]*/Play"} [1-9]', answer.read().decode(), re.MULTILINE):
                return next(process for process in stack.processes if process.name == f"table-{number}")
    raise AssertionError("no node serves a table")
