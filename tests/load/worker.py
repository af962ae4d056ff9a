"""One process of a load: `python -m tests.load.worker` takes its plan as a line, and tells its meter every second.

It ends with its people, or at once when its standard input ends: whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Final

import uvloop

from ddzclient import Gateway
from tests.load.meter import Meter
from tests.load.people import Person, World
from tests.load.plan import Plan

PEOPLE_A_CONNECTION: Final = 10
PATIENCE_S: Final = 20.0  # how long who is in a hand may play on when he should have gone


async def main() -> None:
    """Brings this process's people and tells of them."""
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    plan = Plan.from_json((await stdin.readline()).decode())
    meter = Meter()
    certificate = plan.certificate.encode() if plan.certificate else None
    async with contextlib.AsyncExitStack() as held:
        gateways = [
            await held.enter_async_context(Gateway(plan.address, tls=plan.tls, root_certificates=certificate))
            for _ in range(-(-plan.people // PEOPLE_A_CONNECTION))
        ]
        world = World(gateways, plan.mix, plan.pace, plan.seed, meter, asyncio.Event())
        world.go.set()
        telling = loop.create_task(_tell(meter))
        run = loop.create_task(_bring(plan, world))
        orphaned = loop.create_task(stdin.read())
        await asyncio.wait({run, orphaned}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            os._exit(1)
        telling.cancel()
        run.result()
    _say(meter)


async def _bring(plan: Plan, world: World) -> None:
    """People come evenly over the ramp, and go evenly over the end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    ends = began + plan.ramp_s + plan.hold_s

    async def live(index: int) -> None:
        share = index / plan.people
        await asyncio.sleep(began + plan.ramp_s * share - loop.time())
        leaves_at_s = ends + plan.down_s * share
        await Person(world, plan.first + index).live(leaves_at_s, leaves_at_s + PATIENCE_S)

    async with asyncio.TaskGroup() as people:
        for index in range(plan.people):
            people.create_task(live(index))


async def _tell(meter: Meter) -> None:
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    while True:
        next_s += 1.0
        await asyncio.sleep(next_s - loop.time())
        _say(meter)


def _say(meter: Meter) -> None:
    sys.stdout.write(json.dumps(meter.take().to_json()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
