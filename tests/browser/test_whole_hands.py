"""Three browsers play a whole hand of each book, one watches; one is reloaded, one loses its network in mid-hand."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.browser.game import Interruption, meet, play
from tests.browser.person import Crowd, Person, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

# What one book has shown needs no second picture of another.
pictured: set[str] = set()
SIZES = ((1280, 800, "zh-CN"), (360, 720, "zh-CN"), (1024, 640, "en-GB"))


async def three(crowd: Crowd) -> list[Person]:
    """A desk, a phone, a small laptop in English; all of them are let in before anybody queues."""
    people = [await crowd.person(width, height, locale) for width, height, locale in SIZES]
    for person in people:
        await person.see(".room")
    return people


async def seat_of(person: Person) -> int:
    """The own seat: the one that the two others have not."""
    others: list[int] = await person.page.eval_on_selector_all(
        "[data-seat]", "all => all.map(one => +one.dataset.seat)"
    )
    return 3 - sum(others)


async def watch(observer: Person, table: str, seat: int) -> None:
    """Becomes the observer of a seat as the room's list would make him."""
    await observer.see(".room")
    answer = await observer.page.evaluate(
        """async ([table, seat]) => {
          const { Session } = await import("/app/net/session.js");
          const session = new Session();
          await session.logIn();
          return session.call("POST", `/v1/tables/${table}/observe`, { seat });
        }""",
        [table, seat],
    )
    assert answer == {}
    await observer.open(f"tables/{table}")
    await observer.see(".table-page")


async def reloaded(person: Person) -> None:
    """The page is loaded anew in mid-hand; not a card is lost."""
    before, counts = await person.cards(), await person.counts()
    await person.page.reload()
    await person.see(".hand [data-card]")
    assert await person.cards() == before
    assert await person.counts() == counts


async def cut_off(person: Person) -> None:
    """The network goes and comes back; the page says so, and knows every card again."""
    before = await person.cards()
    await person.cut(True)
    await person.see(".offline")
    await person.picture("network-cut")
    await person.cut(False)

    async def back() -> bool:
        return await person.page.locator(".offline").count() == 0

    await until(back, "the page comes back to the table")
    assert await person.cards() == before


@pytest.mark.parametrize("book", ["rob", "happy", "classic"])
async def test_a_whole_hand(crowd: Crowd, book: str) -> None:
    people = await three(crowd)
    desk, phone, laptop = people
    observer = await crowd.person(800, 600, "en-GB")
    await meet(people, f"{book}-beginner")
    table = desk.page.url.rpartition("/")[2]
    await watch(observer, table, await seat_of(desk))

    async def looking(phase: str) -> None:
        assert await phone.fits()
        if phase in pictured:
            return
        pictured.add(phase)
        for name, person in (("desk", desk), ("phone", phone), ("laptop", laptop), ("observer", observer)):
            await person.picture(f"{phase}-{name}")

    async def hidden() -> None:
        assert await observer.cards() == set(), "an observer sees cards without leave"

    async def mid_reload() -> None:
        await hidden()
        await reloaded(phone)

    interruptions = [
        Interruption(2, phone, mid_reload),
        Interruption(3, desk, lambda: cut_off(desk)),
        Interruption(6, laptop, lambda: looking("later")),
    ]
    await play(people, looking, interruptions, shy=desk)
    # First of all: the countdown is short, and everything else stays.
    counting = (until(partial(counted, person), "the clock counts down to what comes next") for person in people)
    await asyncio.gather(*counting)
    await observer.see(".result")
    await looking("result")
    await explained(people, book)
    await settled(people)


async def explained(people: list[Person], book: str) -> None:
    """The result says what multiplied."""
    for person in people:
        assert "×" in await person.page.locator(".result .sum").inner_text()
        if book != "happy":  # somebody has robbed or shown
            assert await person.page.locator(".result .factors li").count() > 0


async def counted(person: Person) -> bool:
    return int(await person.page.locator("[data-act=next] .clock").inner_text() or "0") > 0


async def settled(people: list[Person]) -> None:
    """All see one result: chips that sum to what the system took, and a deal that holds."""
    rows = [await person.page.locator(".result tbody td:nth-of-type(1)").all_inner_texts() for person in people]
    assert rows[0]
    assert all(sorted(row) == sorted(rows[0]) for row in rows)
    link = await people[0].page.locator("[data-act=verify]").get_attribute("href")
    assert link is not None
    await people[0].open(link.removeprefix("#/"))
    await people[0].see("[data-act=on]")
    for _ in range(8):
        await people[0].do("on")
    await people[0].do("verify")
    await people[0].see(".findings li")
    assert await people[0].page.locator(".findings .bad").all_inner_texts() == []
    assert await people[0].page.locator(".findings .good").count() == 4, "this browser was there, and had its say"
    await people[0].picture("replay-verified")
    await people[1].open(link.removeprefix("#/"))
    await people[1].see("[data-act=on]")
    assert await people[1].fits()
    await people[1].picture("replay-phone")
