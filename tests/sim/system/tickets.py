"""The scripts of the queue (services/matchmaking/lua), modelled in Python with the same contract and the same rules.

A room's tickets, claims and untold matches; who suits whom is asked of the real rules (services/matchmaking/queue.py).
Real: everything that sends these scripts, and what is made of their answers. The scripts themselves are tested against
a real Valkey in tests/services/matchmaking. Left out, since no simulated room uses it: bots that only fill tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.matchmaking.queue import Strength, Window, fits

Row = list[Any]


@dataclass
class Ticket:
    """One ticket; `due_ms` is when to look for others next, None when it is not offered."""

    ticket_id: str
    joined_ms: int
    strength: Strength
    who: bytes
    recent: str
    state: str = "waiting"
    lease_ms: int = 0
    due_ms: int | None = 0
    table_id: str = ""
    matched_ms: str = ""
    watcher: str = ""
    absent: bool = False

    @property
    def order(self) -> tuple[int, str]:
        """By arrival."""
        return self.joined_ms, self.ticket_id

    @property
    def player_id(self) -> str:
        """Whose it is."""
        return self.ticket_id.rpartition("-")[0]


@dataclass
class Room:
    """One queue. Claims by id: (end of the lease, owner)."""

    epoch: str = ""
    tickets: dict[str, Ticket] = field(default_factory=dict)
    claims: dict[str, tuple[int, str]] = field(default_factory=dict)
    made: dict[str, bytes] = field(default_factory=dict)

    def offered(self) -> list[Ticket]:
        """Who can be found, the longest waiting first."""
        return sorted(
            (one for one in self.tickets.values() if one.state == "waiting" and one.due_ms is not None),
            key=lambda one: one.order,
        )

    def answer(self, ticket: Ticket | None) -> Row | int:
        """A ticket as callers read it."""
        if ticket is None:
            return 0
        place = 0
        if ticket.state == "waiting":
            place = 1 + sum(one.joined_ms < ticket.joined_ms for one in self.offered())
        return [
            ticket.state.encode(),
            b"%d" % ticket.joined_ms,
            ticket.table_id.encode(),
            place,
            ticket.matched_ms.encode(),
        ]


class Rooms:
    """All queues and the players' counters; `script` runs one of the scripts, `plain` a plain command."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self._players: dict[str, dict[str, Any]] = {}
        self._known: dict[str, None] = {}
        self.matched: Callable[[str, str, str], None] = lambda _room, _claim, _table: None

    def script(self, name: str, key: str, arguments: Sequence[Any]) -> Any:
        """The answer of a script."""
        if name == "allocate":
            return self._allocate(key, *arguments)
        room = self.rooms.setdefault(key, Room())
        answer = getattr(self, f"_{name}")(room, *arguments)
        if name == "settle" and answer and arguments[0] == "matched":
            self.matched(key, arguments[1], arguments[3])
        return answer

    def plain(self, name: str, arguments: Sequence[Any]) -> Any:
        """The answer of HMGET, HGET, HSCAN, HDEL, SADD, SMEMBERS or ZCARD."""
        key = arguments[0]
        match name:
            case "HMGET":
                return [self._encoded(self._players.get(key, {}).get(one)) for one in arguments[1:]]
            case "HGET":
                return self._encoded(self._players.get(key, {}).get(arguments[1]))
            case "HSCAN":
                made = self._room(key, ":made").made
                return [b"0", [part for table, news in made.items() for part in (table.encode(), news)]]
            case "HDEL":
                return sum(self._room(key, ":made").made.pop(one, None) is not None for one in arguments[1:])
            case "SADD":
                return self._known.update(dict.fromkeys(arguments[1:]))
            case "SMEMBERS":
                return [room.encode() for room in self._known]
            case "ZCARD":
                return sum(one.state == "waiting" for one in self._room(key, ":lease").tickets.values())
        raise AssertionError(f"the simulated Redis knows no {name}")

    def _room(self, key: str, suffix: str) -> Room:
        return self.rooms.setdefault(key.removesuffix(suffix), Room())

    @staticmethod
    def _encoded(value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    def _allocate(self, key: str, player: str, room_id: str, now: int, ended: str) -> Row:
        kept = self._players.setdefault(key, {"n": 0, "ticket": ""})
        if kept["ticket"] == ended:
            kept["n"] += 1
            number = kept["n"]
            kept.update({"ticket": f"{player}-{number}", "room": room_id, "at": now, f"r{number}": room_id})
            kept.pop(f"r{number - 8}", None)
        return [self._encoded(kept[one]) for one in ("ticket", "room", "at")]

    def _enter(self, room: Room, ticket_id: str, now: int, create: int, lease: int, *rest: Any) -> Row | int:
        near, also, who, _reserve, epoch, _keep = rest
        ticket = room.tickets.get(ticket_id)
        if ticket is None:
            player, _, number = ticket_id.rpartition("-")
            before = room.tickets.get(f"{player}-{int(number) - 1}")
            recent = before.recent if before is not None else ""
            ticket = room.tickets[ticket_id] = Ticket(ticket_id, now, Strength(near, also), who, recent)
            if create:
                room.epoch = room.epoch or epoch
                ticket.lease_ms = lease
            else:
                ticket.state, ticket.due_ms = "cancelled", None
        elif ticket.state == "waiting":
            ticket.lease_ms = max(ticket.lease_ms, lease)
            self._back_in_sight(ticket)
        return room.answer(ticket)

    @staticmethod
    def _back_in_sight(ticket: Ticket) -> None:
        if ticket.absent:
            ticket.absent, ticket.due_ms = False, 0

    def _cancel(self, room: Room, ticket_id: str, _keep: int) -> Row:
        ticket = room.tickets.get(ticket_id)
        done = ticket is not None and ticket.state == "waiting"
        if ticket is not None and done:
            ticket.state, ticket.due_ms = "cancelled", None
        return [int(done), room.answer(ticket) or None]

    def _leave(self, room: Room, ticket_id: str, watcher: str, lease: int) -> int:
        ticket = room.tickets.get(ticket_id)
        if ticket is None or ticket.state not in ("waiting", "claimed") or ticket.watcher != watcher:
            return 0
        ticket.absent = True
        if ticket.state == "waiting":
            ticket.due_ms, ticket.lease_ms = None, lease
        return 1

    def _watch(self, room: Room, lease: int, watcher: str, attach: int, *ticket_ids: str) -> Row:
        answers: Row = [b""]  # how long tickets usually wait is not kept: it is only shown
        for ticket_id in ticket_ids:
            ticket = room.tickets.get(ticket_id)
            if ticket is not None and ticket.state in ("waiting", "claimed"):
                absent = ticket.absent
                if attach or absent:
                    ticket.watcher, ticket.absent = watcher, False
                if ticket.state == "waiting":
                    ticket.lease_ms = max(ticket.lease_ms, lease)
                    ticket.due_ms = 0 if absent else ticket.due_ms
            answers.append(room.answer(ticket))
        return answers

    # ---- threes ---------------------------------------------------------------------------------------------------

    def _look(self, room: Room, now: int, limit: int, lease: int, owner: str, *rest: Any) -> Row:
        _nearest, _oldest, rematch, _fill, again, *bounds = rest
        windows = [Window(*bounds[start : start + 3]) for start in range(0, len(bounds), 3)]
        due = [one for one in room.offered() if one.due_ms is not None and one.due_ms <= now][:limit]
        answer: Row = [len(due), room.epoch.encode()]
        for one in due:
            if one.state != "waiting":
                continue  # claimed a moment ago by another that was due
            three = self._three_for(room, one, now, windows, rematch)
            if three is None:
                widens = (one.joined_ms + entry.age_ms for entry in windows)
                one.due_ms = next((at for at in widens if at > now), now + again)
            else:
                answer.append(self.claim(room, three, lease, owner))
        return answer

    @staticmethod
    def _three_for(
        room: Room, one: Ticket, now: int, windows: Sequence[Window], rematch: int
    ) -> tuple[Ticket, Ticket, Ticket] | None:
        others = [other for other in room.offered() if other is not one]
        oldest_ms = min((other.joined_ms for other in (one, *others)), default=now)
        may_rematch = len(others) == 2 or now - oldest_ms >= rematch
        for rematches in (False, True) if may_rematch else (False,):
            for index, first in enumerate(others):
                for second in others[index + 1 :]:
                    three = (one, first, second)
                    age = max(now - min(other.joined_ms for other in three), 0)  # the clocks of two matchers differ
                    known = any(a.player_id in b.recent.split(",") for a in three for b in three if a is not b)
                    if (rematches or not known) and fits([other.strength for other in three], age, windows):
                        return three
        return None

    def claim(self, room: Room, three: Sequence[Ticket], lease: int, owner: str) -> Row:
        """Takes three out of the queue together."""
        ordered = sorted(three, key=lambda one: one.ticket_id)
        claim_id = ",".join(one.ticket_id for one in ordered)
        for one in ordered:
            one.state, one.due_ms = "claimed", None
        room.claims[claim_id] = (lease, owner)
        return self._claimed(claim_id, ordered)

    @staticmethod
    def _claimed(claim_id: str, ordered: Sequence[Ticket]) -> Row:
        return [claim_id.encode(), *(part for one in ordered for part in (one.who, b"%d" % one.joined_ms))]

    def _settle(self, room: Room, verb: str, claim_id: str, now: int, *rest: Any) -> int:
        if claim_id not in room.claims:
            return 0
        if verb != "matched" and room.claims[claim_id][1] != rest[0]:
            return 0
        if verb == "renew":
            room.claims[claim_id] = (rest[1], rest[0])
            return 1
        del room.claims[claim_id]
        tickets = [room.tickets[ticket_id] for ticket_id in claim_id.split(",")]
        for ticket in tickets:
            if verb == "matched":
                ticket.state, ticket.table_id, ticket.matched_ms = "matched", rest[0], str(now)
                ticket.recent = ",".join(one.player_id for one in tickets)
            elif ticket.ticket_id in rest[4:]:
                ticket.state = "cancelled"
            else:
                ticket.state, ticket.lease_ms = "waiting", rest[1]
                ticket.due_ms = None if ticket.absent else rest[2]
        if verb == "matched":
            room.made[rest[0]] = rest[2]
        return 1

    def _sweep(self, room: Room, now: int, too_long: int, limit: int, lease: int, owner: str, *rest: Any) -> Row:
        gone = float(rest[1])
        ended: list[bytes] = []
        for one in list(room.tickets.values()):
            if one.state != "waiting" or len(ended) >= 2 * limit:
                continue
            why = b"gone" if one.lease_ms <= gone else b"too_long" if one.joined_ms <= too_long else b""
            if why:
                one.state, one.due_ms = "expired", None
                ended += [one.ticket_id.encode(), why]
        answer: Row = [ended, room.epoch.encode()]
        for claim_id, (until, _) in list(room.claims.items()):
            if until <= now:
                room.claims[claim_id] = (lease, owner)
                answer.append(self._claimed(claim_id, [room.tickets[one] for one in claim_id.split(",")]))
        return answer
