"""Tickets and claims in Redis. Every change is one script: it happens whole or not at all. No decisions here."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from servicekit import orders
from servicekit.pipe import Pipe, StoreLost
from services.matchmaking.queue import WINDOWS, State, Strength, Ticket, Window, estimate_ms

KEEP_ENDED_S: Final = 3600  # how long the end of a ticket can be asked for
_REPEATS: Final = 3  # of a command whose answer was lost: each of ours is safe to repeat
_PAUSE_S: Final = 0.2
_LUA: Final = Path(__file__).parent / "lua"
_NEAREST: Final = 12  # neighbours on each side that a look takes into account
_OLDEST: Final = 4
_UNTOLD: Final = 100
_STATES: Final = {state.value.encode(): state for state in State}
_ROOMS: Final = "mm:rooms"


def _scripts() -> dict[str, str]:
    common = (_LUA / "common.lua").read_text()
    of_a_room = ("enter", "cancel", "look", "settle", "sweep", "watch", "leave")
    scripts = {name: common + (_LUA / f"{name}.lua").read_text() for name in of_a_room}
    return scripts | {"allocate": (_LUA / "allocate.lua").read_text()}


_SCRIPTS: Final = _scripts()
_SHAS: Final = {name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in _SCRIPTS.items()}


def pipe(url: str) -> Pipe:
    """The connection that a Store needs."""
    return Pipe(url, tuple(_SCRIPTS.values()))


@dataclass(frozen=True, slots=True)
class Pointer:
    """A player's latest ticket, and when it was numbered."""

    ticket_id: str
    room_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What a ticket brings into the queue. `who`: what the table is opened with; `reserve`: only fills tables."""

    who: bytes
    strength: Strength
    reserve: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """Three tickets taken out of the queue together, sorted; `who` and `joined_ms` in their order.

    `epoch`: the life of the queue (queue.match_id); `inherited`: taken over from a matcher that is gone.
    """

    claim_id: str
    epoch: str
    who: tuple[bytes, ...]
    joined_ms: tuple[int, ...]
    inherited: bool

    @property
    def ticket_ids(self) -> list[str]:
        return self.claim_id.split(",")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in milliseconds."""

    lease_ms: int = 30_000  # a ticket whose owner gives no sign
    claim_ms: int = 10_000  # a claim whose matcher gives no sign
    grace_ms: int = 10_000  # a ticket whose last watcher is gone
    longest_ms: int = 600_000  # in the queue at all
    rematch_ms: int = 6_000  # before those who just sat together are put together again though others wait
    fill_ms: int = 0  # before bots fill a table; 0 = bots wait like everybody
    again_ms: int = 15_000  # between looks once the window is open to all


class Store:
    """Rooms under `mm:{room}`, players under `mm:player:{player}`."""

    def __init__(self, pipe: Pipe, patience: Patience, *, epoch: str, windows: Sequence[Window] = WINDOWS) -> None:
        self._pipe = pipe
        self._patience = patience
        self._epoch = epoch
        self._windows = [bound for entry in windows for bound in (entry.age_ms, entry.near, entry.also)]

    # ---- a player's tickets ---------------------------------------------------------------------------------------

    async def allocate(self, player_id: str, room_id: str, now_ms: int, ended: str = "") -> Pointer:
        """The player's latest ticket; a new one, numbered for the room, when the latest is the one that has ended."""
        key = _player_key(player_id)
        return _pointer(await self._call("EVALSHA", _SHAS["allocate"], 1, key, player_id, room_id, now_ms, ended))

    async def latest(self, player_id: str) -> Pointer | None:
        """The player's latest ticket."""
        found = await self._call("HMGET", _player_key(player_id), "ticket", "room", "at")
        return _pointer(found) if found[0] else None

    async def room_of(self, player_id: str, ticket_id: str) -> str | None:
        """The room of one of the player's last tickets."""
        number = ticket_id.rpartition("-")[2]
        if ticket_id != f"{player_id}-{number}":
            return None
        found = await self._call("HGET", _player_key(player_id), f"r{number}")
        return found.decode() if found else None

    async def orders(self) -> bytes | None:
        """What operators have ordered (servicekit.orders)."""
        found = await self._call("GET", orders.KEY)
        return None if found is None else bytes(found)

    # ---- a room's queue -------------------------------------------------------------------------------------------

    async def enter(self, pointer: Pointer, entry: Entry, now_ms: int, *, create: bool) -> Ticket:
        """The ticket, put into the queue if it is new; without `create` a new one is cancelled for good instead."""
        arguments = [
            *(pointer.ticket_id, now_ms, int(create), now_ms + self._patience.lease_ms),
            *(entry.strength.near, entry.strength.also, entry.who, int(entry.reserve), self._epoch, KEEP_ENDED_S),
        ]
        return _ticket(pointer.ticket_id, pointer.room_id, await self._run("enter", pointer.room_id, arguments), now_ms)

    async def cancel(self, room_id: str, ticket_id: str, now_ms: int) -> tuple[bool, Ticket | None]:
        """Takes a waiting ticket out; whether this call did, and the ticket as it now is."""
        done, found = await self._run("cancel", room_id, [ticket_id, KEEP_ENDED_S])
        return bool(done), _ticket(ticket_id, room_id, found, now_ms) if found else None

    async def look(self, room_id: str, now_ms: int, owner: str, limit: int) -> tuple[int, list[Claim]]:
        """Claims threes for up to `limit` tickets that are due; how many were due, and the claims."""
        patience = self._patience
        arguments = [
            *(now_ms, limit, now_ms + patience.claim_ms, owner, _NEAREST, _OLDEST),
            *(patience.rematch_ms, patience.fill_ms, patience.again_ms, *self._windows),
        ]
        due, epoch, *claims = await self._run("look", room_id, arguments)
        return due, [_claim(found, epoch, inherited=False) for found in claims]

    async def matched(self, room_id: str, claim: Claim, table_id: str, news: bytes, now_ms: int) -> bool:
        """The claim's table is open, and `news` is to be told of it; whether the claim was still there."""
        arguments = ["matched", claim.claim_id, now_ms, table_id, KEEP_ENDED_S, news]
        return bool(await self._run("settle", room_id, arguments))

    async def give_back(
        self, room_id: str, claim: Claim, owner: str, now_ms: int, due_ms: int, cancelled: Sequence[str] = ()
    ) -> bool:
        """The claim's tickets wait again, as long as before, and are looked at again from `due_ms` on.

        The tickets `cancelled` of them end instead. Whether the claim was still the owner's.
        """
        lease = now_ms + self._patience.lease_ms
        arguments = ["back", claim.claim_id, now_ms, owner, lease, due_ms, KEEP_ENDED_S, *cancelled]
        return bool(await self._run("settle", room_id, arguments))

    async def renew(self, room_id: str, claim: Claim, owner: str, now_ms: int) -> bool:
        """Keeps a claim; whether it is still the owner's."""
        arguments = ["renew", claim.claim_id, now_ms, owner, now_ms + self._patience.claim_ms]
        return bool(await self._run("settle", room_id, arguments))

    async def sweep(
        self, room_id: str, now_ms: int, owner: str, limit: int, *, everything: bool = False
    ) -> tuple[list[tuple[str, str]], list[Claim]]:
        """Ends the tickets of who is gone (ticket, why), and takes over the claims of a matcher that is gone.

        With `everything` all owners are.
        """
        patience = self._patience
        gone = "+inf" if everything else now_ms
        too_long = now_ms - patience.longest_ms
        arguments = [now_ms, too_long, limit, now_ms + patience.claim_ms, owner, KEEP_ENDED_S, gone]
        ended, epoch, *claims = await self._run("sweep", room_id, arguments)
        words = [word.decode() for word in ended]
        taken = [_claim(found, epoch, inherited=True) for found in claims]
        return list(zip(words[::2], words[1::2], strict=True)), taken

    async def watch(
        self, room_id: str, ticket_ids: Sequence[str], watcher: str, now_ms: int, *, attach: bool = False
    ) -> list[Ticket | None]:
        """Keeps tickets alive for the instance `watcher`, and reads them; `attach` when it begins to watch."""
        arguments = [now_ms + self._patience.lease_ms, watcher, int(attach), *ticket_ids]
        usual, *found = await self._run("watch", room_id, arguments)
        usual_ms = max(round(float(usual)), 1) if usual else 0
        return [
            _ticket(ticket_id, room_id, answer, now_ms, usual_ms) if answer else None
            for ticket_id, answer in zip(ticket_ids, found, strict=True)
        ]

    async def leave(self, room_id: str, ticket_id: str, watcher: str, now_ms: int) -> None:
        """The instance watches no more; the ticket ends unless it is watched again in time, or elsewhere."""
        await self._run("leave", room_id, [ticket_id, watcher, now_ms + self._patience.grace_ms])

    async def untold(self, room_id: str) -> dict[str, bytes]:
        """Some of the matches that are not told yet: their news by table."""
        _, found = await self._call("HSCAN", f"{_room_key(room_id)}:made", 0, "COUNT", _UNTOLD)
        return {table.decode(): news for table, news in zip(found[::2], found[1::2], strict=True)}

    async def rooms(self, room_ids: Sequence[str]) -> list[str]:
        """All rooms that any instance has ever served, with these: those that are gone from the file too."""
        await self._call("SADD", _ROOMS, *room_ids)
        return [room.decode() for room in await self._call("SMEMBERS", _ROOMS)]

    async def told(self, room_id: str, table_ids: Sequence[str]) -> None:
        """Forgets the news of matches that are told."""
        await self._call("HDEL", f"{_room_key(room_id)}:made", *table_ids)

    async def waiting(self, room_id: str) -> int:
        """How many tickets wait, whether their owners are there or not."""
        return int(await self._call("ZCARD", f"{_room_key(room_id)}:lease"))

    async def empty(self, room_id: str) -> bool:
        """Whether no ticket waits in the room, and none is claimed."""
        key = _room_key(room_id)
        return not await self._call("EXISTS", f"{key}:lease", f"{key}:claims")

    async def _run(self, name: str, room_id: str, arguments: Sequence[Any]) -> Any:
        return await self._call("EVALSHA", _SHAS[name], 1, _room_key(room_id), *arguments)

    async def _call(self, *command: Any) -> Any:
        """Raises StoreLost when Redis stays away."""
        for _ in range(_REPEATS):
            try:
                return await self._pipe.call(*command)
            except StoreLost:
                await asyncio.sleep(_PAUSE_S)
        return await self._pipe.call(*command)


@contextlib.asynccontextmanager
async def connected(
    url: str, patience: Patience, *, epoch: str, windows: Sequence[Window] = WINDOWS
) -> AsyncIterator[Store]:
    """A store on a connection of its own; raises OSError when Redis does not answer at the start."""
    own = pipe(url)
    async with own.running():
        yield Store(own, patience, epoch=epoch, windows=windows)


def _room_key(room_id: str) -> str:
    return f"mm:{{{room_id}}}"


def _player_key(player_id: str) -> str:
    return f"mm:player:{{{player_id}}}"


def _pointer(found: Sequence[Any]) -> Pointer:
    ticket, room, at = found
    return Pointer(ticket.decode(), room.decode(), int(at))


def _claim(found: Sequence[Any], epoch: bytes, *, inherited: bool) -> Claim:
    joined_ms = tuple(int(joined) for joined in found[2::2])
    return Claim(found[0].decode(), epoch.decode(), tuple(found[1::2]), joined_ms, inherited)


def _ticket(ticket_id: str, room_id: str, found: Sequence[Any], now_ms: int, usual_ms: int = 0) -> Ticket:
    state, joined, table, position, matched = found
    joined_ms = int(joined)
    kind = _STATES[state]
    waited = (int(matched) if matched else now_ms) - joined_ms
    estimate = estimate_ms(usual_ms, waited) if kind is State.WAITING else 0
    return Ticket(ticket_id, room_id, kind, joined_ms, waited, int(position), estimate, table.decode())
