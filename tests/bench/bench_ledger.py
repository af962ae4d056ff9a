"""`make bench-ledger`: settlements a second through the batcher and over gRPC, beside pgbench's TPC-B.

Rounds of settlements and of pgbench take turns on one Postgres with all guards and fsync on. Hands are whole records
of all three books, opened before the clock runs; 256 settlements are in flight. The last line is JSON, with `guards`
true when everything that makes a bad state impossible or a commit durable was on to the end; lines before it have more
figures. `ARGS="--stored 10000000"` measures again with so many transfers stored, in turn with a ledger that has few.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from deploy.local import folders, ports, servers
from deploy.local.leash import Leash
from servicekit import migrations
from services.ledger import wire
from services.ledger.batcher import Batcher, Limits
from services.ledger.grants import Grant
from services.ledger.ledger import OpenHand
from services.ledger.transaction import Request
from tests.bench import unary
from tests.bench.measured_postgres import Postgres, postgres, prepare, tpcb
from tests.services.ledger.played import played

MIGRATIONS = Path(__file__).resolve().parents[2] / "services" / "ledger" / "migrations"
IN_FLIGHT = 256
CONNECTIONS = 3
GARBAGE = 100_000
SETTLE, GRPC_CONNECTIONS = "/ddz.ledger.v1.LedgerInternalService/Settle", 8
CHIPS = 1_000_000


@dataclass
class Sample:
    """What was measured over some rounds."""

    settled: int = 0
    seconds: float = 0.0
    pg_cpu_s: float = 0.0
    wal_bytes: int = 0
    latencies_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.settled / self.seconds

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_s)
        return round(1000 * ordered[int(share * (len(ordered) - 1))], 1)


class Hands:
    """Trios of players, and records of real hands to settle for them."""

    def __init__(self, trios: int) -> None:
        rng = random.Random(7)
        books = ("classic", "happy", "rob")
        names = ["a", "b", "c"]
        self.templates = [
            played(rng, "m0123456789abcdef0123-10", names, book=book, rake=2 if book == "rob" else 0)
            for book in books
            for _ in range(20)
        ]
        players = [f"p{1_000_000 + number}" for number in range(3 * trios)]
        rng.shuffle(players)
        self.trios = [tuple(players[at : at + 3]) for at in range(0, len(players), 3)]
        self.rounds = 0

    def round(self) -> tuple[list[OpenHand], list[hand_pb2.HandRecord]]:
        """One hand for every trio: what opens it and what settles it."""
        self.rounds += 1
        opened, records = [], []
        for number, trio in enumerate(self.trios):
            table_id = f"m{self.rounds:06d}{number:014x}"
            record = hand_pb2.HandRecord()
            record.CopyFrom(self.templates[number % len(self.templates)])
            record.hand_id, record.table_id = f"{table_id}-1", table_id
            for seat, player_id in enumerate(trio):
                record.players[seat].player_id = player_id
            opened.append(OpenHand(record.hand_id, table_id, trio, 0))
            records.append(record)
        return opened, records


async def drive(batcher: Batcher, requests: Iterable[Request]) -> list[float]:
    """Submits all, IN_FLIGHT at a time; the latency of each in seconds."""
    loop, latencies_s, left = asyncio.get_running_loop(), [], iter(requests)

    async def caller() -> None:
        for request in left:
            started_s = loop.time()
            await batcher.submit(request)
            latencies_s.append(loop.time() - started_s)

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return latencies_s


@dataclass
class Ledger:
    """A ledger in a database of its own, with players who have chips."""

    dsn: str
    root: asyncpg.Connection
    batcher: Batcher
    hands: Hands


@contextlib.asynccontextmanager
async def ledger_in(pg: Postgres, database: str, trios: int) -> AsyncIterator[Ledger]:
    """A migrated database, made when it is not the stack's own."""
    if database != servers.DATABASE:
        pg.local.psql(f"CREATE DATABASE {database} OWNER ddz_owner")
    await migrations.apply(pg.local.dsn("ddz_owner", database), MIGRATIONS, "ledger")
    dsn = pg.local.dsn("ddz_ledger", database)
    root = await asyncpg.connect(pg.local.dsn("postgres", database))
    batcher = Batcher(dsn, Limits(), lambda: None)
    tasks = [asyncio.create_task(batcher.work()) for _ in range(CONNECTIONS)]
    ledger = Ledger(dsn, root, batcher, Hands(trios))
    players = [player_id for trio in ledger.hands.trios for player_id in trio]
    await drive(batcher, (Grant(f"signup:{player_id}", player_id, "signup", CHIPS) for player_id in players))
    await root.execute("VACUUM ANALYZE")
    yield ledger
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await root.close()


async def settle_round(pg: Postgres, ledger: Ledger, sample: Sample) -> float:
    """Opens a hand for every trio, then settles all under the clock; hands opened a second."""
    opened, records = ledger.hands.round()
    # Collected as rarely as in the service (servicekit/server.py), and the hands of the bench not at all.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)
    opening_s = time.perf_counter()
    await drive(ledger.batcher, opened)
    opening_s = time.perf_counter() - opening_s
    wal = await ledger.root.fetchval("SELECT pg_current_wal_lsn()")
    cpu_s, started_s = pg.cpu_s(), time.perf_counter()
    # Reading a record is part of it, as it is in the service.
    sample.latencies_s += await drive(ledger.batcher, (wire.settle_request(record) for record in records))
    sample.seconds += time.perf_counter() - started_s
    sample.pg_cpu_s += pg.cpu_s() - cpu_s
    sample.wal_bytes += int(await ledger.root.fetchval("SELECT pg_current_wal_lsn() - $1::pg_lsn", wal))
    sample.settled += len(records)
    return len(opened) / opening_s


_STORE = """
CREATE TEMP TABLE aged ON COMMIT DROP AS SELECT account_id, chips_seq, chips FROM ledger.account WHERE kind = 'player';
INSERT INTO ledger.transfer
  SELECT account_id, chips_seq + n, 1, chips + n, 0, now(), 'chips', 'gift', 'stored'
  FROM generate_series(1, {each}) AS n, aged;
UPDATE ledger.account a SET chips_seq = a.chips_seq + {each}, chips = a.chips + {each}
  FROM aged WHERE a.account_id = aged.account_id;
INSERT INTO ledger.transfer
  SELECT 3, nextval('ledger.system_seq'), -{each} * count(*), NULL, 0, now(), 'chips', 'gift', 'stored' FROM aged;
"""


async def store_transfers(root: asyncpg.Connection, count: int) -> None:
    """Gives every player so many old transfers that there are `count` of them."""
    players = await root.fetchval("SELECT count(*) FROM ledger.account WHERE kind = 'player'")
    async with root.transaction():
        await root.execute("SET LOCAL session_replication_role = replica")  # these were checked when they were made
        await root.execute(_STORE.format(each=-(-count // players)))
    await root.execute("VACUUM ANALYZE")
    await root.execute("CHECKPOINT")


async def with_stored(pg: Postgres, fresh: Ledger, arguments: argparse.Namespace) -> dict[str, Any]:
    """Settles in turn where hardly anything is stored and where millions of transfers are."""
    async with ledger_in(pg, "aged", arguments.trios) as aged:
        print(f"storing {arguments.stored:,} transfers", flush=True)
        await store_transfers(aged.root, arguments.stored)
        few, many = Sample(), Sample()
        for number in range(arguments.rounds + 1):
            if number == 1:  # the first touched every page
                few, many = Sample(), Sample()
            await settle_round(pg, fresh, few)
            await settle_round(pg, aged, many)
        return {
            "stored_transfers": await aged.root.fetchval("SELECT count(*) FROM ledger.transfer"),
            "settlements_per_s_beside": round(few.per_s),
            "settlements_per_s_stored": round(many.per_s),
            "pg_us_each_beside": round(1e6 * few.pg_cpu_s / few.settled),
            "pg_us_each_stored": round(1e6 * many.pg_cpu_s / many.settled),
            "flat_ratio": round(many.per_s / few.per_s, 3),
        }


async def over_grpc(leash: Leash, scratch: Path, ledger: Ledger, instances: int) -> dict[str, Any]:
    """Unary Settle calls from IN_FLIGHT callers against processes of the service, whose relay is at work too.

    First the relay takes away the news of all that was settled before: how fast is measured by the way.
    """
    with servers.nats(leash, scratch / "nats", ports.free(1)[0]) as bus:
        numbers = ports.free(2 * instances)
        environment = servers.environment() | {"DDZ_POSTGRES_DSN": ledger.dsn, "DDZ_NATS_URL": bus.url}
        environment["DDZ_LEDGER_CONNECTIONS"] = str(max(1, CONNECTIONS // instances))
        argv = [sys.executable, "-m", "services.ledger"]
        waiting = await ledger.root.fetchval("SELECT count(*) FROM ledger.outbox")
        children = []
        for number in range(instances):
            addresses = {
                "DDZ_GRPC_ADDRESS": f"127.0.0.1:{numbers[number]}",
                "DDZ_METRICS_ADDRESS": f"127.0.0.1:{numbers[instances + number]}",
            }
            log = scratch / f"ledger{number}.log"
            children.append(leash.start(argv, log=log, cwd=folders.ROOT, env=environment | addresses))
        started_s = time.perf_counter()
        await relayed(ledger.root)
        relayed_per_s = waiting / (time.perf_counter() - started_s)
        await call_round(numbers[:instances], ledger)  # the first calls make what later ones find
        await relayed(ledger.root)
        sample = await call_round(numbers[:instances], ledger)
        for child in children:
            child.terminate()
            child.wait()
    return {
        "grpc_settlements_per_s": round(sample.per_s),
        "grpc_p50_ms": sample.percentile_ms(0.5),
        "grpc_p99_ms": sample.percentile_ms(0.99),
        "grpc_instances": instances,
        "relayed_per_s": round(relayed_per_s),
    }


async def relayed(root: asyncpg.Connection) -> None:
    """Until no news wait."""
    ends_at_s = time.monotonic() + 600
    while await root.fetchval("SELECT EXISTS (SELECT FROM ledger.outbox)"):
        assert time.monotonic() < ends_at_s, "the relay does not get on"
        await asyncio.sleep(0.1)


async def call_round(numbers: Sequence[int], ledger: Ledger) -> Sample:
    """Settles a hand of every trio by unary calls."""
    opened, records = ledger.hands.round()
    await drive(ledger.batcher, opened)
    requests = [ledger_pb2.SettleRequest(record=record).SerializeToString() for record in records]
    started_s = time.perf_counter()
    answers, latencies_s = await unary.call_all(
        numbers, SETTLE, requests, callers=IN_FLIGHT, connections=GRPC_CONNECTIONS
    )
    seconds = time.perf_counter() - started_s
    applied = sum(ledger_pb2.SettleResponse.FromString(each).result == ledger_pb2.RESULT_APPLIED for each in answers)
    assert applied == len(records), f"{applied} of {len(records)} were applied"
    return Sample(settled=applied, seconds=seconds, latencies_s=latencies_s)


async def bench(arguments: argparse.Namespace, leash: Leash, scratch: Path, pg: Postgres) -> dict[str, Any]:
    """Everything that is reported."""
    await asyncio.to_thread(prepare, pg)
    async with ledger_in(pg, servers.DATABASE, arguments.trios) as ledger:
        await settle_round(pg, ledger, Sample())  # the first touch of every page
        sample, tps, opened_per_s = Sample(), [], []
        for number in range(arguments.rounds):
            opened_per_s.append(await settle_round(pg, ledger, sample))
            tps.append(await asyncio.to_thread(tpcb, pg))
            print(f"round {number + 1}: {sample.per_s:,.0f} settlements/s so far, TPC-B {tps[-1]:,.0f} tps", flush=True)
        more = await over_grpc(leash, scratch, ledger, arguments.instances) | {
            "opened_per_s": round(statistics.mean(opened_per_s))
        }
        if arguments.stored:
            more |= await with_stored(pg, ledger, arguments)
        guards = await all_guards(ledger.root)
    found = report(sample, tps, guards) | {"grpc_settlements_per_s": more.pop("grpc_settlements_per_s")}
    print(json.dumps(more | {"settled": sample.settled}), flush=True)
    return found


async def all_guards(root: asyncpg.Connection) -> bool:
    """Whether nothing that makes a bad state impossible or a commit durable was switched off."""
    triggers = await root.fetchval(
        "SELECT bool_and(tgenabled = 'O') FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'ledger.%'"
    )
    constraints = await root.fetchval(
        "SELECT bool_and(convalidated) FROM pg_constraint WHERE connamespace = 'ledger'::regnamespace"
    )
    durable = [await root.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")]
    return bool(triggers) and bool(constraints) and durable == ["on", "on", "on"]


def report(sample: Sample, tps: list[float], guards: bool) -> dict[str, Any]:
    """The figures of the batcher beside those of TPC-B."""
    tpcb_tps = statistics.mean(tps)
    return {
        "settlements_per_s": round(sample.per_s),
        "p50_ms": sample.percentile_ms(0.5),
        "p99_ms": sample.percentile_ms(0.99),
        "in_flight": IN_FLIGHT,
        "guards": guards,
        "pg_us_each": round(1e6 * sample.pg_cpu_s / sample.settled),
        "wal_bytes_each": round(sample.wal_bytes / sample.settled),
        "tpcb_tps": round(tpcb_tps),
        "ratio_tpcb": round(sample.per_s / tpcb_tps, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trios", type=int, default=15_000, help="hands settled in a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of settlements and of TPC-B in turn")
    # One process of Python takes one core at most, and gRPC is most of what it does.
    parser.add_argument("--instances", type=int, default=2, help="processes of the service that are called over gRPC")
    parser.add_argument("--stored", type=int, default=0, help="measure again with so many stored transfers")
    arguments = parser.parse_args()
    scratch = folders.scratch()
    with Leash(scratch) as leash, postgres(leash, scratch / "postgres") as pg:
        print(json.dumps(uvloop.run(bench(arguments, leash, scratch, pg))))


if __name__ == "__main__":
    main()
