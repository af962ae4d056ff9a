"""One connection to Redis, shared by everything a node does: what is asked in the meantime goes in the next batch.

Group commit without waiting: while a batch is on its way the next one grows. It costs a third of a connection a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any, Final

import hiredis
from prometheus_client import Counter, Gauge, Histogram
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from servicekit import logs
from servicekit.lasting import lasting
from servicekit.probe import probed

log = logs.get("pipe")

BATCH_SIZE: Final = Histogram(
    "ddz_redis_batch_size", "Commands sent to Redis together", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
)
SECONDS: Final = Histogram(
    "ddz_redis_seconds",
    "Time from sending commands to Redis to the last of their answers",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2),
)
WAITING: Final = Gauge("ddz_redis_waiting", "Commands that wait for Redis to answer those before them")
LOST: Final = Counter("ddz_redis_lost", "Connections to Redis that were lost")

_BATCH: Final = 512
_TIMEOUT_S: Final = 2.0
_PAUSE_S: Final = 0.05
_LOST: Final = (RedisConnectionError, RedisTimeoutError, OSError)
# The next connection gets the scripts, or finds the new primary.
_CONNECT_ANEW: Final = (NoScriptError, ReadOnlyError)
# What Redis refuses because of the command, whenever it comes; with any other code it may do it later.
_MISTAKES: Final = {"ERR", "WRONGTYPE", "CROSSSLOT", "EXECABORT", "NOPERM", "BUSYGROUP", "BUSYKEY", "INVALIDOBJ"}


class StoreLost(Exception):
    """Redis did not answer: what was asked may have been done or not."""


class Pipe:
    """`call` queues a command; `running` sends them."""

    def __init__(self, url: str, scripts: tuple[str, ...]) -> None:
        # No socket_timeout: redis-py would send under asyncio.wait_for, which may swallow a cancellation (Python 3.11).
        pool = ConnectionPool.from_url(url, socket_timeout=None, socket_connect_timeout=_TIMEOUT_S)
        self._connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        self._scripts = scripts
        self._queue: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._wake = asyncio.Event()
        # Which run of the Redis process answers: after a restart the log may have gone back.
        self.epoch = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connects and sends until left; raises OSError when Redis does not answer at the start."""
        try:
            await self._connect()
        except (*_LOST, RedisError) as error:
            raise OSError(f"Redis cannot be used: {error}") from error
        task = asyncio.create_task(lasting("pipe", self._work, pause_s=_PAUSE_S))
        try:
            async with probed("redis", lambda: self.call("PING"), StoreLost):
                yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self._fail(self._take())
            await self._connection.disconnect()

    async def call(self, *command: Any) -> Any:
        """The answer; raises StoreLost, also when Redis refuses for now, and ResponseError for a mistake of ours."""
        future = asyncio.get_running_loop().create_future()
        self._queue.append((command, future))
        self._wake.set()
        return await future

    def _take(self) -> list[tuple[tuple[Any, ...], asyncio.Future[Any]]]:
        batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
        return batch

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            batch = self._take()
            if not batch:
                self._wake.clear()
                continue
            try:
                if not self._connection.is_connected:
                    await self._connect()
                WAITING.set(len(self._queue))
                with SECONDS.time():
                    await self._exchange(batch)
                BATCH_SIZE.observe(len(batch))
            except (*_LOST, RedisError) as error:
                LOST.inc()
                log.warning("redis lost", extra={"why": str(error)})
                await self._connection.disconnect(nowait=True)
                self._fail(batch)
                await asyncio.sleep(_PAUSE_S)
            except Exception:
                await self._connection.disconnect(nowait=True)  # answers to what was sent may still come
                raise
            finally:
                self._fail(batch)

    async def _connect(self) -> None:
        """Connects, learns which process answers, and gives it the scripts."""
        async with asyncio.timeout(_TIMEOUT_S):
            await self._connection.connect()  # type: ignore[no-untyped-call]
            await self._connection.send_command("INFO", "server")
            info: Any = await self._connection.read_response()
            run_id = bytes(info).partition(b"run_id:")[2][:15]
            self.epoch = int(run_id, 16)
            for script in self._scripts:
                await self._connection.send_command("SCRIPT", "LOAD", script)
                await self._connection.read_response()

    async def _exchange(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        packed = b"".join(hiredis.pack_command(command) for command, _ in batch)
        async with asyncio.timeout(_TIMEOUT_S):  # one for all: one for each would cost as much as the reading
            await self._connection.send_packed_command(packed, check_health=False)
            await self._read(batch)

    async def _read(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        for _, future in batch:
            try:
                answer = await self._connection.read_response(timeout=math.inf)
            except _CONNECT_ANEW:
                raise
            except ResponseError as error:
                if not future.done():
                    future.set_exception(error if _is_mistake(error) else StoreLost(f"Redis refuses: {error}"))
                continue
            if not future.done():
                future.set_result(answer)

    @staticmethod
    def _fail(batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(StoreLost("Redis did not answer"))


def _is_mistake(error: ResponseError) -> bool:
    """Whether the command is wrong; otherwise Redis lacks replicas or memory, is busy, loads or fails over."""
    return (error.status_code or str(error).partition(" ")[0]) in _MISTAKES
