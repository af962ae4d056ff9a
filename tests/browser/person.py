"""A person at a browser: what he does on the page, and what went wrong on it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Response

from deploy.local.folders import ROOT

T = TypeVar("T")

SCREENSHOTS: Final = ROOT / "build" / "screenshots"
PATIENCE_S: Final = 60.0
# What a browser itself says of a network that the test has cut.
_CUT: Final = re.compile(r"net::ERR_(INTERNET_DISCONNECTED|NETWORK_CHANGED|ABORTED|FAILED)")

_DUE: Final = "elements => elements.map(element => element.dataset.act)"


async def until(ask: Callable[[], Awaitable[T]], what: str, patience_s: float = PATIENCE_S) -> T:
    """Asks again and again until the answer is true; returns it. Fails with `what` when that takes too long."""
    ends_at = time.monotonic() + patience_s
    while time.monotonic() < ends_at:
        if answer := await ask():
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited {patience_s:g} s in vain: {what}")


class Person:
    """One browser context with one page."""

    def __init__(self, context: BrowserContext, page: Page, address: str) -> None:
        self.context = context
        self.page = page
        self.address = address
        self.errors: list[str] = []
        self.refusals: list[str] = []
        self.network_cut = False
        self.refused = False
        page.on("console", self._heard)
        page.on("response", self._answered)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning") or (self.network_cut and _CUT.search(message.text)):
            return
        if self.refused and "status of 404" in message.text:
            return
        self.errors.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    async def _answered(self, response: Response) -> None:
        """Keeps what was refused and why: the console has only the address."""
        if response.status >= 400:
            request = response.request
            said = await response.text()
            self.refusals.append(f"{request.method} {response.url} {request.post_data}: {response.status} {said}")

    async def open(self, route: str = "") -> None:
        """Goes to a page of the client, as by a link."""
        await self.page.goto(f"{self.address}/#/{route}")

    async def see(self, selector: str) -> None:
        """Waits until something is on the page."""
        await self.page.wait_for_selector(selector, timeout=PATIENCE_S * 1000)

    async def due(self) -> list[str]:
        """The names of the deeds that the page offers now."""
        names: list[str] = await self.page.eval_on_selector_all("[data-act]:not([disabled])", _DUE)
        return names

    async def do(self, deed: str) -> bool:
        """Presses a button of the table if it is still there."""
        return bool(
            await self.page.evaluate(
                "deed => { const button = document.querySelector(`[data-act='${deed}']:not([disabled])`);"
                " button?.click(); return Boolean(button); }",
                deed,
            )
        )

    async def cards(self) -> set[int]:
        """The own cards, as far as they are open."""
        found = await self.page.eval_on_selector_all(".hand [data-card]", "all => all.map(one => +one.dataset.card)")
        return set(found)

    async def picked(self) -> set[int]:
        """The cards that are picked."""
        selector = ".hand [data-card][aria-pressed=true]"
        return set(await self.page.eval_on_selector_all(selector, "all => all.map(one => +one.dataset.card)"))

    async def counts(self) -> list[int]:
        """How many cards the two others have."""
        texts: list[str] = await self.page.eval_on_selector_all(".seat .count", "all => all.map(one => one.innerText)")
        return [int(text) for text in texts]

    async def fits(self) -> bool:
        """Whether nothing stands out of the window to the right."""
        return bool(await self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    async def picture(self, name: str) -> None:
        """Keeps what the person sees under build/screenshots."""
        path = SCREENSHOTS / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=path, animations="disabled")

    async def cut(self, yes: bool) -> None:
        """Takes the network away, or gives it back."""
        self.network_cut = True
        await self.context.set_offline(yes)


class Crowd:
    """Everybody of one test."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        self.address = address
        self.people: list[Person] = []

    async def person(
        self, width: int = 1280, height: int = 800, locale: str = "zh-CN", route: str = "", **options: Any
    ) -> Person:
        """Somebody new, a guest that nobody knows, on a page."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": height},
            locale=locale,
            ignore_https_errors=True,
            reduced_motion="reduce",
            **options,
        )
        person = Person(context, await context.new_page(), self.address)
        self.people.append(person)
        await person.open(route)
        return person

    async def leave(self) -> None:
        """Closes every browser; fails when a page told of an error."""
        errors = [error for person in self.people for error in person.errors]
        for person in self.people:
            await person.context.close()
        refusals = [refusal for person in self.people for refusal in person.refusals]
        assert not errors, "\n".join([*errors, *refusals])
