"""Drives scripted tables as fast as they answer, or at a human pace; one action in flight a table.

Run as a process: takes JSON with the plan on standard input, says "ready" when all streams are open, waits for a line,
drives for the planned time, then says what was seen in one line of JSON. The plan names the addresses at which players
play (`targets`, the tables take them by turns) and, for play through a gateway, those at which tables are opened
(`inside`) and the file of keys that tokens are signed with (`keys`).
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import jwt
import uvloop

from ddz.common.v1 import common_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from tests.bench.table_script import TERMS, hand_script

PLAY: Final = "/ddz.table.v1.TableService/Play"
WATCH: Final = "/ddz.table.v1.TableService/Watch"
ACT: Final = "/ddz.table.v1.TableService/Act"
STREAMS_A_CHANNEL: Final = 90
HANDS_AHEAD: Final = 3
GOODBYE: Final = 0x32  # the first byte of a frame is its field
NOT_YET_S: Final = 0.003

Metadata = tuple[tuple[str, str], ...]
# What a player of a table shows: himself to a node, a token to a gateway.
Show = Callable[[str, str], Metadata]


def itself(table_id: str, player_id: str) -> Metadata:
    return (("x-player-id", player_id), ("x-table-id", table_id))


def signed(keys: Path) -> Show:
    """Tokens as the lobby would sign them."""
    key = json.loads(keys.read_text())["keys"][0]
    private = jwt.PyJWK(key).key
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2)

    def show(table_id: str, player_id: str) -> Metadata:
        claims = {"iss": "ddz-lobby", "aud": "ddz", "sub": player_id, "exp": until}
        token = jwt.encode(claims, private, algorithm="ES256", headers={"kid": key["kid"]})
        return (("authorization", f"Bearer {token}"), ("x-table-id", table_id))

    return show


@dataclass
class Seen:
    """What the driver has counted since the start."""

    actions: int = 0
    frames: int = 0
    latencies: list[float] = field(default_factory=list)
    started: float = 0.0


class DrivenTable:
    """Three streams of one table and the script of its hands."""

    def __init__(self, table_id: str, seen: Seen, show: Show) -> None:
        self.table_id = table_id
        self.seen = seen
        self.players = [f"{table_id}-{seat}" for seat in range(3)]
        self.shown = [show(table_id, player_id) for player_id in self.players]
        self.streams: list[Any] = []
        self.answered = asyncio.Event()
        self.accepted = False
        self.asked = -1  # whose command is on its way
        self.refusal = ""
        self.scripts = {number: hand_script(table_id, number) for number in range(1, HANDS_AHEAD + 1)}

    async def open(
        self, channels: list[grpc.aio.Channel], inside: grpc.aio.Channel, unary: bool, watched: bool
    ) -> None:
        players = [common_pb2.Player(player_id=player_id) for player_id in self.players]
        internal = table_pb2_grpc.TableInternalServiceStub(inside)
        await internal.Open(table_pb2.OpenRequest(table_id=self.table_id, terms=TERMS, players=players))
        for shown in self.shown if watched else ():
            channel: Any = random.choice(channels)
            if unary:
                request = table_pb2.WatchRequest(table_id=self.table_id).SerializeToString()
                stream = channel.unary_stream(WATCH)(request, metadata=shown)
            else:
                stream = channel.stream_stream(PLAY)(metadata=shown)
                await stream.write(table_pb2.PlayRequest(table_id=self.table_id).SerializeToString())
            self.streams.append(stream)
            await stream.read()  # the snapshot
        self.act: Any = random.choice(channels).unary_unary(ACT)

    async def listen(self, seat: int) -> None:
        """Counts frames; an answer lets the table go on."""
        read, seen = self.streams[seat].read, self.seen
        while True:
            data = await read()
            if data is grpc.aio.EOF or data[0] == GOODBYE:
                raise RuntimeError(f"{self.table_id}: {table_pb2.PlayResponse.FromString(data) if data else data}")
            seen.frames += 1
            if seat == self.asked:
                self._answer(table_pb2.PlayResponse.FromString(data))

    def _answer(self, frame: table_pb2.PlayResponse) -> None:
        if frame.HasField("refused") or frame.HasField("accepted") or frame.events.accepted:
            self.accepted = not frame.HasField("refused")
            self.refusal = frame.refused.refusal.message
            self.answered.set()

    async def drive(self, unary: bool, pause_s: float) -> None:
        """Plays hand after hand."""
        ask = self._unary if unary else self._bidi
        if pause_s:
            await asyncio.sleep(random.uniform(0, pause_s))
        number = 0
        while True:
            number += 1
            script = self.scripts.pop(number, None) or hand_script(self.table_id, number)
            for step in script:
                begun = time.perf_counter()
                tries = 0
                while not await ask(step.seat, step.command):
                    # The ledger is still settling the last hand, or opening this one.
                    assert step is script[0], f"{self.table_id}: {step} was refused: {self.refusal}"
                    await asyncio.sleep(NOT_YET_S)
                    tries += 1
                    step.command.command_id = f"{number}-try{tries}"
                    begun = time.perf_counter()
                self.seen.latencies.append(time.perf_counter() - begun)
                self.seen.actions += 1
                if pause_s:
                    await asyncio.sleep(random.uniform(0.5, 1.5) * pause_s)

    async def _bidi(self, seat: int, command: table_pb2.Command) -> bool:
        self.answered.clear()
        self.asked = seat
        await self.streams[seat].write(table_pb2.PlayRequest(command=command).SerializeToString())
        await self.answered.wait()
        return self.accepted

    async def _unary(self, seat: int, command: table_pb2.Command) -> bool:
        request = table_pb2.ActRequest(table_id=self.table_id, command=command).SerializeToString()
        try:
            await self.act(request, metadata=self.shown[seat])
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return False
        return True


def channels_to(targets: Sequence[str], count: int) -> list[list[grpc.aio.Channel]]:
    """As many channels to each of the addresses."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    return [[grpc.aio.insecure_channel(target, options=options) for _ in range(count)] for target in targets]


async def main(plan: dict[str, Any]) -> None:
    seen = Seen()
    unary, tables, targets = plan["unary"], plan["tables"], plan["targets"]
    channels = channels_to(targets, max(1, 3 * tables // STREAMS_A_CHANNEL // len(targets)))
    inside = channels_to(plan["inside"], 1) if "inside" in plan else channels
    show = signed(Path(plan["keys"])) if "keys" in plan else itself
    driven = [DrivenTable(f"{plan['name']}{number}", seen, show) for number in range(tables)]
    for table, own, internal in zip(driven, itertools.cycle(channels), itertools.cycle(inside), strict=False):
        await table.open(own, internal[0], unary, plan["watched"])
    tasks = [asyncio.create_task(table.listen(seat)) for table in driven for seat in range(len(table.streams))]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if plan["seconds"]:
        tasks += [asyncio.create_task(table.drive(unary, plan["pause_s"])) for table in driven]
        begun, used = time.perf_counter(), time.process_time()
        done, _ = await asyncio.wait(tasks, timeout=plan["seconds"], return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        seconds, cpu_s = time.perf_counter() - begun, time.process_time() - used
        latencies = sorted(seen.latencies) or [0.0]
        result = {
            "actions": seen.actions,
            "frames": seen.frames,
            "seconds": seconds,
            "driver_cpu_s": cpu_s,
            "latencies_ms": [round(1000 * one, 3) for one in latencies],
        }
        print(json.dumps(result), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.stdin.readline())))
