"""Three people at browsers play a hand, by its book."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tests.browser.person import Person, until

HAND_S = 300.0
# In the order of a hand; of two that are offered the first is pressed.
_AGREEABLE = ("base-5", "agree", "ready", "show", "call-yes", "rob-yes", "bid-3", "bid-2", "bid-1", "back")


class Interruption(NamedTuple):
    """What happens to somebody after so many plays, while it is not his turn: the trustee would play for him."""

    plays: int
    person: Person
    happen: Callable[[], Awaitable[None]]


async def meet(people: list[Person], room: str) -> None:
    """All queue for a room and come to one table."""
    for person in people:
        await person.open(f"wait/{room}")
        await person.see(".waiting, .table-page")
    await asyncio.gather(*[person.see(".table-page") for person in people])
    tables = {person.page.url.rpartition("/")[2] for person in people}
    assert len(tables) == 1, f"they were matched with others: {tables}"


async def play(
    people: list[Person], looking: Callable[[str], Awaitable[None]], interruptions: Sequence[Interruption], shy: Person
) -> None:
    """Until everybody sees the result; `looking` is told of each new phase; `shy` never shows his hand."""
    ahead = list(interruptions)
    ends_at = time.monotonic() + HAND_S
    phases: set[str] = set()
    plays = 0
    while time.monotonic() < ends_at:
        for person in people:
            due = await person.due()
            if "verify" in due:
                await asyncio.gather(*[other.see("[data-act=verify]") for other in people])
                assert not ahead, "the hand was over before all had happened"
                return
            wanted = [deed for deed in _AGREEABLE if deed in due and (deed != "show" or person is not shy)]
            deed = wanted[0] if wanted else "hint" if "hint" in due else None
            if deed is None:
                continue
            if deed not in phases:
                phases.add(deed)
                await looking(deed)
            if deed == "hint":
                if ahead and plays >= ahead[0].plays and person is not ahead[0].person:
                    await ahead.pop(0).happen()
                await take_turn(person)
                plays += 1
            else:
                await person.do(deed)
                await until(partial(gone, person, deed), f"{deed} is done")
        await asyncio.sleep(0.03)
    raise AssertionError(f"no result after {HAND_S:g} s and {plays} plays; {[await person.due() for person in people]}")


async def gone(person: Person, deed: str) -> bool:
    """Whether a deed is due no more: pressed again before the page knows, it would come out of turn."""
    return deed not in await person.due()


async def take_turn(person: Person) -> None:
    """What the page suggests, or a pass when it has nothing."""
    await person.do("hint")
    if not await person.picked():
        await person.do("pass")
    elif not await person.do("play"):
        # Several readings, one button each: the first is the one that the rules would take.
        await person.do("play-0")

    await until(partial(gone, person, "hint"), "the turn ends when the cards are down")
