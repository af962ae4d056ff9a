"""`make chaos`: the whole local stack under load while a seeded schedule breaks every part of it in turn.

Each service, Postgres, Valkey, NATS and Envoy are killed with -9 and paused, connections of clients, Redis and
Postgres are cut, and Valkey's disk is filled (as root; otherwise that is left out, and said so). Every acknowledged
command must stand in its log once, every finished hand be settled once, the books be right, nobody be stuck, all
clients see the same tables in the end, and no service log a fault of our own. The last line is JSON; the exit status is
1 when not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import table_pb2
from ddzclient import Gateway, Refusal
from ddzclient.errors import ClientError
from ddzclient.table import Action
from deploy.local import folders, gateway, ports, stack
from deploy.local.leash import Leash
from servicekit import server
from tests.chaos.acknowledged import Acknowledged
from tests.chaos.chaos_table import differing
from tests.chaos.table_audit import appended, check_acknowledged, check_ledger, faults_of_our_own, read_logs
from tests.chaos.wreck import Wreck, keep_the_log_whole, small_disk
from tests.e2e.proxy import proxy
from tests.load.meter import Meter
from tests.load.people import Person, TimedTable, World
from tests.load.plan import Mix, Pace

TABLE_NODES: Final = 2
PEOPLE_A_CONNECTION: Final = 10
CONVERGED_WITHIN_S: Final = 60.0
AWAY_WITHIN_S: Final = 180.0
CLOSED_WITHIN_S: Final = 180.0
MANY: Final = 1_000_000
MIX: Final = Mix(
    people={"player": 16, "reconnector": 4, "fleer": 1, "observer": 2, "idle": 1},
    rooms={"classic-beginner": 1, "happy-beginner": 1, "rob-beginner": 1},
    think_median_s=0.3,
    think_longest_s=2.0,
)


@dataclass
class Crowd:
    """The people, and what was acknowledged to them."""

    world: World
    acknowledged: list[Acknowledged]
    living: list[asyncio.Task[None]]


@contextlib.asynccontextmanager
async def crowd(address: str, count: int, seed: int, leaves_at_s: float) -> AsyncIterator[Crowd]:
    """People of all kinds, who leave at that moment of the loop's clock when they have ended their hand."""
    acknowledged: list[Acknowledged] = []

    def remember(table: TimedTable, action: Action, command_id: str, seq: int) -> None:
        name = action.DESCRIPTOR.name
        acknowledged.append(Acknowledged(table.table_id, table.player_id, command_id, name, seq))

    async with contextlib.AsyncExitStack() as held:
        connections = -(-count // PEOPLE_A_CONNECTION)
        doors = [await held.enter_async_context(Gateway(address, timeout_s=30.0)) for _ in range(connections)]
        world = World(doors, MIX, Pace.HUMAN, seed, Meter(), asyncio.Event(), acknowledged=remember)
        world.go.set()
        cut_at_s = leaves_at_s + CONVERGED_WITHIN_S + AWAY_WITHIN_S
        living = [asyncio.create_task(Person(world, number).live(leaves_at_s, cut_at_s)) for number in range(count)]
        yield Crowd(world, acknowledged, living)


async def converge(people: Crowd) -> list[str]:
    """Nobody acts any more: waits until each client sees what its table says; tells of those who never do."""
    wrong = []
    until = time.monotonic() + CONVERGED_WITHIN_S
    for table in list(people.world.tables):
        difference = "it was never asked"
        while difference and time.monotonic() < until and table in people.world.tables:
            difference = await _difference(people.world, table)
            if difference:
                await asyncio.sleep(0.1)
        if difference and table in people.world.tables:
            wrong.append(f"{table.player_id} sees another table {table.table_id}: {difference}")
    return wrong


async def _difference(world: World, table: TimedTable) -> str:
    door = world.gateways[0]
    request = table_pb2.GetTableRequest(table_id=table.table_id)
    try:
        found = await door.call(door.table.GetTable, request, metadata=await table.headers())
    except (Refusal, ClientError) as error:
        return str(error)
    return differing(found.snapshot, table.state)


async def run(leash: Leash, running: stack.Stack, disk: Path | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """The chaos, the calm after it, and the audit."""
    await keep_the_log_whole(running.redis_url)
    leaves_at_s = asyncio.get_running_loop().time() + arguments.seconds
    async with (
        proxy(running.address) as clients,
        crowd(clients.address, arguments.people, arguments.seed, leaves_at_s) as people,
    ):
        wreck = Wreck(leash, running, clients, disk, arguments.seed)
        breaking = asyncio.create_task(wreck.work())
        await _wait(arguments.seconds, wreck, people)
        breaking.cancel()
        await asyncio.wait([breaking])
        await wreck.calm()
        if not breaking.cancelled():
            breaking.result()
        print("calm: clients converge …", flush=True)
        people.world.go.clear()
        wrong = await converge(people)
        people.world.go.set()
        print("the last hands are played …", flush=True)
        await asyncio.gather(*people.living)
    meter = people.world.meter
    wrong += [f"{meter.counts['cut']} people never got away"] if meter.counts["cut"] else []
    result = await audit(running, people, wrong)
    return {"seconds": arguments.seconds, "people": arguments.people, "broken": dict(wreck.counts), **result}


async def _wait(seconds: float, wreck: Wreck, people: Crowd) -> None:
    """Tells now and then how far it is."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left_s, 15.0))
        hands = people.world.meter.counts["seat_hands"] // 3
        print(f"{left_s:.0f} s left: {wreck.counts.total()} things broken, {hands} hands", flush=True)


async def audit(running: stack.Stack, people: Crowd, wrong: list[str]) -> dict[str, Any]:
    """Reads all logs and asks the ledger, once the last table has closed."""
    async with server.channel(running.grpc_address("ledger")) as channel:
        internal = ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        until = time.monotonic() + CLOSED_WITHIN_S
        while (await internal.Audit(ledger_pb2.AuditRequest(skip_records=True), timeout=60)).hands_open:
            if time.monotonic() > until:
                break
            await asyncio.sleep(1.0)
        entries = appended(running.folder / "valkey")
        logs = read_logs(entries, entries)
        faults, settled = await check_ledger(logs, ledger_pb2_grpc.LedgerServiceStub(channel), internal)
    ours = faults_of_our_own(running.fleet.processes)
    wrong += [*logs.wrong, *check_acknowledged(logs, people.acknowledged), *faults, *ours]
    for sentence in wrong[:20]:
        print(f"WRONG {sentence[:600]}", flush=True)
    meter = people.world.meter
    return {
        "tables": len(entries),
        "events": logs.events,
        "acknowledged": len(people.acknowledged),
        "acknowledged_in_log": sum(
            (one.table_id, one.player_id, one.command_id) in logs.commands for one in people.acknowledged
        ),
        "hands_finished": len(logs.finished),
        **settled,
        "streams_made_anew": meter.counts["streams_made_anew"],
        "refused": meter.of("refused"),
        "faults_of_our_own": len(ours),
        "errors_in_chaos": meter.of("error"),
        "wrong": len(wrong),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=90)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = folders.scratch()
    options = stack.Options(
        rooms_file=folders.ROOT / "deploy" / "rooms.fast.yaml",
        drain_s=1.0,
        limits=gateway.Limits(MANY, MANY, MANY, MANY),
        extra={
            "DDZ_ALLOW_BOTS": "1",
            "DDZ_LOG_LEVEL": "WARNING",
            "DDZ_TABLE_CUT_EVENTS": str(MANY),
            "DDZ_TABLE_KEEP_S": "7200",
        },
    )
    with Leash(folder) as leash, small_disk(folder / "valkey") as disk:
        if disk is None:
            print("no disk is filled: only root may mount a small one", flush=True)
        plan = ports.plan(ports.free(ports.count(TABLE_NODES)), TABLE_NODES)
        with stack.running(leash, folder, plan, options) as running:
            result = uvloop.run(run(leash, running, disk, arguments))
    print(json.dumps(result))
    raise SystemExit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
