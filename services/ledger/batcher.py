"""Group commit: what is waiting when a connection comes free goes into its next transaction. Nobody lingers for more.

Requests that share a claim (a key or a player) go into different transactions, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncpg
from prometheus_client import Gauge, Histogram

from doudizhu.refusal import Refusal
from servicekit import logs, traces
from services.ledger.ledger import Reason
from services.ledger.transaction import Reply, Request, claims, transact
from services.ledger.trouble import ABANDONED, insist

log = logs.get("batcher")

BATCH_SIZE: Final = Histogram(
    "ddz_ledger_batch_size", "Requests in a transaction", buckets=(1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128)
)
WAITING: Final = Gauge("ddz_ledger_waiting", "Requests that wait for a transaction")
# Every statement of a transaction looks rows up by their keys: one plan serves all, and planning costs more than
# running. But a plan that was made for a small table scans it, so that plans are made anew as tables grow.
_PLANS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "jit": "off",
}
_PLANS_LAST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the group commit. `batch`: requests in a transaction; `queue`: requests that may wait; times in seconds."""

    batch: int = 128
    queue: int = 4096
    patience_s: float = 5.0
    transaction_timeout_s: float = 5.0


@dataclass(slots=True)
class _Waiting:
    request: Request
    claims: tuple[str, ...]
    reply: asyncio.Future[Reply]
    span: traces.Span
    since_s: float = field(default_factory=time.perf_counter)


class Batcher:
    """Answers requests by transactions. Each running `work` has a connection of its own; run as many as wanted.

    `committed` is called after each transaction.
    """

    def __init__(self, dsn: str, limits: Limits, committed: Callable[[], None]) -> None:
        self._dsn = dsn
        self._limits = limits
        self._committed = committed
        self._queue: deque[_Waiting] = deque()
        self._more = asyncio.Event()

    async def submit(self, request: Request) -> Reply:
        """The reply once it is committed; raises its Refusal, OVERLOADED (queue full) or UNAVAILABLE (no Postgres)."""
        if len(self._queue) >= self._limits.queue:
            raise Refusal(Reason.OVERLOADED, "The ledger has too much to do; try again.")
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        with traces.span(f"submit {type(request).__name__}") as span:
            self._queue.append(_Waiting(request, claims(request), reply, span))
            self._more.set()
            return await reply

    async def work(self) -> None:
        """Takes and commits batches for ever."""
        worker = _Worker(self._dsn, self._limits)
        try:
            while True:
                while not self._queue:
                    self._more.clear()
                    await self._more.wait()
                batch = self._take()
                BATCH_SIZE.observe(len(batch))
                WAITING.set(len(self._queue))
                with _traced(batch):
                    await worker.commit(batch)
                self._committed()
        finally:
            worker.close()

    def _take(self) -> list[_Waiting]:
        """The oldest requests that share no claim; the others keep their order."""
        taken: list[_Waiting] = []
        claimed: set[str] = set()
        passed_over: list[_Waiting] = []
        while self._queue and len(taken) < self._limits.batch and len(passed_over) < self._limits.batch:
            waiting = self._queue.popleft()
            if waiting.reply.cancelled():
                continue
            if claimed.isdisjoint(waiting.claims):
                taken.append(waiting)
            else:
                passed_over.append(waiting)
            claimed.update(waiting.claims)  # of those passed over too: nobody overtakes them
        self._queue.extendleft(reversed(passed_over))
        return taken


class _Worker:
    """A connection, made anew whenever its state is in doubt."""

    def __init__(self, dsn: str, limits: Limits) -> None:
        self._dsn = dsn
        self._limits = limits
        self._connection: asyncpg.Connection | None = None
        self._plan_again_at_s = 0.0

    def close(self) -> None:
        """Drops the connection; the server ends what it was doing."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def commit(self, batch: Sequence[_Waiting]) -> None:
        """Answers a batch; when there is a fault in it, each member by itself."""
        try:
            requests = [waiting.request for waiting in batch]
            spans = [waiting.span for waiting in batch]
            replies = await insist(lambda: self._once(requests, spans), self._limits.patience_s)
        except Refusal as no_postgres:
            _fail(batch, no_postgres)
        except Exception as fault:
            if len(batch) > 1:
                log.error("a batch failed and is run one by one", exc_info=fault)
                for waiting in batch:
                    await self.commit([waiting])
            elif isinstance(fault, asyncpg.DataError):
                _fail(batch, Refusal(Reason.INVALID, f"The database cannot store this: {fault}."))
            else:
                _fail(batch, fault)
        else:
            for waiting, reply in zip(batch, replies, strict=True):
                if waiting.reply.done():
                    continue
                if isinstance(reply, Refusal):
                    waiting.reply.set_exception(reply)
                else:
                    waiting.reply.set_result(reply)

    async def _once(self, requests: Sequence[Request], spans: Sequence[traces.Span]) -> list[Reply | Refusal]:
        try:
            async with asyncio.timeout(self._limits.transaction_timeout_s):
                return await transact(await self._connected(), requests, spans)
        except BaseException:
            self.close()
            raise

    async def _connected(self) -> asyncpg.Connection:
        now_s = asyncio.get_running_loop().time()
        if self._connection is None:
            self._connection = await asyncpg.connect(self._dsn, server_settings=_PLANS | ABANDONED)
        elif now_s >= self._plan_again_at_s:
            await self._connection.execute("DISCARD PLANS")
            self._plan_again_at_s = now_s + _PLANS_LAST_S
        return self._connection


@contextlib.contextmanager
def _traced(batch: Sequence[_Waiting]) -> Iterator[None]:
    """One span for a transaction: below that of its first member who is traced, linked with those of all."""
    members = [waiting for waiting in batch if waiting.span.is_recording()]
    if not members:
        yield
        return
    links = [waiting.span.get_span_context() for waiting in members]
    with (
        traces.within(traces.below(members[0].span)),
        traces.span("commit", links=links, attributes={"ddz.batch_size": len(batch)}) as commit,
    ):
        now_s = time.perf_counter()
        for waiting in members:
            waiting.span.add_link(commit.get_span_context())
            waiting.span.set_attribute("ddz.waited_ms", round(1000 * (now_s - waiting.since_s), 3))
        yield


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.reply.done():
            waiting.reply.set_exception(error)
