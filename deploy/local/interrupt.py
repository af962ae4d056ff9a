"""Ctrl-C, and what else asks a command to end, so that it cannot be lost.

Python drops a KeyboardInterrupt that is raised while a `__del__` or the callback of a weak reference runs, and a
coroutine may swallow a cancellation. So the wish is kept as well, and whoever takes a next step asks for it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_wished = False
_cancel: Callable[[], object] | None = None  # how to end the coroutine that `run` runs


def heed(*signums: int) -> None:
    """Makes each of the signals a KeyboardInterrupt in the main thread, which is the caller's."""
    for signum in signums:
        signal.signal(signum, _keep)


def _keep(*_: object) -> None:
    global _wished
    _wished = True
    if _cancel is None:
        raise KeyboardInterrupt
    _cancel()


def check() -> None:
    """Raises KeyboardInterrupt when a signal has asked for the end."""
    if _wished:
        raise KeyboardInterrupt


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, where a signal cancels `main`, each time that it is sent; it ends by KeyboardInterrupt then."""

    async def cancellable() -> T:
        global _cancel
        task = asyncio.current_task()
        assert task is not None
        _cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        try:
            if _wished:  # before there was somebody to cancel
                task.cancel()
            return await main
        finally:
            _cancel = None

    try:
        return asyncio.run(cancellable())
    finally:
        check()
