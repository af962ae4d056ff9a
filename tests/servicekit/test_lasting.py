"""Work that goes on whatever happens, and a Redis that refuses for a while."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from servicekit import metrics
from servicekit.lasting import end, lasting, spread
from servicekit.pipe import Pipe, StoreLost

_WRITE = "return redis.call('SET', KEYS[1], ARGV[1])"
_SECOND_CALL = "redis.call('GET', KEYS[1]) return redis.call('INCR', KEYS[1])"


async def test_work_that_ends_or_fails_is_counted_and_begins_again() -> None:
    runs = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise AssertionError("planted")
        if runs == 3:
            again.set()
            await asyncio.Event().wait()

    before = metrics.FAULTS.labels("test")._value.get()
    task = asyncio.create_task(lasting("test", work, pause_s=0.0))
    await asyncio.wait_for(again.wait(), 10)
    assert metrics.FAULTS.labels("test")._value.get() == before + 2
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_what_redis_refuses_for_now_is_a_loss_and_not_an_answer(valkey: str) -> None:
    pipe = Pipe(valkey, (_WRITE, _SECOND_CALL))
    redis = Redis.from_url(valkey)
    async with pipe.running():
        await redis.config_set("min-replicas-to-write", "1")
        try:
            for command in (("SET", "lasting", 1), ("EVAL", _WRITE, 1, "lasting", 1)):
                with pytest.raises(StoreLost):
                    await pipe.call(*command)
            assert await pipe.call("GET", "lasting") is None
        finally:
            await redis.config_set("min-replicas-to-write", "0")
        await redis.config_set("maxmemory", "1")
        try:
            with pytest.raises(StoreLost):
                await pipe.call("SET", "lasting", 1)
        finally:
            await redis.config_set("maxmemory", "0")
        await pipe.call("SET", "lasting", "text")
        for mistake in (("INCR", "lasting"), ("LPUSH", "lasting", 1), ("EVAL", _SECOND_CALL, 1, "lasting")):
            with pytest.raises(ResponseError):
                await pipe.call(*mistake)
        await pipe.call("DEL", "lasting")
    await redis.aclose()


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 1:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end(task)
    assert task.cancelled()
    assert swallowed == 2


@pytest.mark.parametrize("count", [0, 1, 7, 1_000])
async def test_a_spread_takes_its_time_however_many_there_are_and_lets_others_go_on(count: int) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    found: list[int] = []
    pauses: list[int] = [0]

    async def other() -> None:
        while True:
            before = len(found)
            await asyncio.sleep(0)
            pauses.append(len(found) - before)

    task = asyncio.create_task(other())
    async for item in spread(range(count), 0.2):
        found += [item]
    await end(task)
    assert found == list(range(count))
    assert loop.time() - began_s >= 0.19
    assert max(pauses) <= max(1, count * 0.01 / 0.2)  # at a time no more than belong to a hundredth of a second
