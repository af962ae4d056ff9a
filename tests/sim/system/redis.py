"""A simulated Redis: logs with compare-and-set, deadlines, leases, and the connection that nodes have to it.

Modelled, not real: the four Lua scripts of services/table/store.py, here as methods with the same contract, and the
few plain commands that the table, matchmaking and lobby services send. The queue's scripts are in tickets.py. What is
real is everything above: the stores that build the commands. The scripts themselves are tested against a real Valkey in
tests/services/table/test_log.py and tests/services/matchmaking.

A command is done whole or not at all, in the order in which it arrives. A connection that breaks fails all that is
under way on it, whether it has been done or not; a restart of Redis keeps what it has and shows a new epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from servicekit.pipe import StoreLost
from services.matchmaking import store as queue_store
from services.table import store as table_store
from tests.sim.system.loop import EPOCH_MS, PROCESS
from tests.sim.system.tickets import Rooms

if TYPE_CHECKING:
    from tests.sim.system.world import World

_FIRST_EPOCH: Final = 1 << 20
_TABLE_SCRIPTS: Final = {
    table_store._APPEND_SHA: "append",
    table_store._CLAIM_SHA: "claim",
    table_store._CUT_SHA: "cut",
    table_store._PUT_OFF_SHA: "put_off",
}
_QUEUE_SCRIPTS: Final = {sha: name for name, sha in queue_store._SHAS.items()}


class Redis:
    """The server. Streams by key: (number of the last event, entry); the other types by key too."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.up = True
        self.epoch = _FIRST_EPOCH
        self.streams: dict[str, list[tuple[int, int, bytes]]] = {}
        self.zsets: dict[str, dict[str, int]] = {}
        self.values: dict[str, tuple[Any, float]] = {}  # and when it is forgotten, in virtual seconds
        self.queues = Rooms()
        self._calls: dict[str, Callable[..., Any]] = {
            "XRANGE": self._xrange,
            "EXISTS": self._exists,
            "ZSCORE": self._zscore,
            "SET": self._set,
            "GET": lambda key: self._value(key),
            "DEL": lambda key: int(self.values.pop(key, None) is not None),
            "EVALSHA": self._evalsha,
        }

    def run(self, command: tuple[Any, ...]) -> Any:
        """Does one command and answers it."""
        name, *arguments = command
        call = self._calls.get(name)
        return call(*arguments) if call is not None else self.queues.plain(name, arguments)

    def restart(self) -> None:
        """Another process with the same data."""
        self.epoch += 1

    def version(self, key: str) -> int:
        """The number of the last event of a log; 0 when there is none."""
        entries = self.streams.get(key)
        return entries[-1][0] if entries else 0

    # ---- plain commands -------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return self._world.loop.time()

    def _value(self, key: str) -> Any:
        found = self.values.get(key)
        if found is None:
            return None
        if found[1] <= self._now_s():
            del self.values[key]
            return None
        return found[0]

    def _set(self, key: str, value: Any, *options: Any) -> Any:
        before = self._value(key)
        if "NX" in options and before is not None:
            return before if "GET" in options else None
        life_s = float(options[options.index("EX") + 1]) if "EX" in options else float("inf")
        kept = value.encode() if isinstance(value, str) else value
        self.values[key] = (kept, self._now_s() + life_s)
        return before if "GET" in options else b"OK"

    def _exists(self, key: str) -> int:
        return int(bool(self.streams.get(key)) or self._value(key) is not None)

    def _xrange(self, key: str, first: str, _last: str) -> list[tuple[bytes, list[bytes]]]:
        after = 0 if first == "-" else int(first.partition("-")[0]) - 1
        return [
            (b"%d-%d" % (seq, mark), [b"e", entry]) for seq, mark, entry in self.streams.get(key, ()) if seq > after
        ]

    def _zscore(self, key: str, member: str) -> bytes | None:
        score = self.zsets.get(key, {}).get(member)
        return None if score is None else b"%d" % score

    # ---- the scripts of tables ------------------------------------------------------------------------------------

    def _evalsha(self, sha: str, keys: int, *arguments: Any) -> Any:
        name = _TABLE_SCRIPTS.get(sha)
        if name is None:
            return self.queues.script(_QUEUE_SCRIPTS[sha], arguments[0], arguments[keys:])
        return getattr(self, name)(arguments[:keys], *arguments[keys:])

    def append(
        self,
        keys: tuple[str, str],
        table: str,
        expected: int,
        new: int,
        entry: bytes,
        deadline: int | str,
        keep: int | str,
    ) -> int:
        """Appends if the log ends at `expected`, with the next deadline; answers the version found."""
        log, deadlines = keys
        version = self.version(log)
        if not self.may_append(version, expected):
            return version
        self.streams.setdefault(log, []).append((new, 0, entry))
        self._put(deadlines, table, deadline)
        self._world.audit.appended(table, version, new, entry, deadline, keep)
        if keep != "":
            self._world.loop.call_later(int(keep) / 1000, self.streams.pop, log, None, context=self._world.context)
        return version if version == expected else expected

    @staticmethod
    def may_append(version: int, expected: int) -> bool:
        """The compare of compare-and-set."""
        return version == expected

    def put_off(self, keys: tuple[str, str], table: str, version: int, deadline: int | str) -> int:
        """Sets the deadline if the log still ends at that version."""
        log, deadlines = keys
        if self.version(log) != version:
            return 0
        self._put(deadlines, table, deadline)
        return 1

    def claim(self, keys: tuple[str], until: int, claimed_until: int, limit: int) -> list[bytes]:
        """The tables that are due, put off until the claim has run out."""
        deadlines = self.zsets.get(keys[0], {})
        due = sorted((at, table) for table, at in deadlines.items() if at <= until)[:limit]
        for _, table in due:
            deadlines[table] = claimed_until
        return [table.encode() for _, table in due]

    def cut(self, keys: tuple[str], version: int, checkpoint: bytes, until: int) -> int:
        """Adds a checkpoint if the log ends at `version`; cuts off what was before the checkpoint at `until`."""
        if self.version(keys[0]) != version:
            return 0
        entries = self.streams[keys[0]]
        first = next((index for index, (seq, mark, _) in enumerate(entries) if (seq, mark) >= (until, 1)), 0)
        self.streams[keys[0]] = [*entries[first:], (version, 1, checkpoint)]
        self._world.trace.add(self._now_s(), "cut", keys[0])
        return 1

    def _put(self, deadlines: str, table: str, deadline: int | str) -> None:
        if deadline == "":
            self.zsets.setdefault(deadlines, {}).pop(table, None)
        else:
            self.zsets.setdefault(deadlines, {})[table] = int(deadline)


class SimPipe:
    """What servicekit.pipe.Pipe is to a store: one connection of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._redis = world.redis
        self.epoch = world.redis.epoch
        self._process = PROCESS.get()
        self._under_way: dict[asyncio.Future[Any], None] = {}
        self._arrives_s = 0.0
        self._answers_s = 0.0

    def call(self, *command: Any) -> asyncio.Future[Any]:
        """The answer to come; StoreLost when the connection breaks before it is there."""
        world = self._world
        loop = world.loop
        answer: asyncio.Future[Any] = loop.create_future()
        assert self._process is not None
        if not self._redis.up or not self._process.alive:
            loop.call_later(0.05, self._lose, answer)
            return answer
        if world.chance.strikes("redis connection broken", 0.0003):
            self.cut()
        self._under_way[answer] = None
        self._arrives_s = max(self._arrives_s, loop.time() + world.chance.delay_s())
        loop.call_at(self._arrives_s, self._arrive, command, answer, context=world.context)
        return answer

    def _arrive(self, command: tuple[Any, ...], answer: asyncio.Future[Any]) -> None:
        if not self._redis.up or answer not in self._under_way:
            # What was sent before the connection broke may still have been read from the socket.
            if self._redis.up and self._world.chance.strikes("redis done but not answered", 0.5):
                self._redis.run(command)
            return
        found = self._redis.run(command)
        loop = self._world.loop
        if self._answers_s <= loop.time() and self._world.chance.rng.random() < 0.7:
            self._answer(answer, found)
            return
        self._answers_s = max(self._answers_s, loop.time() + 0.0005 * self._world.chance.rng.random())
        loop.call_at(self._answers_s, self._answer, answer, found, context=self._world.context)

    def _answer(self, answer: asyncio.Future[Any], found: Any) -> None:
        self._under_way.pop(answer, None)
        if not answer.done():
            answer.set_result(found)

    def cut(self) -> None:
        """Breaks the connection: nobody knows what of all that is under way was done."""
        lost, self._under_way = self._under_way, {}
        self.epoch = self._redis.epoch
        for answer in lost:
            self._lose(answer)

    @staticmethod
    def _lose(answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(StoreLost("the simulated connection broke"))


class RedisClient:
    """The few methods of redis.asyncio.Redis that services/lobby/tables.py uses."""

    def __init__(self, pipe: SimPipe) -> None:
        self._pipe = pipe

    async def set(self, key: str, value: Any, *, nx: bool = False, get: bool = False, ex: int = 0) -> Any:
        """As in redis-py: what was there before with `get`, else whether it was set."""
        options = [*(["NX"] if nx else []), *(["GET"] if get else []), *(["EX", ex] if ex else [])]
        return await self._pipe.call("SET", key, value, *options)

    async def get(self, key: str) -> Any:
        """The value, None when there is none."""
        return await self._pipe.call("GET", key)

    async def delete(self, key: str) -> int:
        """How many were deleted."""
        return int(await self._pipe.call("DEL", key))


def wall_ms(world: World) -> int:
    """What a clock without skew shows, in milliseconds since the epoch."""
    return EPOCH_MS + int(world.loop.time() * 1000)
