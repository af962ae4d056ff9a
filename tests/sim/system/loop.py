"""An event loop on virtual time: it never waits, and every callback belongs to a process that can be paused or killed.

Callbacks run one after the other in an order that follows from the schedule alone. A process is known by the context
in which a callback runs, so that whatever the real code starts (tasks, timers, callbacks of futures) is its process's.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

EPOCH_MS: Final = 1_700_000_000_000  # what the wall clocks show when a run begins
GREATEST_SKEW_MS: Final = 1_500  # of a process's wall clock

_PRUNE_AT: Final = 256


class Process:
    """One operating system process of the simulated system. `skew_ms`: how far its wall clock is off."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.skew_ms = 0
        self.backlog: list[Handle] = []
        self.context = copy_context()
        self.context.run(PROCESS.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = _PRUNE_AT

    def add(self, task: asyncio.Task[Any]) -> None:
        """Takes note of a task, to end it with the process; what a dead process starts ends at once."""
        if not self.alive:
            task.cancel()
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._tasks = [one for one in self._tasks if not one.done()]
            self._prune_at = 2 * len(self._tasks) + _PRUNE_AT

    def kill(self) -> None:
        """Ends it: nothing that still unwinds can reach the world, since every port asks whether its process lives."""
        self.alive = False
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()


PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


class Deadlock(AssertionError):
    """Nothing will ever happen any more."""


class Handle:
    """What asyncio.Handle and TimerHandle are, without what only debugging needs."""

    __slots__ = ("_args", "_callback", "_context", "_when", "is_cancelled")

    def __init__(self, when: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        """It will not run."""
        self.is_cancelled = True
        self._args = ()

    def cancelled(self) -> bool:
        """Whether it will not run."""
        return self.is_cancelled

    def when(self) -> float:
        """The virtual second of a timer."""
        return self._when

    def run(self) -> None:
        """Calls back in its context."""
        self._context.run(self._callback, *self._args)


class VirtualLoop(asyncio.BaseEventLoop):
    """`time` is in seconds since the run began; it jumps to the next timer when nothing is ready."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._turn: deque[Handle] = deque()
        self._number = 0
        self.broken: list[BaseException] = []  # what no task has caught
        self.set_task_factory(self._new_task)
        self.set_exception_handler(lambda _, context: self._note(context))

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(0.0, callback, args, copy_context() if context is None else context)
        self._turn.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        """A heap of tuples: comparing handles would be most of the cost of a timer."""
        timer = Handle(when, callback, args, copy_context() if context is None else context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self._now_s + max(delay, 0.0), callback, *args, context=context)

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs work as a task of a process."""
        return self._new_task(self, work, process.context)

    def resume(self, process: Process) -> None:
        """Lets a paused process go on with all that has come due meanwhile."""
        process.paused = False
        self._turn.extend(process.backlog)
        process.backlog = []

    def _new_task(self, loop: Any, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.add(task)
        return task

    def _note(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.broken.append(error)

    def _run_once(self) -> None:
        """Turn after turn, until the loop is stopped: all that is ready, then what the next moment brings."""
        turn, timers = self._turn, self._timers
        while not self._stopping:  # type: ignore[attr-defined]
            if not turn:
                while timers and timers[0][2].is_cancelled:
                    heapq.heappop(timers)
                if not timers:
                    raise Deadlock("nothing is scheduled any more")
                self._now_s = now_s = max(self._now_s, timers[0][0])
                while timers and timers[0][0] <= now_s:
                    turn.append(heapq.heappop(timers)[2])
            handle = turn.popleft()
            if handle.is_cancelled:
                continue
            process = handle._context.get(PROCESS)
            if process is not None and process.paused:
                process.backlog.append(handle)
                continue
            try:
                handle.run()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.broken.append(error)

    def _process_events(self, event_list: Any) -> None:
        """There are no files."""

    def _write_to_self(self) -> None:
        """There are no other threads."""
