"""A server that stops answering is down in the metrics, and up again when it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import REGISTRY

from servicekit.probe import probed

_DEADLINE_S = 10.0


def value(name: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"client": "test"})


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_down_while_it_is_silent_and_up_again() -> None:
    away = False

    async def ask() -> None:
        if away:
            raise ConnectionError

    async with probed("test", ask, OSError, period_s=0.01):
        assert (value("ddz_client_up"), value("ddz_client_failures_total")) == (1, 0)
        await until(lambda: bool(value("ddz_client_probe_seconds_count")))
        away = True
        await until(lambda: value("ddz_client_up") == 0)
        assert value("ddz_client_failures_total") == 1
        away = False
        await until(lambda: value("ddz_client_up") == 1)


async def test_what_nobody_expects_is_a_fault_and_does_not_end_the_probe() -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ZeroDivisionError

    before = REGISTRY.get_sample_value("ddz_faults_total", {"where": "probe"}) or 0
    async with probed("test", ask, OSError, period_s=0.01):
        await until(lambda: asked > 1)
    assert REGISTRY.get_sample_value("ddz_faults_total", {"where": "probe"}) == before + 1
