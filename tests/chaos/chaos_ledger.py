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
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import uvloop

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc, news_pb2
from ddzclient.errors import is_transient, translate
from deploy.local import account, folders, ports, servers
from deploy.local.leash import Leash
from doudizhu.refusal import Refusal
from servicekit import clients, migrations, server, stream
from tests.services.ledger.played import played

MIGRATIONS = folders.ROOT / "services" / "ledger" / "migrations"
CALLERS = 48
REPEATS = 0.08  # of acknowledged requests are sent again on purpose
LEDGERS = 2
KILL_EVERY_S = (1.0, 4.0)
NATS_AWAY_S = 10.0
CALL_TIMEOUT_S = 8.0
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


@dataclass
class Tally:
    """What happened, counted; what should not have, told."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    settled: dict[str, ledger_pb2.Settlement] = field(default_factory=dict)
    voided: set[str] = field(default_factory=set)
    granted: dict[str, ledger_pb2.Balance] = field(default_factory=dict)
    reversed: dict[str, ledger_pb2.ReverseResponse] = field(default_factory=dict)

    def check(self, right: bool, kind: str, sentence: str) -> None:
        if not right:
            self.counts[kind] += 1
            self.wrong.append(f"{kind}: {sentence}")


class Caller:
    """One table's worth of requests, and the knowledge of what must come of them."""

    def __init__(self, number: int, stub: ledger_pb2_grpc.LedgerInternalServiceAsyncStub, tally: Tally) -> None:
        self.number, self.stub, self.tally = number, stub, tally
        self.rng = random.Random(number)
        self.players = [f"p{number}-{seat}" for seat in range(3)]
        self.chips = dict.fromkeys(self.players, 0)
        self.hands = self.gifts = 0
        self.open = ""
        self.known: list[tuple[Callable[[Any], Awaitable[Any]], Any, Any]] = []

    async def ask(self, rpc: Any, request: Any) -> Any:
        """Sends until it is acknowledged; then, sometimes, sends something known again."""
        self.tally.counts["requests"] += 1
        answer = await self.insist(rpc, request)
        if isinstance(answer, Refusal):
            self.tally.check(False, "refused", f"{request} {answer}")
            raise answer
        self.known.append((rpc, request, answer))
        if self.rng.random() < REPEATS:
            await self.repeat()
        return answer

    async def insist(self, rpc: Any, request: Any) -> Any:
        """The answer, or the Refusal that is one."""
        pause_s = 0.02
        while True:
            self.tally.counts["sent"] += 1
            try:
                return await rpc(request, timeout=CALL_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                translated = translate(error)
                if isinstance(translated, Refusal) and not is_transient(translated):
                    return translated
                if not is_transient(translated):
                    raise translated from None
            self.tally.counts["resent"] += 1
            await asyncio.sleep(pause_s * self.rng.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, 0.5)

    async def repeat(self) -> None:
        """A known request again: the first answer and nothing more; a hand that is over is not opened again."""
        rpc, request, first = self.rng.choice(self.known[-50:])
        self.tally.counts["repeats"] += 1
        self.tally.counts["requests"] += 1
        over = isinstance(request, ledger_pb2.OpenHandRequest) and request.hand_id != self.open
        again = await self.insist(rpc, request)
        if isinstance(again, Refusal):
            right = over and again.reason == "HAND_OVER"
        else:
            right = not over and again.result == ledger_pb2.RESULT_REPLAYED
            again.result = first.result
            right = right and again == first
        self.tally.check(right, "doubled", f"a repeat of {request} got {again}, at first it was {first}")

    async def work(self, until: asyncio.Event) -> None:
        for player_id in self.players:
            await self.gift(player_id, 50_000)
        while not until.is_set():
            if self.rng.random() < 0.05:
                await self.gift(self.rng.choice(self.players), self.rng.randint(1, 500))
            await self.hand()

    async def gift(self, player_id: str, chips: int) -> None:
        self.gifts += 1
        request = ledger_pb2.GrantRequest(
            key=f"gift:{self.number}-{self.gifts}", player_id=player_id, chips=chips, kind="gift"
        )
        reply = await self.ask(self.stub.Grant, request)
        self.chips[player_id] += chips
        self.tally.granted[request.key] = reply.balance
        self.tally.check(reply.balance.chips == self.chips[player_id], "doubled", f"{player_id} has {reply.balance}")

    async def hand(self) -> None:
        self.hands += 1
        hand_id = f"m{self.number}-{self.hands}"
        self.rng.shuffle(self.players)
        request = ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=self.players, table_id="chaos")
        self.open = hand_id
        opened = await self.ask(self.stub.OpenHand, request)
        expected = [self.chips[player_id] for player_id in self.players]
        self.tally.check(list(opened.carried_chips) == expected, "lost", f"{hand_id} carries {opened}, not {expected}")
        if self.rng.random() < 0.05:
            self.open = ""
            await self.ask(self.stub.VoidHand, ledger_pb2.VoidHandRequest(hand_id=hand_id, reason="chaos"))
            self.tally.voided.add(hand_id)
            return
        book, flee_after = self.rng.choice(["classic", "happy", "rob"]), self.rng.choice([None, 2, 3, 4, 5])
        record = played(self.rng, hand_id, self.players, book=book, base=2, rake=3, flee_after=flee_after, quick=True)
        self.open = ""
        reply = await self.ask(self.stub.Settle, ledger_pb2.SettleRequest(record=record))
        self.tally.settled[hand_id] = reply.settlement
        for seat in reply.settlement.seats:
            self.chips[seat.player_id] += seat.chips
            self.tally.check(
                seat.balance_after_chips == self.chips[seat.player_id], "doubled", f"{hand_id}: {seat} is not expected"
            )
        if self.rng.random() < 0.02:
            await self.reverse(hand_id)

    async def reverse(self, hand_id: str) -> None:
        request = ledger_pb2.ReverseRequest(hand_id=hand_id, operator="chaos", reason="chaos")
        reply = await self.ask(self.stub.Reverse, request)
        self.tally.reversed[hand_id] = reply
        for balance, moved in zip(reply.balances, reply.chips, strict=True):
            self.chips[balance.player_id] += moved
            self.tally.check(
                balance.chips == self.chips[balance.player_id], "doubled", f"reversal of {hand_id}: {balance}"
            )


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


async def compare_stored(root: asyncpg.Connection, tally: Tally) -> None:
    """Every acknowledged request against what is stored."""
    rows = await root.fetch(
        "SELECT hand_id, voided, chips, rake, balance_before, rating, flee_chips FROM ledger.settlement"
    )
    stored = {row["hand_id"]: row for row in rows}
    for hand_id, acknowledged in tally.settled.items():
        row = stored.get(hand_id)
        if row is None or row["voided"]:
            tally.check(False, "lost", f"{hand_id} was acknowledged and is not settled")
            continue
        seats = acknowledged.seats
        same = (
            [seat.chips for seat in seats] == row["chips"]
            and [seat.rake_chips for seat in seats] == row["rake"]
            and [seat.balance_before_chips for seat in seats] == row["balance_before"]
            and [seat.rating for seat in seats] == row["rating"]
            and acknowledged.system_chips == sum(row["rake"]) + row["flee_chips"]
        )
        tally.check(same, "mismatched", f"{hand_id}: {acknowledged} is stored as {dict(row)}")
    for hand_id in tally.voided:
        tally.check(hand_id in stored and stored[hand_id]["voided"], "lost", f"{hand_id} was voided and is not")
    keys = {row["key"] for row in await root.fetch("SELECT key FROM ledger.granted")}
    for key in tally.granted:
        tally.check(key in keys, "lost", f"{key} was given and is not stored")
    backs = {row["hand_id"] for row in await root.fetch("SELECT hand_id FROM ledger.reversal")}
    for hand_id in tally.reversed:
        tally.check(hand_id in backs, "lost", f"{hand_id} was reversed and is not")
    made = len(tally.settled) + len(tally.voided)
    tally.check(len(stored) == made, "doubled", f"{len(stored)} hands have ended, {made} were acknowledged")


async def compare_news(bus_url: str, root: asyncpg.Connection, tally: Tally) -> None:
    """Everything on the stream: each key at least once, always the same, and what was acknowledged."""
    told: dict[str, news_pb2.HandSettled] = {}
    changed: dict[str, news_pb2.AccountChanged] = {}
    async with clients.nats_bus(bus_url, name="chaos") as bus:
        jetstream = bus.jetstream()
        messages = (await jetstream.stream_info(stream.STREAM)).state.messages
        news = await jetstream.subscribe("ddz.>", stream=stream.STREAM, ordered_consumer=True)
        for _ in range(messages):
            message = await news.next_msg(timeout=30)
            tally.counts["events"] += 1
            key = (message.headers or {})["Nats-Msg-Id"]
            if message.subject == "ddz.hand.settled":
                event = news_pb2.HandSettled.FromString(message.data)
                tally.check(told.setdefault(key, event) == event, "event_differs", f"{key} was told in two ways")
            else:
                change = news_pb2.AccountChanged.FromString(message.data)
                tally.check(changed.setdefault(key, change) == change, "event_differs", f"{key} was told in two ways")
    tally.counts["event_keys"] = len(told) + len(changed)
    tally.counts["event_repeats"] = tally.counts["events"] - tally.counts["event_keys"]
    for hand_id, settlement in tally.settled.items():
        event = told.get(hand_id, news_pb2.HandSettled())
        tally.check(event.settlement == settlement, "event_missing", f"{hand_id} is told as {event}")
    for key, balance in tally.granted.items():
        tally.check(key in changed and changed[key].balances[0] == balance, "event_missing", f"{key} is not told")
    for hand_id in tally.reversed:
        tally.check(f"reverse:{hand_id}" in changed, "event_missing", f"the reversal of {hand_id} is not told")
    rows = await root.fetch("SELECT hand_id FROM ledger.settlement WHERE NOT voided")
    tally.check(set(told) == {row["hand_id"] for row in rows}, "event_missing", "told and settled hands differ")


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
