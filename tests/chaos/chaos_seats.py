"""`make chaos-seats`: two people want the last seat of a table, thousands of times, on the whole system.

Two sit at a table; two rivals ask for the third seat at once, through the gateway, the lobby and two table nodes over a
real Redis. One must get it and the other ROOM_FULL, and the table must say the same; then the winner leaves, and they
begin again. The last line is JSON; the exit status is 1 when a round went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ddz.table.v1 import table_pb2
from ddzclient import Gateway, Refusal, Session
from deploy.local import folders, gateway, ports, stack
from deploy.local.leash import Leash

ROOM: Final = "happy-beginner"
TABLES: Final = 4
NO_LIMITS: Final = gateway.Limits(player_per_s=100_000, player_burst=100_000)


async def race(host: Session, second: Session, rivals: Sequence[Session], rounds: int) -> Counter[str]:
    """Runs so many rounds at one table; how often the first and the second rival won. Raises AssertionError."""
    table_id = (await host.create_table(ROOM)).table_id
    await second.sit(table_id)
    wins: Counter[str] = Counter()
    for number in range(rounds):
        order = rivals if number % 2 else rivals[::-1]
        answers = await asyncio.gather(*(rival.sit(table_id) for rival in order), return_exceptions=True)
        winners = [rival for rival, answer in zip(order, answers, strict=True) if isinstance(answer, int)]
        reasons = [answer.reason for answer in answers if isinstance(answer, Refusal)]
        assert (len(winners), reasons) == (1, ["ROOM_FULL"]), answers
        (winner,) = winners
        assert await _seated(winner, table_id) == [host.player_id, second.player_id, winner.player_id]
        await _leave(winner, table_id)
        wins["first" if winner is order[0] else "second"] += 1
    for session in (host, second):
        await _leave(session, table_id)
    return wins


async def _seated(session: Session, table_id: str) -> list[str]:
    request = table_pb2.GetTableRequest(table_id=table_id)
    answer = await session.call(session.gateway.table.GetTable, request, table_id=table_id)
    return [seat.player.player_id for seat in answer.snapshot.seats]


async def _leave(session: Session, table_id: str) -> None:
    command = table_pb2.Command(command_id=uuid.uuid4().hex, leave=table_pb2.Leave())
    request = table_pb2.ActRequest(table_id=table_id, command=command)
    await session.call(session.gateway.table.Act, request, table_id=table_id)


async def run(address: str, rounds: int) -> Counter[str]:
    """Rounds at several tables at once; every rival has a connection of his own."""
    async with contextlib.AsyncExitStack() as doors:

        async def person() -> Session:
            return await Session.guest(await doors.enter_async_context(Gateway(address)), secrets.token_hex(16))

        tables = [[await person() for _ in range(4)] for _ in range(TABLES)]
        found = await asyncio.gather(*(race(a, b, (c, d), rounds // TABLES) for a, b, c, d in tables))
    return sum(found, Counter())


def main() -> None:
    parser = argparse.ArgumentParser(description="Two people want the last seat, again and again.")
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    scratch = folders.scratch()
    with Leash(scratch) as leash:
        plan = ports.plan(ports.free(ports.count(2)), 2)
        with stack.running(leash, scratch, plan, stack.Options(limits=NO_LIMITS, drain_s=1.0)) as running:
            began = time.monotonic()
            wins = asyncio.run(run(running.address, rounds))
            seconds = time.monotonic() - began
    print(json.dumps({"rounds": wins.total(), "won_by_the_first": wins["first"], "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
