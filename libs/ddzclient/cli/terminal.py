"""The terminal of one command: a screen that is drawn anew as things change, or plain lines where there is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ddzclient.cli import keyboard

EVERY_S: Final = 1.0  # clocks count seconds
View = Callable[[], RenderableType]


class Terminal:
    """Shows a view and gives lines. `plain`: no screen is held, news are printed line by line as for a file.

    Use `opened`. `view` is what to show now; it is asked at every change, at every key, and every second.
    """

    def __init__(self, console: Console, *, plain: bool) -> None:
        self.console = console
        self.plain = plain
        self.view: View = Group
        self._editor = keyboard.Editor()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._live: Live | None = None

    def say(self, what: RenderableType) -> None:
        """Prints something that stays, where there is no screen; on a screen the view itself tells it."""
        if self.plain:
            self.console.print(what, soft_wrap=isinstance(what, str), markup=False, highlight=False)

    def draw(self) -> None:
        """Shows the view and what is being typed; nothing where there is no screen."""
        if self._live is not None:
            prompt = Text.assemble(("› ", "bold cyan"), self._editor.text, ("▏", "dim"))
            self._live.update(Group(self.view(), prompt), refresh=True)

    async def line(self) -> str | None:
        """The next line; None, then and ever after, when no more will come."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        return line

    async def _read(self, keys: asyncio.Queue[bytes]) -> None:
        while not self._editor.ended:
            for line in self._editor.feed(await keys.get()):
                self._lines.put_nowait(line)
            self.draw()
        self._lines.put_nowait(None)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self.draw()

    @contextlib.asynccontextmanager
    async def _working(self, stream: int | None) -> AsyncIterator[None]:
        keys: asyncio.Queue[bytes] = asyncio.Queue()
        if stream is None:
            keys.put_nowait(b"")
        else:
            keyboard.start_reading(stream, keys)
        tasks = [asyncio.create_task(self._read(keys)), asyncio.create_task(self._tick())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[Terminal]:
        """Takes the screen and the keys, and gives both back at the end."""
        stream = keyboard.standard_input()
        async with contextlib.AsyncExitStack() as held:
            if not self.plain and stream is not None:
                held.enter_context(keyboard.raw(stream))
                self._live = held.enter_context(Live(console=self.console, screen=True, auto_refresh=False))
            await held.enter_async_context(self._working(stream))
            try:
                yield self
            finally:
                self._live = None


def terminal(*, plain: bool) -> Terminal:
    """The process's own terminal; plain lines too when input or output is none."""
    console = Console(highlight=False)
    stream = keyboard.standard_input()
    is_terminal = console.is_terminal and stream is not None and os.isatty(stream)
    return Terminal(console, plain=plain or not is_terminal)
