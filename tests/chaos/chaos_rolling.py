"""`make chaos-rolling`: a rolling restart of every service under load with live hands, on two processes of each.

Processes are restarted one after the other, then all first and all second ones at once, as a release does, while
players queue, play, and ask the lobby and the ledger. Every hand must be settled as it was played, none lost or fled,
no card played by a trustee, and no player may meet an error: a stream that reconnects is all that shows. The last line
is JSON; the exit status is 1 when not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import uvloop
import yaml

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.matchmaking.v1.matchmaking_pb2 import TicketState
from ddz.table.v1.events_pb2 import Snapshot
from ddzclient import Gateway, Player, Session, TableView
from ddzclient.errors import ClientError, TicketEnded
from ddzclient.verify import verify
from deploy.local import folders, gateway, ports, stack
from deploy.local.leash import Leash
from doudizhu.refusal import Refusal
from servicekit import server

ROOMS: Final = ("happy-beginner", "rob-beginner", "classic-beginner")
NODES: Final = 2
HANDS: Final = 2  # of one ticket
# Long enough for everybody to come back on a busy machine before a trustee acts; short where players only wait.
CLOCKS: Final = {"trustee_ms": 5_000, "countdown_ms": 300, "show_window_ms": 100, "seed_ms": 5_000}
_HEALTHY_WITHIN_S: Final = 30.0


@dataclass
class Seen:
    """What all players have seen; `stop` tells them to end with their hand."""

    stop: bool = False
    hands: dict[str, Session] = field(default_factory=dict)
    reconnects: int = 0
    calls: int = 0
    errors: list[str] = field(default_factory=list)
    restarts: list[tuple[int, str]] = field(default_factory=list)  # when, in ms of the epoch, and which

    def when(self, at_ms: int) -> str:
        """A moment by the restart before it."""
        began_ms, names = max((one for one in self.restarts if one[0] <= at_ms), default=(at_ms, "no restart"))
        return f"{at_ms - began_ms} ms after {names}"


class Slow(Player):
    """A player who thinks for `pace_s` seconds on average."""

    def __init__(self, pace_s: float, seed: int) -> None:
        super().__init__(seed=seed)
        self._pace_s = pace_s

    async def _act(self, table: TableView, state: Snapshot) -> None:
        await asyncio.sleep(self._pace_s * random.uniform(0.5, 1.5))
        await super()._act(table, state)


class Person:
    """Queues for a room, plays, and queues again; asks for what a client shows between hands."""

    def __init__(self, session: Session, room_id: str, pace_s: float, seen: Seen) -> None:
        self._session, self._room_id, self._pace_s, self._seen = session, room_id, pace_s, seen

    async def live(self) -> None:
        """Until told to stop; what an SDK's user would have to handle is written down."""
        while not self._seen.stop:
            try:
                await self._once()
            except (Refusal, ClientError) as error:
                self._seen.errors.append(f"{self._session.player_id}: {type(error).__name__}: {error}")
                await asyncio.sleep(1.0)

    async def _once(self) -> None:
        await self._session.profile()
        await self._session.balance()
        await self._session.rooms()
        self._seen.calls += 3
        table_id = await self._find_table()
        if table_id is None:
            return
        async with self._session.table(table_id) as table:
            try:
                done = await Slow(self._pace_s, random.getrandbits(30)).play(table, HANDS)
            finally:
                self._seen.reconnects += table.reconnects
        self._seen.hands |= dict.fromkeys(done, self._session)

    async def _find_table(self) -> str | None:
        """Waits for a table; gives the ticket back when it is time to stop."""
        ticket = await self._session.join(self._room_id)
        finding = asyncio.create_task(self._session.matched(ticket.ticket_id))
        cancelled = False
        while not finding.done():
            await asyncio.wait([finding], timeout=0.2)
            if self._seen.stop and not cancelled:
                cancelled = True
                with contextlib.suppress(Refusal):  # too late: a table was found
                    ended = await self._session.cancel(ticket.ticket_id)
                    assert ended.state == TicketState.TICKET_STATE_CANCELLED
        try:
            return finding.result()
        except TicketEnded:
            if not cancelled:
                raise
            return None


@contextlib.contextmanager
def system(leash: Leash, folder: Path, **clocks: int) -> Iterator[stack.Stack]:
    """A stack with two processes of each service; `clocks` are in ms, as in deploy/rooms.yaml."""
    rooms = yaml.safe_load((folders.ROOT / "deploy" / "rooms.yaml").read_text())
    rooms["clocks"] |= CLOCKS | clocks
    (folder / "rooms.yaml").write_text(yaml.safe_dump(rooms, allow_unicode=True))
    free = ports.free(ports.count(1) + 2 * NODES * len(ports.SERVICES))
    own = iter(free[ports.count(1) :])
    nodes = {name: [ports.Node(next(own), next(own)) for _ in range(NODES)] for name in ports.SERVICES}
    plan = replace(ports.plan(free, 1), services=nodes)
    limits = gateway.Limits(player_per_s=1_000, player_burst=1_000, address_per_s=1_000, address_burst=1_000)
    options = stack.Options(
        rooms_file=folder / "rooms.yaml", drain_s=10.0, limits=limits, extra={"DDZ_ALLOW_BOTS": "1"}
    )
    with stack.running(leash, folder, plan, options) as running:
        yield running


@contextlib.asynccontextmanager
async def people(running: stack.Stack, count: int, pace_s: float, seen: Seen) -> AsyncIterator[list[Person]]:
    """Guests on connections that twelve share, a third for each room."""
    async with contextlib.AsyncExitStack() as held:
        doors = [await held.enter_async_context(Gateway(running.address)) for _ in range(-(-count // 12))]
        found = []
        for number in range(count):
            session = await Session.guest(doors[number % len(doors)], f"bot:{uuid.uuid4()}")
            found.append(Person(session, ROOMS[number % len(ROOMS)], pace_s, seen))
        yield found


def _healthy_at_the_gateway(running: stack.Stack) -> bool:
    """Whether the gateway sends calls to every process."""
    with urlopen(f"http://127.0.0.1:{running.ports.gateway_metrics}/metrics", timeout=5.0) as answer:
        lines = answer.read().decode().splitlines()
    found = {
        line.split('"')[1]: float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("envoy_cluster_membership_healthy{")
    }
    return all(found[name] == NODES for name in ports.SERVICES)


async def restart(running: stack.Stack, *names: str) -> float:
    """Restarts processes at once, waits until the gateway sends calls to them; returns how long it took in s."""
    began = time.monotonic()
    await asyncio.to_thread(running.fleet.restart, *names)
    until = time.monotonic() + _HEALTHY_WITHIN_S
    while not await asyncio.to_thread(_healthy_at_the_gateway, running):
        assert time.monotonic() < until, f"the gateway does not take {', '.join(names)} back"
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def roll(running: stack.Stack, seen: Seen, *, one_by_one: bool, pause_s: float) -> list[float]:
    """The restarts; returns how long each took in s."""
    names = running.fleet.names
    waves = [[name] for name in names] if one_by_one else []
    waves += [[name for name in names if name.endswith(f"-{number}")] for number in range(1, NODES + 1)]
    took = []
    for wave in waves:
        await asyncio.sleep(pause_s)
        seen.restarts.append((time.time_ns() // 1_000_000, ", ".join(wave)))
        took.append(await restart(running, *wave))
        print(f"restarted {', '.join(wave)} in {took[-1]:.1f} s, {len(seen.hands)} hands so far", flush=True)
    return took


async def run(
    running: stack.Stack, *, players: int, pace_s: float, rounds: int, one_by_one: bool, pause_s: float
) -> dict[str, Any]:
    """Plays while everything is restarted; the counts for the last line."""
    seen = Seen()
    async with people(running, players, pace_s, seen) as present:
        living = [asyncio.create_task(person.live()) for person in present]
        took: list[float] = []
        for _ in range(rounds):
            took += await roll(running, seen, one_by_one=one_by_one, pause_s=pause_s)
        await asyncio.sleep(pause_s)
        seen.stop = True
        await asyncio.gather(*living)
        return await check(running, seen, took)


async def check(running: stack.Stack, seen: Seen, took: Sequence[float]) -> dict[str, Any]:
    """Reads every hand back, proves it, and audits the ledger."""
    wrong = [line for process in running.fleet.processes for line in process.faults()] + seen.errors
    acts: Counter[bool] = Counter()
    for hand_id, session in seen.hands.items():
        found = await session.hand(hand_id)
        wrong += [f"{hand_id}: {sentence}" for sentence in verify(found.record, found.settlement)]
        wrong += [f"{hand_id}: a seat fled"] if found.record.outcome.HasField("fled") else []
        acts.update(action.by_trustee for action in found.record.actions)
        wrong += [
            f"{hand_id}: seat {action.seat} did not {action.WhichOneof('action')} itself, {seen.when(action.at_ms)}"
            for action in found.record.actions
            if action.by_trustee
        ]
    async with server.channel(running.grpc_address("ledger"), running.fleet.operator) as channel:
        audit = await ledger_pb2_grpc.LedgerInternalServiceStub(channel).Audit(ledger_pb2.AuditRequest(), timeout=60.0)
    wrong += list(audit.faults)
    # A hand in which all three pass is void at the table, by the rules; any other void one was lost.
    lost = "SELECT hand_id || ': void, ' || void_reason FROM ledger.settlement WHERE void_reason <> 'void at the table'"
    wrong += running.postgres.psql(lost, "ddz").splitlines()
    wrong += [f"{audit.hands_open} hands are open"] if audit.hands_open else []
    if audit.hands_settled != len(seen.hands):
        wrong.append(f"the ledger settled {audit.hands_settled} hands, players saw {len(seen.hands)}")
    for sentence in wrong[:20]:
        print(f"WRONG {sentence[:2000]}", flush=True)
    return {
        "restarts": len(took),
        "longest_restart_s": round(max(took), 1),
        "hands_settled": audit.hands_settled,
        "hands_all_passed": audit.hands_voided,
        "hands_open": audit.hands_open,
        "actions": acts.total(),
        "actions_by_trustee": acts[True],
        "calls": seen.calls,
        "reconnects": seen.reconnects,
        "errors": len(seen.errors),
        "wrong": len(wrong),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=60)
    parser.add_argument("--pace-s", type=float, default=0.5, help="how long a player thinks, on average")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pause-s", type=float, default=2.0, help="between restarts")
    trustee = "how long a seat that is away is waited for on its turn; deploy/rooms.yaml has 1000"
    parser.add_argument("--trustee-ms", type=int, default=CLOCKS["trustee_ms"], help=trustee)
    arguments = parser.parse_args()
    folder = folders.scratch()
    with Leash(folder) as leash, system(leash, folder, trustee_ms=arguments.trustee_ms) as running:
        result = uvloop.run(
            run(
                running,
                players=arguments.players,
                pace_s=arguments.pace_s,
                rounds=arguments.rounds,
                one_by_one=True,
                pause_s=arguments.pause_s,
            )
        )
    print(json.dumps(result))
    raise SystemExit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
