"""`make chaos-ledger`: two ledgers under load while they and Postgres are killed with -9 and NATS goes away.

Every caller has three players of his own and plays hand after hand: open, settle or void, now and then a gift or a
reversal. He sends what is not acknowledged again until it is, and sends known requests again on purpose. He knows to
the chip what his players must have. The last line is JSON; the exit status is 1 when anything was lost, doubled or
stored otherwise than it was acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from deploy.local import account, folders, ports, servers
from deploy.local.leash import Leash
from servicekit import migrations, server
from tests.chaos.ledger_audit import compare_news, compare_stored
from tests.chaos.ledger_caller import Caller, Tally

MIGRATIONS = folders.ROOT / "services" / "ledger" / "migrations"
CALLERS = 48
LEDGERS = 2
KILL_EVERY_S = (1.0, 4.0)
NATS_AWAY_S = 10.0
AUDIT_TIMEOUT_S = 1200.0


class Victim:
    """A process that can be killed with -9 and started again just as it was."""

    def __init__(self, leash: Leash, name: str, argv: list[Any], env: dict[str, str], folder: Path, user: Any) -> None:
        self.leash, self.name, self.argv, self.env, self.folder, self.user = leash, name, argv, env, folder, user
        self.kills = 0
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self.folder / f"chaos-{self.name}.log"
        self.child = self.leash.start(self.argv, log=log, cwd=self.folder, env=self.env, user=self.user)

    def kill(self) -> None:
        assert self.child is not None
        self.child.kill()
        self.child.wait()
        self.kills += 1

    def dead(self) -> bool:
        return self.child is None or self.child.poll() is not None


class Chaos:
    """The servers, and what is done to them."""

    def __init__(self, leash: Leash, scratch: Path, pg: servers.Postgres, bus: servers.Server, bus_port: int) -> None:
        self.rng = random.Random(11)
        self.pg, self.bus_url, self.bus_port = pg, bus.url, bus_port
        plain, nobody = servers.environment(), account.run_as(account.unprivileged())
        postgres_argv: Any = pg.process.popen.args
        self.postgres = Victim(leash, "postgres", list(postgres_argv), plain, scratch / "postgres", nobody)
        self.postgres.child = pg.process.popen
        nats_argv: Any = bus.process.popen.args
        self.nats = Victim(leash, "nats", list(nats_argv), plain, scratch / "nats", None)
        self.nats.child = bus.process.popen
        numbers = ports.free(2 * LEDGERS)
        self.addresses = [f"127.0.0.1:{port}" for port in numbers[:LEDGERS]]
        self.ledgers = [
            Victim(leash, f"ledger{number}", [sys.executable, "-m", "services.ledger"], plain | {
                "DDZ_POSTGRES_DSN": pg.dsn("ddz_ledger"), "DDZ_NATS_URL": bus.url,
                "DDZ_GRPC_ADDRESS": address, "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
                "PYTHONPATH": f"{folders.ROOT}:{folders.ROOT / 'libs'}",
            }, scratch, None)
            for number, (address, metrics_port) in enumerate(zip(self.addresses, numbers[LEDGERS:], strict=True))
        ]  # fmt: skip

    async def kill_again_and_again(self, kills: int, enough: asyncio.Event) -> None:
        """Kills until there were `kills` and `enough` is set: Postgres, then a ledger, in turn."""
        turn = 0
        while sum(victim.kills for victim in (self.postgres, *self.ledgers)) < kills or not enough.is_set():
            await asyncio.sleep(self.rng.uniform(*KILL_EVERY_S))
            turn += 1
            victim = self.postgres if turn % 3 == 0 else self.rng.choice(self.ledgers)
            await asyncio.to_thread(victim.kill)
            await self.revive(victim)
            if turn % 10 == 0:
                print(f"{sum(each.kills for each in (self.postgres, *self.ledgers))} kills", flush=True)

    async def revive(self, victim: Victim) -> None:
        """Starts it, again while it ends at once: a Postgres waits for the last process of the one before."""
        while victim.dead():
            victim.start()
            await asyncio.sleep(0.3)

    async def take_nats_away(self) -> None:
        await asyncio.sleep(5.0)
        await asyncio.to_thread(self.nats.kill)
        print(f"NATS is away for {NATS_AWAY_S:.0f} s", flush=True)
        await asyncio.sleep(NATS_AWAY_S)
        await self.revive(self.nats)


async def settle_down(chaos: Chaos, dsn: str) -> asyncpg.Connection:
    """Waits until Postgres answers and all news have left."""
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            root = await asyncpg.connect(dsn)
            while await root.fetchval("SELECT count(*) FROM ledger.outbox"):
                if time.monotonic() > deadline:
                    return root
                await asyncio.sleep(0.1)
            return root
        if time.monotonic() > deadline:
            raise TimeoutError("Postgres does not come back")
        await asyncio.sleep(0.1)


async def play(chaos: Chaos, arguments: argparse.Namespace, tally: Tally) -> None:
    """Requests and kills until there were enough of both."""
    enough, over = asyncio.Event(), asyncio.Event()
    async with server.channel(f"ipv4:{','.join(chaos.addresses)}") as channel:
        stub = ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        callers = [asyncio.create_task(Caller(number, stub, tally).work(over)) for number in range(CALLERS)]
        killer = asyncio.create_task(chaos.kill_again_and_again(arguments.kills, enough))
        thief = asyncio.create_task(chaos.take_nats_away())
        while not (killer.done() and thief.done()):
            await asyncio.sleep(0.2)
            if tally.counts["requests"] >= arguments.requests:
                enough.set()
            if any(task.done() for task in callers):
                break  # a caller ends before the end only when it was refused
        over.set()
        await asyncio.gather(*callers, return_exceptions=True)
        for task in (killer, thief):
            task.cancel()
        await asyncio.gather(killer, thief, return_exceptions=True)
        for task in callers:
            error = task.exception()
            tally.check(error is None, "refused", repr(error))


async def run(arguments: argparse.Namespace, chaos: Chaos) -> dict[str, Any]:
    await migrations.apply(chaos.pg.dsn("ddz_owner"), MIGRATIONS, "ledger")
    for victim in chaos.ledgers:
        victim.start()
    tally, started_s = Tally(), time.monotonic()
    await play(chaos, arguments, tally)
    root = await settle_down(chaos, chaos.pg.superuser_dsn)
    played_s = time.monotonic() - started_s
    await compare_stored(root, tally)
    await compare_news(chaos.bus_url, root, tally)
    async with server.channel(f"ipv4:{','.join(chaos.addresses)}") as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
        stub = ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        audit = await stub.Audit(ledger_pb2.AuditRequest(open_limit_ms=1), timeout=AUDIT_TIMEOUT_S)
    await root.close()
    for sentence in [*tally.wrong, *audit.faults][:40]:
        print(sentence)
    counts = tally.counts
    bad = {name: counts[name] for name in
           ("lost", "doubled", "mismatched", "refused", "event_missing", "event_differs")}  # fmt: skip
    kills = {"postgres": chaos.postgres.kills, "ledger": sum(victim.kills for victim in chaos.ledgers)}
    return {
        "requests": counts["requests"],
        "repeats": counts["repeats"],
        "resent": counts["resent"],
        "kills": sum(kills.values()),
        "postgres_kills": kills["postgres"],
        "ledger_kills": kills["ledger"],
        "nats_away_s": NATS_AWAY_S,
        "seconds": round(played_s, 1),
        "settled": len(tally.settled),
        "voided": len(tally.voided),
        "reversed": len(tally.reversed),
        **bad,
        "events": counts["events"],
        "event_repeats": counts["event_repeats"],
        "records_checked": audit.records_checked,
        "faults": len(audit.faults),
        "chips_sum": audit.chips_sum,
        "outbox_pending": audit.outbox_pending,
        "ok": not any(bad.values())
        and not audit.faults
        and audit.outbox_pending == 0
        and counts["requests"] >= arguments.requests
        and sum(kills.values()) >= arguments.kills
        and counts["repeats"] >= 0.05 * counts["requests"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=40)
    arguments = parser.parse_args()
    scratch = folders.scratch()
    bus_port, postgres_port = ports.free(2)
    with (
        Leash(scratch) as leash,
        servers.postgres(leash, scratch / "postgres", postgres_port) as pg,
        servers.nats(leash, scratch / "nats", bus_port) as bus,
    ):
        chaos = Chaos(leash, scratch, pg, bus, bus_port)
        found = uvloop.run(run(arguments, chaos))
        for victim in (*chaos.ledgers, chaos.nats):
            if victim.child is not None:
                victim.child.terminate()
        if chaos.postgres.child is not None:
            chaos.postgres.child.send_signal(signal.SIGINT)
    print(json.dumps(found))
    sys.exit(0 if found["ok"] else 1)


if __name__ == "__main__":
    main()
