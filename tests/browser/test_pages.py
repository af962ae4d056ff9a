"""The pages around the table, on a phone's width, by keyboard, in both languages, and for who does not see them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Route

from doudizhu import BOOKS
from tests.browser.game import meet, play
from tests.browser.person import Crowd, Person, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PAGES = {
    "": ".room",
    "rooms/happy-beginner": ".room-page",
    "wait/quick/rob": ".waiting",
    "leaders": ".leaders tbody tr",
    "me": ".profile tbody tr",
}


async def text(person: Person, selector: str) -> str:
    return await person.page.locator(selector).first.inner_text()


async def test_pages_fit_a_phone(crowd: Crowd) -> None:
    person = await crowd.person(360, 640)
    await person.see(".room")
    for route, selector in PAGES.items():
        await person.open(route)
        await person.see(selector)
        assert await person.fits(), route
        await person.picture(f"pages/phone-{route.replace('/', '-') or 'lobby'}")


async def test_a_new_guest_has_chips_and_stays_himself(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".purse .chips")
    name, chips = await text(person, ".hero h1"), await text(person, ".purse .chips")
    assert "10,000" in chips
    await person.page.reload()
    await person.see(".purse .chips")
    assert await text(person, ".hero h1") == name


async def test_the_language_is_switched_and_kept(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    assert await text(person, "nav a >> nth=0") == "大厅"
    await person.page.click(".language")
    assert await text(person, "nav a >> nth=0") == "Lobby"
    await person.page.reload()
    await person.see(".room")
    assert await text(person, "nav a >> nth=0") == "Lobby"
    assert await person.page.get_attribute("html", "lang") == "en"


@pytest.mark.parametrize("route", ["nowhere", "tables/../v1/profile", "tables/m%2F..", "hands/m0-1", "rooms/none"])
async def test_an_address_that_leads_nowhere_leads_home_or_says_so(crowd: Crowd, route: str) -> None:
    person = await crowd.person()
    person.refused = True  # what is not there is refused, and browsers put that on the console
    await person.open("leaders")  # where there is neither: what is seen afterwards is the answer
    await person.see(".leaders tbody tr")
    assert await person.page.locator(".room, .empty").count() == 0
    await person.open(route)
    await person.see(".room, .empty")


async def test_both_languages_have_the_same_words(crowd: Crowd) -> None:
    person = await crowd.person()
    keys = await person.page.evaluate(
        """async () => {
          const [{ zh }, { en }] = [await import("/app/words/zh.js"), await import("/app/words/en.js")];
          const holes = (text) => (text.match(/\\{\\w+\\}/g) ?? []).sort().join();
          const alike = (key) => key in zh && key in en && holes(zh[key]) === holes(en[key]);
          return Object.keys({ ...zh, ...en }).filter((key) => !alike(key));
        }"""
    )
    assert keys == []


async def test_a_note_that_is_said_again_stands_once(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    said = await person.page.evaluate(
        """async () => {
          const { toast } = await import("/app/parts/dialog.js");
          for (const text of ["one", "two", "one", "one"]) toast(text);
          return [...document.querySelectorAll("#toasts > *")].map((note) => note.textContent);
        }"""
    )
    assert said == ["two", "one"]


async def test_only_a_book_that_asks_for_it_has_a_button_to_be_ready(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    shown = await person.page.evaluate(
        """async () => {
          const { render } = await import("/app/dom.js");
          const { actions } = await import("/app/parts/actions.js");
          const buttons = (book) => {
            const seats = [0, 1, 2].map((seat) => ({ seat, ready: false, player: { displayName: "somebody" } }));
            const clock = { phase: "PHASE_READY", seat: -1 };
            const here = document.createElement("div");
            render(here, actions({ table: { state: { you: 0, observing: false, seats, clock, terms: { book } } } }));
            return [...here.querySelectorAll("button")].map((one) => one.dataset.act);
          };
          return Object.fromEntries(["classic", "happy", "rob"].map((book) => [book, buttons(book)]));
        }"""
    )
    assert shown == {name: ["ready"] if book.ready_to_start else [] for name, book in BOOKS.items()}


async def test_waiting_is_given_up(crowd: Crowd) -> None:
    person = await crowd.person(route="wait/classic-beginner")
    await person.see(".waiting dd")
    await person.page.click(".waiting button")
    await person.see(".lobby")
    await person.open("wait/happy-beginner")  # who still waited elsewhere would be sent away
    await person.see(".waiting dd")
    await person.page.click(".waiting button")
    await person.see(".lobby")


async def test_who_gives_up_before_he_has_a_place_keeps_none(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    queued = asyncio.Event()

    async def slowly(route: Route) -> None:
        await queued.wait()
        await route.continue_()

    await person.page.route("**/v1/tickets", slowly)
    await person.open("wait/classic-beginner")
    await person.page.click(".waiting button")
    queued.set()
    await person.see(".lobby")
    await person.page.unroute("**/v1/tickets", slowly)
    await person.open("wait/happy-beginner")
    await person.see(".waiting dd")
    await person.page.click(".waiting button")
    await person.see(".lobby")


async def test_a_private_table_is_found_by_its_code(crowd: Crowd) -> None:
    owner = await crowd.person(locale="en-GB", route="rooms/happy-beginner")
    await owner.page.click("text=Open a private table")
    await owner.see(".code-is")
    code = (await text(owner, ".code-is")).split()[-1]
    guest = await crowd.person(locale="en-GB", route="rooms/happy-beginner")
    await guest.see("#code")
    await guest.page.fill("#code", code)
    await guest.page.press("#code", "Enter")
    await guest.see(".table-page")
    assert guest.page.url == owner.page.url


async def test_the_table_list_seats_and_lets_watch(crowd: Crowd) -> None:
    owner = await crowd.person(locale="en-GB", route="rooms/classic-beginner")
    await owner.page.click("text=Open a table")
    await owner.see("[data-act=base-5]")
    card = f"[data-table='{owner.page.url.rpartition('/')[2]}']"
    other = await crowd.person(360, 640, "en-GB", route="rooms/classic-beginner")
    await other.see(f"{card} button.seat-free")
    await other.picture("pages/phone-tables")
    watcher = await crowd.person(locale="en-GB", route="rooms/classic-beginner")
    await watcher.see(f"{card} .small")
    await watcher.page.click(f"{card} .small")
    await watcher.see(".table-page")
    await other.page.click(f"{card} button.seat-free >> nth=0")
    await other.see(".table-page")
    assert await owner.do("base-5")
    await other.see("[data-act=agree]")
    assert await other.do("agree")
    assert await owner.do("leave")
    await owner.see(".lobby")


async def test_a_name_is_changed(crowd: Crowd) -> None:
    person = await crowd.person(route="me")
    await person.see("#name")
    await person.page.fill("#name", "<b>老王</b> & 'x'")
    await person.page.press("#name", "Enter")

    async def renamed() -> bool:
        return await text(person, ".profile h1") == "<b>老王</b> & 'x'"

    await until(renamed, "the new name is shown, as text")


async def test_cards_are_picked_by_mouse_drag_and_keyboard(crowd: Crowd) -> None:
    people = [await crowd.person(1024, 700, "en-GB") for _ in range(3)]
    for person in people:
        await person.see(".room")
    await meet(people, "happy-beginner")
    for person in people:
        await person.see("[data-act=ready]")
        await person.do("ready")
    one = people[0]
    await one.see(".hand [data-card]")
    boxes = [await one.page.locator(f".hand [data-index='{index}']").bounding_box() for index in (2, 6)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    await one.page.mouse.move(boxes[0]["x"] + 8, boxes[0]["y"] + 60)
    await one.page.mouse.down()
    await one.page.mouse.move(boxes[1]["x"] + 8, boxes[1]["y"] + 60, steps=8)
    await one.page.mouse.up()
    assert len(await one.picked()) == 5
    await one.page.mouse.click(boxes[0]["x"] + 8, boxes[0]["y"] + 60)
    assert len(await one.picked()) == 4
    await one.page.locator(".hand [tabindex='0']").focus()
    await one.page.keyboard.press("Home")
    await one.page.keyboard.press("Space")
    assert len(await one.picked()) == 5
    before = await one.page.eval_on_selector_all(".hand [data-card]", "all => all.map(one => one.dataset.card)")
    await one.do("sort")
    after = await one.page.eval_on_selector_all(".hand [data-card]", "all => all.map(one => one.dataset.card)")
    assert sorted(before) == sorted(after)
    assert len(await one.picked()) == 5
    await one.picture("pages/picked")


async def test_observers_see_cards_by_leave_alone(crowd: Crowd) -> None:
    people = [await crowd.person(locale="en-GB") for _ in range(3)]
    for person in people:
        await person.see(".room")
    await meet(people, "happy-beginner")
    watcher = await crowd.person(locale="en-GB", route="rooms/happy-beginner")
    card = f"[data-table='{people[0].page.url.rpartition('/')[2]}']"
    await watcher.see(f"{card} .small")
    await watcher.page.click(f"{card} .small >> nth=0")
    await watcher.see(".table-page")
    for person in people:
        await person.see("[data-act=ready]")
        await person.do("ready")
    await watcher.see(".hand")
    name = await text(watcher, ".plate.me .name")
    [watched] = [person for person in people if await text(person, ".plate.me .name") == name]
    await watched.see(".hand [data-card]")
    assert await watcher.cards() == set()
    await watched.page.click(".menu summary")
    await watched.page.click("[data-act=allow]")
    await watcher.see(".hand [data-card]")
    assert await watcher.cards() == await watched.cards()
    await watcher.picture("pages/observer-with-leave")
    await watched.picture("pages/menu")
    await watched.page.click("[data-act=allow]")

    async def hidden() -> bool:
        return await watcher.cards() == set()

    await until(hidden, "the cards are hidden again")
    assert "leave" in await watcher.due()
    assert not {"play", "hint", "bid-3", "trustee", "allow"} & set(await watcher.due())


async def in_a_hand(crowd: Crowd, *sizes: tuple[int, int]) -> list[Person]:
    """Three whose cards have just been dealt."""
    people = [await crowd.person(width, height, "en-GB") for width, height in sizes]
    for person in people:
        await person.see(".room")
    await meet(people, "happy-beginner")
    for person in people:
        await person.see("[data-act=ready]")
        await person.do("ready")
    for person in people:
        await person.see(".hand [data-card]")
    return people


async def test_who_flees_is_asked_first_and_who_played_sees_what_he_gets(crowd: Crowd) -> None:
    people = await in_a_hand(crowd, (1280, 800), (740, 360), (360, 640))
    coward, *others = people
    name = await text(coward, ".plate.me .name")
    await coward.page.click("[data-act=leave]")
    await coward.see("dialog")
    await coward.page.keyboard.press("Escape")
    assert "leave" in await coward.due()
    await coward.page.click("[data-act=leave]")
    await coward.page.click("dialog .danger")
    await coward.see(".lobby")
    for person in others:
        await person.see(".result")
        assert await text(person, ".result h2") == f"{name} fled"
        assert await person.fits()
        await person.picture(f"pages/fled-{await person.page.evaluate('innerWidth')}")
    # It is no result of somebody who sits down now, and no loss of his to who comes back.
    card = f"[data-table='{others[0].page.url.rpartition('/')[2]}']"
    newcomer = await crowd.person(locale="en-GB", route="rooms/happy-beginner")
    await newcomer.see(f"{card} button.seat-free")
    await newcomer.page.click(f"{card} button.seat-free")
    await newcomer.see(".plate.me .name")
    await others[0].see(f".seat:has-text('{await text(newcomer, '.plate.me .name')}')")
    await others[0].page.reload()
    await others[0].see(".result")
    assert name in await text(others[0], ".result tbody")
    assert await newcomer.page.locator(".result").count() == 0


async def test_a_table_is_played_in_one_window(crowd: Crowd) -> None:
    one, *_ = await in_a_hand(crowd, (1024, 700), (1024, 700), (1024, 700))
    cards = await one.cards()
    second = await one.context.new_page()
    await second.goto(one.page.url)
    await second.wait_for_selector(".hand [data-card]")
    await one.see("dialog")
    await one.page.click("dialog .primary")
    await second.wait_for_selector("dialog")
    await one.see(".hand [data-card]")
    assert await one.cards() == cards


async def test_the_trustee_plays_until_the_player_is_back(crowd: Crowd) -> None:
    people = await in_a_hand(crowd, (740, 360), (1280, 800), (1280, 800))
    for person in people:
        await person.page.click(".menu summary")
        await person.page.click("[data-act=trustee]")
    one = people[0]
    await one.see("[data-act=back]")
    await one.picture("pages/trustee")
    # All three trustees pass, and the hand is dealt again: nobody has done anything himself.
    await one.do("back")

    async def mine() -> bool:
        return "back" not in await one.due()

    await until(mine, "the player plays himself again")


async def serious(person: Person, axe: str) -> list[str]:
    """What axe finds serious or critical on the page as it is."""
    if not await person.page.evaluate("Boolean(window.axe)"):
        await person.page.evaluate(axe)
    found: dict[str, Any] = await person.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        json.dumps({"id": one["id"], "at": [node["html"][:160] for node in one["nodes"]][:3]}, ensure_ascii=False)
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


async def test_axe_finds_nothing_serious(crowd: Crowd, axe: str) -> None:
    people = [await crowd.person(width, 800, "en-GB", bypass_csp=True) for width in (1280, 360, 1280)]
    for number, (route, selector) in enumerate(PAGES.items()):
        person = people[number % 2]  # a desk and a phone by turns
        await person.open(route)
        await person.see(selector)
        if route.startswith("wait"):
            await person.page.click(".waiting button")
            continue
        assert await serious(person, axe) == [], route
    for person in people:
        await person.open()
        await person.see(".room")
    await meet(people, "happy-beginner")
    for person in people[:2]:
        await person.see("[data-act=ready]")
        assert await serious(person, axe) == [], "ready"
    for person in people:
        await person.do("ready")
    for person in people[:2]:
        await person.see(".hand [data-card]")
        assert await serious(person, axe) == [], "auction"

    async def look(phase: str) -> None:
        for person in people[:2]:
            assert await serious(person, axe) == [], phase

    await play(people, look, [], shy=people[2])
    await look("result")
    desk = people[0]
    link = await desk.page.locator("[data-act=verify]").get_attribute("href")
    assert link is not None
    await desk.open(link.removeprefix("#/"))
    await desk.see("[data-act=verify]")
    await desk.do("verify")
    await desk.see(".findings .good")
    assert await serious(desk, axe) == [], "replay"
