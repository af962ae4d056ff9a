"""What a table does belongs to the trace of who asked for it, whoever's turn it is in the mailbox."""

from __future__ import annotations

import asyncio
from typing import Any

from servicekit import ids, traces
from tests.services.table.stack import Stack, terms, until


def trace(number: int) -> str:
    return f"{number:032x}"


def asked_in(number: int) -> traces.Context:
    return traces.parent(f"00-{trace(number)}-{number:016x}-01")


async def test_what_waits_in_a_mailbox_is_done_in_the_trace_of_who_asked(stack: Stack) -> None:
    table_id = await stack.open(terms("happy"), await stack.players())
    actor = stack.nodes[0].service.node.actor(table_id)
    gate, seen = asyncio.Event(), list[str]()

    async def note(_: Any) -> None:
        await gate.wait()
        seen.append(ids.known()["trace"])

    asked = []
    for number in (1, 2, 3):
        with traces.within(asked_in(number)):
            asked.append(asyncio.create_task(actor.ask(lambda _: None, then=note)))
    await until(lambda: len(actor.mailbox) == 2)
    gate.set()
    await asyncio.gather(*asked)
    assert seen == [trace(1), trace(2), trace(3)]


async def test_a_clock_does_not_go_on_in_the_trace_of_who_set_it(stack: Stack) -> None:
    table_id = await stack.open(terms("classic", clocks={"base_ms": 50}), await stack.players())
    actor = stack.nodes[1].service.node.actor(table_id)
    rang: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    actor._timed_out = lambda: rang.set_result(ids.known())  # type: ignore[method-assign]
    with traces.within(asked_in(1)):
        await actor.refresh()  # reads the log, and sets the timer
        assert ids.known()["trace"] == trace(1)
    assert await rang == {}
