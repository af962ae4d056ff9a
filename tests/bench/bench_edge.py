"""`make bench-edge`: what the gateway adds to a call and to a streamed message: p50, p99, and CPU of its own.

One system, three ways to its table node by turns: past the gateway, through it, and through it with TLS. Time is taken
one call after the other, CPU with many at once. Streams: commands up, and their events down to the three of a table.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import grpc
import uvloop

from ddz.table.v1 import table_pb2
from ddzclient import Gateway, Session
from deploy.local import folders, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from tests.edge.fort import NO_LIMITS, token

WAYS: Final = ("direct", "gateway", "gateway_tls")
AT_ONCE: Final = 16
TABLES: Final = 8
ROUNDS: Final = 3
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_GET: Final = "/ddz.table.v1.TableService/GetTable"
_PLAY: Final = "/ddz.table.v1.TableService/Play"


@dataclass
class Seen:
    """What was measured on one way."""

    latencies_s: list[float] = field(default_factory=list)
    calls: int = 0
    messages: int = 0
    gateway_s: float = 0.0
    seconds: float = 0.0

    def told(self, unit: str) -> dict[str, float]:
        cuts = statistics.quantiles(self.latencies_s, n=100)
        count = self.messages if unit == "message" else self.calls
        return {
            "p50_ms": round(1e3 * cuts[49], 3),
            "p99_ms": round(1e3 * cuts[98], 3),
            f"{unit}s_per_s": round(count / self.seconds),
            f"gateway_cpu_us_per_{unit}": round(1e6 * self.gateway_s / count, 1),
        }


@dataclass(frozen=True)
class Seats:
    """The three players of a table, and what each sends as metadata."""

    table_id: str
    player_ids: list[str]
    tokens: list[str]

    def metadata(self, seat: int, way: str) -> tuple[tuple[str, str], ...]:
        route = ("x-table-id", self.table_id)
        if way == "direct":
            return (("x-player-id", self.player_ids[seat]), route)
        return (("authorization", f"Bearer {self.tokens[seat]}"), route)


def gateway_of(stack: whole.Stack) -> int:
    """The process number of Envoy."""
    return next(process.popen.pid for process in stack.processes if process.name == "Envoy")


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.asynccontextmanager
async def channel(stack: whole.Stack, way: str) -> AsyncIterator[Any]:
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
    if way == "gateway_tls":
        credentials = grpc.ssl_channel_credentials(stack.certificate)
        opened = grpc.aio.secure_channel(stack.tls_address, credentials, options=options)
    else:
        target = stack.address if way == "gateway" else stack.grpc_address("table")
        opened = grpc.aio.insecure_channel(target, options=options)
    async with opened:
        yield cast("Any", opened)


async def seated(stack: whole.Stack) -> Seats:
    """Three at a table that waits for them to be ready."""
    async with Gateway(stack.address) as gateway:
        players = [await Session.guest(gateway, f"bench-{uuid.uuid4()}") for _ in range(3)]
        made = await players[0].create_table("happy-beginner")
        for player in players[1:]:
            await player.sit(made.table_id)
    ids = [player.player_id for player in players]
    return Seats(made.table_id, ids, [token(stack, one) for one in ids])


async def timed(seen: Seen, gateway_pid: int, seconds: float, work: Callable[[float], Awaitable[None]]) -> None:
    """Lets `work` go on until a moment, and takes down what the gateway used meanwhile."""
    began, used = time.perf_counter(), cpu_s(gateway_pid)
    await work(began + seconds)
    seen.seconds += time.perf_counter() - began
    seen.gateway_s += cpu_s(gateway_pid) - used


async def calls(stack: whole.Stack, seats: Seats, way: str, at_once: int, seconds: float, seen: Seen) -> None:
    """GetTable again and again."""
    request = table_pb2.GetTableRequest(table_id=seats.table_id).SerializeToString()
    metadata = seats.metadata(0, way)
    async with channel(stack, way) as opened:
        get = opened.unary_unary(_GET)
        await get(request, metadata=metadata)

        async def one(until: float) -> None:
            while (sent := time.perf_counter()) < until:
                await get(request, metadata=metadata)
                seen.latencies_s.append(time.perf_counter() - sent)
                seen.calls += 1

        async def work(until: float) -> None:
            await asyncio.gather(*(one(until) for _ in range(at_once)))

        await timed(seen, gateway_of(stack), seconds, work)


class Table:
    """Three streams of one table; the first sends commands, one at a time."""

    def __init__(self, seats: Seats, streams: list[Any], seen: Seen) -> None:
        self._seats, self._streams, self._seen = seats, streams, seen
        self._answered = asyncio.Event()
        self._numbers = itertools.count()

    async def listen(self, seat: int) -> None:
        while (data := await self._streams[seat].read()) is not grpc.aio.EOF:
            self._seen.messages += 1
            if seat == 0:
                frame = table_pb2.PlayResponse.FromString(data)
                assert not frame.HasField("refused"), frame
                if frame.HasField("accepted") or frame.events.accepted:
                    self._answered.set()

    async def send(self, until: float) -> None:
        name = uuid.uuid4().hex[:12]
        while (sent := time.perf_counter()) < until:
            number = next(self._numbers)
            allow = table_pb2.AllowObservers(allow=number % 2 == 0)
            command = table_pb2.Command(command_id=f"{name}-{number}", allow_observers=allow)
            self._answered.clear()
            await self._streams[0].write(table_pb2.PlayRequest(command=command).SerializeToString())
            self._seen.messages += 1
            await self._answered.wait()
            self._seen.latencies_s.append(time.perf_counter() - sent)


async def streams(stack: whole.Stack, tables: list[Seats], way: str, seconds: float, seen: Seen) -> None:
    """Commands up and events down at several tables at once."""
    async with channel(stack, way) as opened:
        found, listening = [], []
        for seats in tables:
            held = [opened.stream_stream(_PLAY)(metadata=seats.metadata(seat, way)) for seat in range(3)]
            for stream in held:
                await stream.write(table_pb2.PlayRequest(table_id=seats.table_id).SerializeToString())
                await stream.read()  # the snapshot
            table = Table(seats, held, seen)
            found.append(table)
            listening += [asyncio.create_task(table.listen(seat)) for seat in range(3)]

        async def work(until: float) -> None:
            await asyncio.gather(*(table.send(until) for table in found))

        await timed(seen, gateway_of(stack), seconds, work)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


async def measure(stack: whole.Stack, seconds: float) -> dict[str, Any]:
    tables = [await seated(stack) for _ in range(TABLES)]
    serial, crowd, stream = ({way: Seen() for way in WAYS} for _ in range(3))
    for number in range(ROUNDS):
        for way in WAYS if number % 2 else reversed(WAYS):
            await calls(stack, tables[0], way, 1, seconds, serial[way])
            await calls(stack, tables[0], way, AT_ONCE, seconds, crowd[way])
            await streams(stack, tables, way, seconds, stream[way])
            print(f"round {number + 1}, {way}", file=sys.stderr, flush=True)
    result: dict[str, Any] = {
        "one_call_at_a_time": {way: serial[way].told("call") for way in WAYS},
        f"{AT_ONCE}_calls_at_once": {way: crowd[way].told("call") for way in WAYS},
        "streams": {way: stream[way].told("message") for way in WAYS},
    }
    for name in ("one_call_at_a_time", "streams"):
        ways = result[name]
        result[f"{name}_adds"] = {
            f"{way}_{cut}": round(ways[way][cut] - ways["direct"][cut], 3)
            for way in WAYS[1:]
            for cut in ("p50_ms", "p99_ms")
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn; there are 27")
    arguments = parser.parse_args()
    folder = folders.scratch()
    options = whole.Options(
        rooms_file=folders.ROOT / "deploy" / "rooms.yaml",
        limits=NO_LIMITS,
        extra={"DDZ_TABLE_COMMANDS_PER_S": "1000000", "DDZ_TABLE_COMMANDS_BURST": "1000000", "DDZ_LOG_LEVEL": "ERROR"},
    )
    plan = ports.plan(ports.free(ports.count(1)), 1)
    with Leash(folder) as leash, whole.running(leash, folder, plan, options) as running:
        result = uvloop.run(measure(running, arguments.seconds))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
