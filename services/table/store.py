"""Tables in Redis: a log each, and a set of deadlines for each shard. No decisions.

Keys of a shard k share the hash tag {k}, so that one Lua call works on a cluster too:
    {k}:t:<table>:log   a stream; the id of an entry is the number of its last event, its field `e` a LogEntry; a
                        checkpoint's has the number of the event that it stands behind, and `-1`
    {k}:t:<table>:aside the log of a table that could not be read for a fault of ours, for a while
    {k}:deadlines       a sorted set: table -> when it must be looked at, in milliseconds since the epoch
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Iterable
from typing import Any, Final

from servicekit import orders
from servicekit.pipe import Pipe
from services.table.table import Connection

# KEYS log, deadlines; ARGV table, expected version, new version, entry, deadline or "", milliseconds to keep or "".
# Answers the version found; the entry was appended when it is the expected one.
_APPEND: Final = """
local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local version = top[1] and string.match(top[1][1], '^%d+') or '0'
if version ~= ARGV[2] then return tonumber(version) end
redis.call('XADD', KEYS[1], ARGV[3] .. '-0', 'e', ARGV[4])
if ARGV[5] == '' then redis.call('ZREM', KEYS[2], ARGV[1]) else redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1]) end
if ARGV[6] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[6]) end
return tonumber(version)
"""

# KEYS log, deadlines; ARGV table, version, deadline or "". Sets the deadline if the log still ends at that version.
_PUT_OFF: Final = """
local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if (top[1] and string.match(top[1][1], '^%d+') or '0') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('ZREM', KEYS[2], ARGV[1]) else redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1]) end
return 1
"""

# KEYS deadlines; ARGV due until, claimed until, how many. Answers the tables that are due, and puts them off for
# other nodes until the claim has run out.
_CLAIM: Final = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, table in ipairs(due) do redis.call('ZADD', KEYS[1], ARGV[2], table) end
return due
"""

# KEYS log; ARGV version, checkpoint, last event to cut off. Adds the checkpoint if the log still ends there.
_CUT: Final = """
local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if not top[1] or top[1][1] ~= ARGV[1] .. '-0' then return 0 end
redis.call('XADD', KEYS[1], 'MINID', ARGV[3] .. '-1', ARGV[1] .. '-1', 'e', ARGV[2])
return 1
"""

# KEYS log, deadlines, what is put aside; ARGV table, milliseconds to keep.
_PUT_ASIDE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[3])
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return 1
"""

SCRIPTS: Final = (_APPEND, _CLAIM, _CUT, _PUT_OFF, _PUT_ASIDE)
_PUT_ASIDE_SHA: Final = hashlib.sha1(_PUT_ASIDE.encode(), usedforsecurity=False).hexdigest()
_PUT_OFF_SHA: Final = hashlib.sha1(_PUT_OFF.encode(), usedforsecurity=False).hexdigest()
_CUT_SHA: Final = hashlib.sha1(_CUT.encode(), usedforsecurity=False).hexdigest()
_APPEND_SHA: Final = hashlib.sha1(_APPEND.encode(), usedforsecurity=False).hexdigest()
_CLAIM_SHA: Final = hashlib.sha1(_CLAIM.encode(), usedforsecurity=False).hexdigest()
_CLAIM_MS: Final = 1_000
_CLAIM_LIMIT: Final = 64


class Store:
    """Logs and deadlines over one pipe."""

    def __init__(self, pipe: Pipe, shards: int) -> None:
        self._pipe = pipe
        self._shards = shards

    @property
    def epoch(self) -> int:
        """Which run of Redis answers; another one may have an older log."""
        return self._pipe.epoch

    def _shard(self, table_id: str) -> int:
        return zlib.crc32(table_id.encode()) % self._shards

    async def read(self, table_id: str, after_seq: int = 0) -> list[bytes]:
        """The entries of a table's log after an event, oldest first. Raises StoreLost."""
        return [entry for _, entry in await self._range(table_id, f"{after_seq + 1}-0" if after_seq else "-")]

    async def parts(self, table_id: str) -> list[list[bytes]]:
        """All entries of a table's log, oldest first, in parts: each but the first begins with a checkpoint, and the
        first one does too once the log has been cut. Raises StoreLost.
        """
        parts: list[list[bytes]] = []
        for entry_id, entry in await self._range(table_id, "-"):
            if not parts or entry_id.endswith(b"-1"):
                parts.append([])
            parts[-1].append(entry)
        return parts

    async def _range(self, table_id: str, begin: str) -> list[tuple[bytes, bytes]]:
        """The entries from an id on, with theirs."""
        key = f"{{{self._shard(table_id)}}}:t:{table_id}:log"
        found: list[Any] = await self._pipe.call("XRANGE", key, begin, "+")
        return [(entry_id, fields[1]) for entry_id, fields in found]

    async def history(self, table_id: str) -> list[tuple[int, bytes]]:
        """All entries that there are, those before the last checkpoint too, with the number of each one's last event,
        oldest first; of a table that has been put aside too. Raises StoreLost.
        """
        key = f"{{{self._shard(table_id)}}}:t:{table_id}"
        found: list[Any] = await self._pipe.call("XRANGE", f"{key}:log", "-", "+")
        found = found or await self._pipe.call("XRANGE", f"{key}:aside", "-", "+")
        return [(int(entry_id.partition(b"-")[0]), fields[1]) for entry_id, fields in found]

    async def put_aside(self, table_id: str, keep_ms: int) -> None:
        """Has the table be there for no node any more, and keeps its log for so long. Raises StoreLost."""
        shard = self._shard(table_id)
        keys = (f"{{{shard}}}:t:{table_id}:log", f"{{{shard}}}:deadlines", f"{{{shard}}}:t:{table_id}:aside")
        await self._pipe.call("EVALSHA", _PUT_ASIDE_SHA, 3, *keys, table_id, keep_ms)

    async def orders(self) -> bytes | None:
        """What operators have ordered (servicekit.orders). Raises StoreLost."""
        found = await self._pipe.call("GET", orders.KEY)
        return None if found is None else bytes(found)

    async def exists(self, table_id: str) -> bool:
        """Whether there is a log of this table. Raises StoreLost."""
        return bool(await self._pipe.call("EXISTS", f"{{{self._shard(table_id)}}}:t:{table_id}:log"))

    async def append(
        self, table_id: str, expected: int, new: int, entry: bytes, deadline_ms: int | None, keep_ms: int | None
    ) -> bool:
        """Appends an entry that ends at event `new` if the log ends at `expected`, and sets the next deadline.

        `keep_ms`: how long a closed table's log is kept. Raises StoreLost: it may be there or not.
        """
        shard = self._shard(table_id)
        found = await self._pipe.call(
            "EVALSHA",
            _APPEND_SHA,
            2,
            f"{{{shard}}}:t:{table_id}:log",
            f"{{{shard}}}:deadlines",
            table_id,
            expected,
            new,
            entry,
            "" if deadline_ms is None else deadline_ms,
            "" if keep_ms is None else keep_ms,
        )
        return int(found) == expected

    async def cut(self, table_id: str, version: int, checkpoint: bytes, until_seq: int) -> bool:
        """Adds a checkpoint of the log's last version, and cuts off what was before the checkpoint at `until_seq`.

        False when the log has gone on meanwhile.
        """
        key = f"{{{self._shard(table_id)}}}:t:{table_id}:log"
        return bool(await self._pipe.call("EVALSHA", _CUT_SHA, 1, key, version, checkpoint, until_seq))

    async def set_deadline(self, table_id: str, version: int, deadline_ms: int | None) -> bool:
        """Sets when the table must be looked at, None = never; False when its log does not end at `version` (0: none).

        Whoever has appended meanwhile has set a deadline of its own.
        """
        shard = self._shard(table_id)
        keys = (f"{{{shard}}}:t:{table_id}:log", f"{{{shard}}}:deadlines")
        deadline = "" if deadline_ms is None else deadline_ms
        return bool(await self._pipe.call("EVALSHA", _PUT_OFF_SHA, 2, *keys, table_id, version, deadline))

    async def next_deadline(self, table_id: str) -> int | None:
        """When the table must be looked at; None = never."""
        score = await self._pipe.call("ZSCORE", f"{{{self._shard(table_id)}}}:deadlines", table_id)
        return None if score is None else int(float(score))

    async def claim_due(self, until_ms: int, now_ms: int) -> list[str]:
        """Tables whose deadline lies before `until_ms`; other nodes do not get them for a second."""
        answers = await asyncio.gather(
            *(
                self._pipe.call(
                    "EVALSHA",
                    _CLAIM_SHA,
                    1,
                    f"{{{shard}}}:deadlines",
                    until_ms,
                    now_ms + _CLAIM_MS,
                    _CLAIM_LIMIT,
                )
                for shard in range(self._shards)
            )
        )
        return [str(table, "utf-8") for answer in answers for table in answer]

    async def say_alive(self, node_id: str, lease_s: int) -> None:
        """Says that a node is at work; its streams count as lost when it has not said so for `lease_s`."""
        await self._pipe.call("SET", f"table:node:{node_id}", 1, "EX", lease_s)

    async def succeed(self, name: str, node_id: str) -> None:
        """Says that this node runs under a name from now on: who did so before is dead."""
        before = await self._pipe.call("SET", f"table:name:{name}", node_id, "GET")
        if before is not None and bytes(before) != node_id.encode():
            await self._pipe.call("DEL", f"table:node:{str(before, 'utf-8')}")

    async def dead(self, streams: Iterable[Connection], here: str) -> tuple[Connection, ...]:
        """Those of nodes that have not said lately that they live; `here` does, whatever it has said."""
        ends = [(stream, stream[1].rpartition(":")[0]) for stream in streams]
        alive = {here: True}
        for _, node_id in ends:
            if node_id not in alive:
                alive[node_id] = bool(await self._pipe.call("EXISTS", f"table:node:{node_id}"))
        return tuple(stream for stream, node_id in ends if not alive[node_id])
