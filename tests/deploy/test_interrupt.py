"""Ctrl-C ends a command at whatever moment it comes, also where Python drops the exception that it raises."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from deploy.local import folders

_BEFORE = """
    import asyncio, signal, subprocess, sys
    from pathlib import Path
    from deploy.local import interrupt
    from deploy.local.process import Process

    class Dropping:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    async def stubborn():
        for _ in range(2):
            try:
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                print("swallowed")

    async def patient():
        await asyncio.sleep(600)

    interrupt.heed(signal.SIGINT)
    try:
"""
_AFTER = """
        print("went on to its end")
    except KeyboardInterrupt:
        print("ended")
"""


def said(*lines: str) -> list[str]:
    """What a process prints that runs the lines."""
    script = textwrap.dedent(_BEFORE + "".join(f"        {line}\n" for line in lines) + _AFTER.removeprefix("\n"))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folders.ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "then",
    [
        "interrupt.check()",
        "Process('it', subprocess.Popen(['sleep', '9'], stdout=-3, stderr=-3), Path('none')).wait_until(lambda: False)",
        "interrupt.run(patient())",
    ],
)
def test_a_signal_whose_exception_is_dropped_is_heeded_at_the_next_step(then: str) -> None:
    assert said("Dropping()", "print('dropped')", then) == ["dropped", "ended"]


def test_a_signal_ends_what_waits() -> None:
    assert said("signal.raise_signal(signal.SIGINT)") == ["ended"]
    soon = "signal.setitimer(signal.ITIMER_REAL, 0.05)"
    assert said("interrupt.heed(signal.SIGALRM)", soon, "signal.pause()") == ["ended"]


def test_a_coroutine_that_swallows_its_cancellation_is_cancelled_again_and_ends_as_interrupted() -> None:
    assert said("interrupt.run(stubborn())") == ["swallowed", "swallowed", "ended"]


def test_what_nobody_interrupts_goes_on_to_its_end() -> None:
    assert said("print(interrupt.run(asyncio.sleep(0, 'result')))") == ["result", "went on to its end"]
