"""`make chaos-table`: tables at a fast pace on two nodes that are killed with -9 all the time.

Players come through the gateway; Envoy, NATS, the ledger and the connection to Redis are interrupted besides.

Every acknowledged command must stand in its log exactly once, every finished hand be settled exactly once, no table
be stuck or stand still for long after its node's death (standstill.py), all clients see the same table in the end,
every table close when all have gone, and no service log a fault of our own. The last line is JSON; the exit status is
1 when not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc
import uvloop
from redis.asyncio import Redis

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from deploy.local import folders
from deploy.local.leash import Leash
from servicekit import server
from tests.chaos.standstill import Ended, standstills
from tests.chaos.table_audit import (
    appended,
    check_acknowledged,
    check_closed,
    check_ledger,
    faults_of_our_own,
    read_logs,
)
from tests.chaos.table_player import LONGEST_PACE, Orders, Seat
from tests.chaos.table_rig import Rig, rig, terms
from tests.services.table.stack import is_serving

KILL_EVERY_S = (1.0, 2.0)
INTERRUPT_EVERY_S = (8.0, 14.0)
LOOKS_AT_ONCE = 16
ALLOWED_MS = 3_000
CLOSED_WITHIN_S = 150.0  # an empty table is kept for a while, and one that was forgotten is reviewed each minute
BOOKS = ("classic", "happy", "rob")


# ---- what breaks ----------------------------------------------------------------------------------------------------


class Chaos:
    """Kills nodes, and interrupts what stands behind them."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.away: list[tuple[int, int]] = []
        self.deaths: list[tuple[int, str]] = []

    async def kill_nodes(self) -> None:
        """Any node, as soon as another one serves: with none there is nothing to move to."""
        while True:
            await asyncio.sleep(self.rng.uniform(*KILL_EVERY_S))
            number = self.rng.randrange(len(self.rig.nodes))
            victim = self.rig.nodes[number]
            others = [port for other, port in enumerate(self.rig.node_ports) if other != number]
            if not await asyncio.to_thread(lambda: any(map(is_serving, others))):  # noqa: B023
                continue
            await asyncio.to_thread(victim.kill)
            self.counts["nodes_killed"] += 1
            self.deaths.append((victim.deaths_ms[-1], victim.name))

    async def interrupt(self) -> None:
        works = [self._envoy, self._nats, self._ledger, self._cut_redis, self._stop_redis]
        while True:
            for work in self.rng.sample(works, len(works)):
                await asyncio.sleep(self.rng.uniform(*INTERRUPT_EVERY_S))
                begun = now_ms()
                await work()
                self.away.append((begun, now_ms()))

    async def _envoy(self) -> None:
        self.counts["envoy_killed"] += 1
        await asyncio.to_thread(self.rig.envoy.kill)
        await asyncio.sleep(1.0)

    async def _nats(self) -> None:
        self.counts["nats_killed"] += 1
        self.rig.nats.process.popen.kill()
        self.rig.nats.process.popen.wait()
        await asyncio.sleep(3.0)
        self.rig.nats.process = self.rig.nats.start()

    async def _ledger(self) -> None:
        self.counts["ledger_killed"] += 1
        await asyncio.to_thread(self.rig.ledger.kill)
        await asyncio.sleep(2.0)

    async def _cut_redis(self) -> None:
        self.counts["redis_connections_cut"] += 1
        async with Redis.from_url(self.rig.valkey.url) as redis:
            await redis.client_kill_filter(_type="normal", skipme=True)

    async def _stop_redis(self) -> None:
        self.counts["redis_stopped"] += 1
        self.rig.valkey.process.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.5)
        self.rig.valkey.process.popen.send_signal(signal.SIGCONT)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- the run --------------------------------------------------------------------------------------------------------


async def open_tables(rig: Rig, count: int) -> dict[str, list[str]]:
    """Tables of the three books in turn, their players with chips; table -> players by seat."""
    tables: dict[str, list[str]] = {}
    async with (
        server.channel(f"127.0.0.1:{rig.ledger_port}") as ledger,
        server.channel(f"127.0.0.1:{rig.node_ports[0]}") as node,
    ):
        grant = ledger_pb2_grpc.LedgerInternalServiceStub(ledger).Grant
        internal = table_pb2_grpc.TableInternalServiceStub(node)

        async def one(number: int) -> None:
            book, table_id = BOOKS[number % 3], f"chaos{number}"
            players = [common_pb2.Player(player_id=f"{table_id}-{seat}") for seat in range(3)]
            for player in players:
                await grant(
                    ledger_pb2.GrantRequest(
                        key=f"signup:{player.player_id}", player_id=player.player_id, chips=1_000_000, kind="signup"
                    )
                )
            seated = players if book == "rob" else []
            await internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=terms(book), players=seated))
            if not seated:
                for player in players:
                    await internal.Sit(table_pb2.SitRequest(table_id=table_id, player=player))
            tables[table_id] = [player.player_id for player in players]

        numbers = iter(range(count))

        async def some() -> None:
            for number in numbers:
                await one(number)

        await asyncio.gather(*(some() for _ in range(16)))
    return tables


@contextlib.asynccontextmanager
async def doors(rig: Rig) -> AsyncIterator[list[table_pb2_grpc.TableServiceAsyncStub]]:
    """Connections to the gateway."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500))
    async with contextlib.AsyncExitStack() as held:
        channels = [
            await held.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{rig.gateway_port}", options=options))
            for _ in range(12)
        ]
        yield [table_pb2_grpc.TableServiceStub(channel) for channel in channels]


async def converge(rig: Rig, seats: list[Seat], timeout_s: float) -> list[str]:
    """Waits until every client sees what its table says; tells of those who never do."""
    until = time.monotonic() + timeout_s
    at_once = asyncio.Semaphore(LOOKS_AT_ONCE)  # one that never converges must not use up the time of the others
    async with server.channel(f"127.0.0.1:{rig.node_ports[0]}") as channel:
        look = table_pb2_grpc.TableServiceStub(channel).GetTable

        async def see(seat: Seat) -> str:
            request = table_pb2.GetTableRequest(table_id=seat.table_id)
            difference = "it was never asked"
            while time.monotonic() < until:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async with at_once:
                        answer = await look(request, metadata=(("x-player-id", seat.player_id),), timeout=5)
                    difference = "it has not been let in"
                    if seat.entered:
                        difference = differing(answer.snapshot, seat.view.state)
                    if not difference:
                        return ""
                await asyncio.sleep(0.5)
            return f"{seat.player_id} sees another table: {difference}"

        return [found for found in await asyncio.gather(*map(see, seats)) if found]


async def all_closed(rig: Rig) -> None:
    """Waits until no table has a deadline any more, which closed ones have not; those that never close are told later.

    Raises what Redis raises.
    """
    until = time.monotonic() + CLOSED_WITHIN_S
    async with Redis.from_url(rig.valkey.url) as redis:
        while time.monotonic() < until:
            keys = [key async for key in redis.scan_iter(match="*:deadlines")]
            if not sum([await redis.zcard(key) for key in keys]):
                return
            await asyncio.sleep(1.0)


def differing(one: events_pb2.Snapshot, other: events_pb2.Snapshot) -> str:
    """The first field in which two views of a table differ; empty when they are the same."""
    for descriptor in events_pb2.Snapshot.DESCRIPTOR.fields:
        if descriptor.name not in ("at_ms", "epoch") and getattr(one, descriptor.name) != getattr(
            other, descriptor.name
        ):
            return f"{descriptor.name}: {getattr(one, descriptor.name)} and {getattr(other, descriptor.name)}"
    return ""


async def run(rig: Rig, arguments: argparse.Namespace) -> dict[str, Any]:
    async with Redis.from_url(rig.valkey.url) as redis:
        await redis.config_set("auto-aof-rewrite-percentage", 0)  # the audit reads everything that was appended
    tables = await open_tables(rig, arguments.tables)
    orders, chaos = Orders(arguments.pace_s), Chaos(rig, arguments.seed)
    async with doors(rig) as stubs:
        seats = [
            Seat(random.choice(stubs), table_id, player_id, rig.tokens.of(player_id), orders)
            for table_id, players in tables.items()
            for player_id in players
        ]
        playing = [asyncio.create_task(seat.play()) for seat in seats]
        breaking = [asyncio.create_task(work()) for work in (chaos.kill_nodes, chaos.interrupt)]
        print(f"{len(tables)} tables, {arguments.seconds} s of chaos …", flush=True)
        await asyncio.sleep(arguments.seconds)
        for task in breaking:
            task.cancel()
        ended_ms = now_ms()
        await asyncio.gather(*breaking, return_exceptions=True)
        rig.valkey.process.popen.send_signal(signal.SIGCONT)
        if not rig.nats.process.alive():
            rig.nats.process = rig.nats.start()
        print("calm: clients converge …", flush=True)
        orders.hold = True
        for victim, port in zip((rig.ledger, *rig.nodes), (rig.ledger_port, *rig.node_ports), strict=True):
            await asyncio.to_thread(victim.process.wait_until, lambda: is_serving(port))  # noqa: B023
        # Whoever lost his seat while he was away is told no more of it.
        wrong = await converge(rig, [seat for seat, task in zip(seats, playing, strict=True) if not task.done()], 60.0)
        print("the last hands are played …", flush=True)
        orders.hold, orders.leave = False, True
        _, late = await asyncio.wait(playing, timeout=180.0)
        wrong += [f"{len(late)} players never got away"] if late else []
        for task in late:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
    print("the tables close …", flush=True)
    await all_closed(rig)
    return await audit(rig, tables, orders, chaos, ended_ms, wrong)


async def audit(
    rig: Rig, tables: dict[str, list[str]], orders: Orders, chaos: Chaos, ended_ms: int, wrong: list[str]
) -> dict[str, Any]:
    logs = read_logs(appended(rig.folder), tables)
    async with server.channel(f"127.0.0.1:{rig.ledger_port}") as channel:
        faults, settled = await check_ledger(
            logs, ledger_pb2_grpc.LedgerServiceStub(channel), ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        )
    wrong = [*orders.wrong, *wrong, *logs.wrong, *check_acknowledged(logs, orders.acknowledged), *faults]
    ours = faults_of_our_own(victim.process for victim in (rig.ledger, *rig.nodes))
    wrong += [*check_closed(logs, tables), *ours]
    wrong += [f"{one} was turned away and has not left" for one in orders.turned_away if one not in logs.left]
    still = standstills(
        logs.steps, Ended(chaos.deaths, chaos.away, ended_ms), ALLOWED_MS, int(1000 * LONGEST_PACE * orders.pace_s)
    )
    for sentence in wrong[:20]:
        print(f"WRONG {sentence[:600]}", flush=True)
    return {
        "tables": len(tables),
        **chaos.counts,
        "events": logs.events,
        "acknowledged": len(orders.acknowledged),
        "acknowledged_in_log": sum(
            (one.table_id, one.player_id, one.command_id) in logs.commands for one in orders.acknowledged
        ),
        "refused": orders.refused,
        "reconnects": orders.reconnects,
        "seats_lost": len(orders.turned_away),
        "tables_closed": len(logs.closed),
        "faults_of_our_own": len(ours),
        "hands_finished": len(logs.finished),
        **settled,
        "after_a_death": still,
        "wrong": len(wrong),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--pace-s", type=float, default=1.0, help="how long a player thinks, on average")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = folders.scratch()
    with Leash(folder) as leash, rig(leash, folder) as running:
        result = uvloop.run(run(running, arguments))
    print(json.dumps(result))
    raise SystemExit(1 if result["wrong"] or result["after_a_death"]["later_than_allowed"] else 0)


if __name__ == "__main__":
    main()
