"""The table item by item: clock, turn, combos, what multiplies, fingers, keys; and what stands after a hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Route

from ddzclient.client import Gateway
from ddzclient.player import Player, find_table
from ddzclient.session import Session
from deploy.local.stack import Stack
from doudizhu.titles import TITLES
from tests.browser.person import Crowd, Person, until
from tests.browser.test_pages import in_a_hand, text

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


async def press(person: Person, deed: str, key: str) -> None:
    """Comes to a button without a mouse and presses it by a key."""
    await person.see(f"[data-act={deed}]")
    await person.page.locator(f"[data-act={deed}]").focus()
    await person.page.keyboard.press(key)


async def test_a_turn_is_taken_by_keys_and_everybody_sees_it(crowd: Crowd) -> None:
    people = await in_a_hand(crowd, (1280, 800), (360, 720), (1024, 640))
    landlord = await _who_may(people, "bid-3")
    others = [person for person in people if person is not landlord]
    await landlord.see(".deeds .clock[data-deadline]")
    left_s = await until(lambda: _seconds(landlord), "the clock shows what is left")
    assert 0 < left_s <= 60
    await until(lambda: _below(landlord, left_s), "the clock runs")
    await press(landlord, "bid-3", "Enter")

    async def twenty() -> bool:
        return len(await landlord.cards()) == 20

    await until(twenty, "the bottom is his")
    await landlord.page.keyboard.press("h")
    assert await landlord.picked()
    await landlord.page.keyboard.press("Escape")
    assert await landlord.picked() == set()
    await landlord.page.keyboard.press("h")  # the next suggestion
    picked = await landlord.picked()
    await landlord.page.keyboard.press("Enter")
    await until(lambda: _cards_left(landlord, 20 - len(picked)), "the cards are down")
    for person in others:
        await person.see(".spot .combo")
        assert await person.page.locator(".spot .combo .row .card").count() == len(picked)
        assert sorted(await person.counts()) == sorted([17, 20 - len(picked)])
        assert await person.page.locator(".bottom .card:not(.back)").count() == 3
        assert await text(person, ".seat .role.landlord") == "Landlord"
    await multiplier(landlord)
    follower = await _who_may(others, "pass")
    # Pressed twice it is one pass: the second would be refused, which the console would tell.
    await follower.page.evaluate(
        "() => { for (let i = 0; i < 2; i++) document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key: 'p', bubbles: true })); }"
    )
    await landlord.see(".bubble.pass")
    await landlord.picture("pages/keys")


async def multiplier(person: Person) -> None:
    """The sheet behind the multiplier says what it is made of, and what it is of."""
    await person.page.click(".multiplier summary")
    rows = await person.page.locator(".multiplier .sheet").inner_text()
    for words in ("Nothing doubled yet", "Level", "Base"):
        assert words in rows
    await person.picture("pages/multiplier")
    await person.page.keyboard.press("Escape")


async def _seconds(person: Person) -> int:
    """What the clock shows; 0 before it has been told."""
    return int(await text(person, ".deeds .clock") or "0")


async def _below(person: Person, seconds: int) -> bool:
    return 0 < await _seconds(person) < seconds


async def _cards_left(person: Person, count: int) -> bool:
    return len(await person.cards()) == count


async def _who_may(people: list[Person], deed: str) -> Person:
    """The first who is offered a deed."""

    async def found() -> list[Person]:
        return [person for person in people if deed in await person.due()]

    return (await until(found, f"somebody may {deed}"))[0]


async def test_cards_are_picked_by_a_finger_that_passes_over_them(crowd: Crowd) -> None:
    people = [await crowd.person(740, 400, "en-GB", has_touch=touches) for touches in (True, False, False)]
    finger = people[0]
    await seated(people)
    boxes = [await finger.page.locator(f".hand [data-index='{index}']").bounding_box() for index in (1, 4)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    (from_x, y), to_x = (boxes[0]["x"] + 6, boxes[0]["y"] + 30), boxes[1]["x"] + 6
    touch = await finger.context.new_cdp_session(finger.page)
    for kind, x in (
        ("touchStart", from_x),
        ("touchMove", (from_x + to_x) / 2),
        ("touchMove", to_x),
        ("touchEnd", None),
    ):
        points = [] if x is None else [{"x": x, "y": y}]
        await touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert len(await finger.picked()) == 4
    await finger.picture("pages/finger")


async def seated(people: list[Person]) -> None:
    """Three by quick start at one table, whose cards have been dealt."""
    for person in people:
        await person.see(".room")
    for person in people:
        await person.open("wait/quick/happy")
        await person.see(".waiting dd, .table-page")
        if person is people[0]:  # the first must wait for the others
            assert "Estimate" in await text(person, ".waiting dl")
    for person in people:
        await person.see("[data-act=ready]")
        await person.do("ready")
    for person in people:
        await person.see(".hand [data-card]")


async def settled_hand(stack: Stack) -> tuple[str, str, int]:
    """Bots play a hand of rob: its id, a winner's name, and his rating."""
    async with Gateway(stack.address) as gateway:
        bots = [await Session.guest(gateway, f"table-page-bot-{number}") for number in range(3)]
        [table_id] = set(await asyncio.gather(*(find_table(bot, "rob-beginner") for bot in bots)))

        async def play(bot: Session) -> list[str]:
            async with bot.table(table_id) as table:
                return await Player().play(table, 1)

        [hand_id], *_ = await asyncio.gather(*(play(bot) for bot in bots))
        best = max([await bot.balance() for bot in bots], key=lambda balance: balance.rating)
        name = next(bot.player.display_name for bot in bots if bot.player_id == best.player_id)
    return hand_id, name, best.rating


async def test_after_a_hand_there_are_leaders_titles_and_a_replay_that_finds_a_lie(crowd: Crowd, stack: Stack) -> None:
    hand_id, name, rating = await settled_hand(stack)
    person = await crowd.person(locale="en-GB", route="leaders")
    row = f".leaders tbody tr:has-text('{name}')"
    await person.see(row)
    assert f"{rating}" in await text(person, row)
    assert await person.page.locator(".titles li").count() == len(TITLES)
    assert TITLES[0].en in await text(person, ".titles li.reached")
    await person.page.click(".switch button >> nth=1")
    await person.see(".switch button[aria-pressed=true] >> nth=0")
    await person.picture("pages/leaders")
    await person.open(f"hands/{hand_id}")
    await person.see("[data-act=verify]")
    await person.page.keyboard.press("ArrowRight")
    await person.see(".player-controls .count:has-text('2 / ')")
    await person.page.keyboard.press("ArrowLeft")
    await person.see(".player-controls .count:has-text('1 / ')")
    await person.do("verify")
    await person.see(".findings .good")
    assert await person.page.locator(".findings .bad").count() == 0
    assert "was not there" in await text(person, ".findings .open")
    liar = await crowd.person(locale="en-GB")
    await liar.see(".room")
    await liar.page.route("**/v1/hands/*", lie)
    await liar.open(f"hands/{hand_id}")
    await liar.see("[data-act=verify]")
    await liar.do("verify")
    await liar.see(".findings .bad")
    assert "is not the one committed to" in await text(liar, ".findings .bad")
    await liar.picture("pages/replay-of-a-lie")


async def lie(route: Route) -> None:
    """Answers with another server seed than the one that was committed to."""
    answer = await route.fetch()
    hand: dict[str, Any] = await answer.json()
    deal = next(action["deal"] for action in hand["record"]["actions"] if action.get("deal"))
    deal["serverSeed"] = "A" * 43 + "="
    await route.fulfill(response=answer, body=json.dumps(hand))


async def test_a_result_does_without_the_base_that_was_reset(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    sums = await person.page.evaluate(
        """async () => {
          const { render } = await import("/app/dom.js");
          const { result } = await import("/app/parts/result.js");
          const zeros = ["0", "0", "0"];
          const shown = (baseChips) => {
            const lastResult = { handId: "m1-1", chips: zeros, rating: zeros, balancesChips: zeros, systemChips: "0" };
            const lastOutcome = { winner: "SIDE_LANDLORD", landlord: 0, level: 1, multiplier: "2", factors: [] };
            const clock = { phase: "PHASE_BASE", seat: 1 };
            const state = { you: -1, baseChips, players: [], lastResult, lastOutcome, clock };
            const here = document.createElement("div");
            render(here, result({ table: { state }, app: { session: { playerId: "p0" } } }));
            return here.querySelectorAll(".sum").length;
          };
          return [shown("10"), shown("0")];
        }"""
    )
    assert sums == [1, 0]


async def test_who_could_not_leave_stays_at_the_table(crowd: Crowd) -> None:
    person = await crowd.person(locale="en-GB", route="rooms/happy-beginner")
    await person.page.click("text=Open a table")
    await person.see(".bar")
    person.refused = True
    refusal = {"@type": "type.googleapis.com/ddz.common.v1.Refusal", "message": "no"}

    async def refuse(route: Route) -> None:
        reason = refusals.pop(0)
        body = json.dumps({"details": [refusal | {"reason": f"REASON_{reason}"}]})
        await route.fulfill(status=404, content_type="application/json", body=body)

    refusals = ["FORBIDDEN", "NOT_A_PLAYER"]
    await person.page.route("**/v1/tables/*/actions", refuse)
    await person.do("leave")
    await person.see(".toast")
    assert "/tables/" in person.page.url
    await person.do("leave")
    await person.see(".lobby")
    assert refusals == []


async def test_who_loses_his_seat_by_a_hand_reads_its_result_first(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    found = await person.page.evaluate(
        """async () => {
          const { render } = await import("/app/dom.js");
          const { Session } = await import("/app/net/session.js");
          const { TablePage } = await import("/app/pages/table.js");
          const zeros = ["0", "0", "0"];
          const seats = [0, 1, 2].map((seat) => ({ seat, player: { playerId: `p${seat}`, displayName: "a" } }));
          const clock = { phase: "PHASE_COUNTDOWN", seat: -1, deadlineMs: "0" };
          const snapshot = {
            tableId: "t1", handId: "t1-1", seq: "9", epoch: "1", atMs: "0", you: 0, observing: false, seats, clock,
            terms: { book: "happy" }, baseChips: "10", multiplier: "1", level: 1, factors: [], bottom: [], trick: [],
            observers: [],
            players: seats.map((seat) => seat.player),
            lastOutcome: { winner: "SIDE_LANDLORD", landlord: 1, level: 1, multiplier: "1", factors: [] },
            lastResult: {
              handId: "t1-1", chips: ["-9", "9", "0"], rating: zeros, balancesChips: zeros, systemChips: "0",
            },
          };
          const seatLeft = { seat: 0, playerId: "p0", reason: "REASON_BELOW_MINIMUM" };
          const session = new Session();
          session.player = { playerId: "p0" };
          const here = document.createElement("div");
          const went = [];
          const app = {
            session,
            languageSwitch: () => null,
            go: (route) => went.push(route),
            refresh: () => render(here, page.view()),
          };
          const page = new TablePage(app, "t1");
          page.table.take({ snapshot });
          page.table.take({ events: { events: [{ seq: "10", atMs: "0", clock, seatLeft }] } });
          page.table.take({ goodbye: { why: "left", reconnect: false } });
          const stays = [went.length, here.querySelectorAll(".result.lost").length];
          here.querySelector(".result [data-act=next]").click();
          return [stays, went];
        }"""
    )
    assert found == [[0, 1], [""]]
