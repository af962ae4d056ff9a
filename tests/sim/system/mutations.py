"""Faults planted on purpose, one at a time, in the code under simulation: the auditor must find each.

A mutation replaces functions while it lasts: (where, name, what stands there instead, given what stood there).
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import doudizhu
import servicekit.seats
import services.ledger.grants
import services.ledger.ledger
import services.ledger.relay
import services.table.actor
import services.table.clocks
import services.table.hands
import services.table.log
import services.table.node
import services.table.replica
import services.table.views
import services.table.wire_commands
from doudizhu.hand import Dealt
from doudizhu.hand import Phase as HandPhase
from services.table import life, log, wire
from services.table.table import Phase, Stage
from tests.sim.system.lobby_store import StatisticsPool
from tests.sim.system.postgres import Postgres
from tests.sim.system.redis import Redis
from tests.sim.system.tickets import Rooms

Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutation:
    """`name` says what is wrong; `found_as` is a part of what the auditor says of it."""

    name: str
    found_as: str
    changes: tuple[tuple[Any, str, Make], ...]
    seed: int = 1  # where it is found soon

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """While it lasts the code is wrong."""
        before = [(where, name, where.__dict__[name]) for where, name, _ in self.changes]
        for where, name, make in self.changes:
            setattr(where, name, make(getattr(where, name)))
        try:
            yield
        finally:
            for where, name, original in before:
                setattr(where, name, original)


def _always(_original: Any) -> Any:
    return staticmethod(lambda *_: True)


def _yes(_original: Any) -> Any:
    return lambda *_: True


# ---- the table ------------------------------------------------------------------------------------------------------


def _leaking(original: Any) -> Any:
    """Everybody is dealt the first card of the seat before his, besides his own."""

    def view_event(event: Any, viewer: int | None) -> Any:
        seen = original(event, viewer)
        if not isinstance(event, Dealt) or viewer is None:
            return seen
        hands = list(seen.hands)
        hands[viewer - 1] = (event.hands[viewer - 1] or ())[:1]
        return replace(seen, hands=tuple(hands))

    return view_event


def _without_leave(original: Any) -> Any:
    """Whoever observes a seat sees its cards, whether its player allows it or not."""
    return lambda seat, observing, sees: original(seat, observing, seat if observing else sees)


def _known_actor(original: Any) -> Any:
    def init(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        self._replica.of = self

    return init


def _pushing_first(original: Any) -> Any:
    async def append(self: Any, key: Any, stamped: Any, after: Any, shown: Any, *rest: Any) -> Any:
        actor = getattr(self, "of", None)
        if actor is not None:
            entry = log.Entry(key, stamped, [wire.event_to(one, shown) for one in stamped])
            actor.audience.push(services.table.replica.Change(self.table, after, entry), self.epoch)
        return await original(self, key, stamped, after, shown, *rest)

    return append


def _twice(original: Any) -> Any:
    def expire(draft: Any) -> None:
        original(draft)
        hand = draft.table.hand
        if draft.table.stage is Stage.HAND and hand.phase is HandPhase.PLAY:
            original(draft)

    return expire


def _short(original: Any) -> Any:
    """Every wait but that for a turn ends 100 ms early."""

    def phase_deadline(table: Any, phase: Any) -> Any:
        deadline = original(table, phase)
        return deadline - 100 if deadline and phase in (Phase.SEED, Phase.SHOW_WINDOW, Phase.COUNTDOWN) else deadline

    return phase_deadline


def _throwing_away(original: Any) -> Any:
    """One in twenty commands of live hands is answered, and that is all."""

    def command_from(table: Any, player_id: str, command: Any) -> Any:
        drawn = zlib.crc32(f"{player_id} {command.command_id}".encode()) % 20
        return None if not drawn and table.stage is Stage.HAND else original(table, player_id, command)

    return command_from


def _telling_nobody(_original: Any) -> Any:
    """The end of a stream is no news to the table."""
    return lambda _self, actor, stream: actor.audience.detach(stream)


def _settling_voids(original: Any) -> Any:
    async def bring_about(self: Any, effect: Any, actor: Any) -> Any:
        if isinstance(effect, life.VoidHand) and actor.table.last_outcome is not None:
            effect = life.SettleHand(effect.hand_id, actor.table.hand_seq)
        return await original(self, effect, actor)

    return bring_about


def _forgetting_the_base(original: Any) -> Any:
    def checkpoint_to(table: Any) -> Any:
        message = original(table)
        message.base_chips = 0
        return message

    return checkpoint_to


# ---- the ledger -----------------------------------------------------------------------------------------------------


def _as_if_open(original: Any) -> Any:
    def settle_hand(request: Any, hand: Any, players: Any, at_ms: int) -> Any:
        return original(request, None if hand is None else hand._replace(end=None), players, at_ms)

    return settle_hand


def _as_if_new(original: Any) -> Any:
    return lambda request, _known, player: original(request, None, player)


def _as_if_free(original: Any) -> Any:
    return lambda request, hand, players, _seated: original(request, hand, players, {})


def _nowhere(_original: Any) -> Any:
    async def table_of(_self: Any, _player: Any) -> str:
        return ""

    return table_of


def _not_waiting(_original: Any) -> Any:
    async def send(self: Any, rows: Any) -> list[int]:
        for row in rows:
            headers = {"Nats-Msg-Id": row["key"]}
            reply = f"{self._inbox}.{row['outbox_id']}"
            await self._bus.publish(row["subject"], row["payload"], reply=reply, headers=headers)
        return [row["outbox_id"] for row in rows]

    return send


# ---- the queue ------------------------------------------------------------------------------------------------------


def _still_waiting(original: Any) -> Any:
    def claim(self: Any, room: Any, three: Any, lease: int, owner: str) -> Any:
        found = original(self, room, three, lease, owner)
        for ticket in three:
            ticket.state, ticket.due_ms = "waiting", 0
        return found

    return claim


MUTATIONS: Final = (
    Mutation(
        "an append without the version check",
        "has a gap",
        ((Redis, "may_append", _always),),
    ),
    Mutation(
        "a settlement without its key",
        "settled",
        ((services.ledger.ledger, "settle_hand", _as_if_open), (Postgres, "may_end", _always)),
        seed=2,
    ),
    Mutation(
        "a view that leaks one card",
        "is told the cards",
        ((doudizhu, "view_event", _leaking),),
    ),
    Mutation(
        "a viewer that does not ask for a seat's leave",
        "is told the cards",
        ((services.table.views, "Viewer", _without_leave),),
    ),
    Mutation(
        "a push before the append",
        "which is not in the log",
        (
            (services.table.actor.Actor, "__init__", _known_actor),
            (services.table.replica.Replica, "append", _pushing_first),
        ),
    ),
    Mutation(
        "a deadline that acts twice",
        "before its deadline",
        ((services.table.hands, "expire", _twice),),
    ),
    Mutation(
        "waits that are too short",
        "before its deadline",
        ((services.table.clocks, "_phase_deadline", _short),),
    ),
    Mutation(
        "a trustee after one time-out",
        "after 1 time-outs",
        ((services.table.hands, "MISSES", lambda _original: 1),),
        seed=2,
    ),
    Mutation(
        "an outbox row that is deleted before the acknowledgement",
        "has never arrived",
        ((services.ledger.relay.Publisher, "send", _not_waiting),),
        seed=9,
    ),
    Mutation(
        "a repeated command that acts again",
        "has acted twice",
        ((services.table.log.Answers, "get", lambda _original: lambda _self, _key: None),),
    ),
    Mutation(
        "a command that is acknowledged and thrown away",
        "and was thrown away",
        ((services.table.wire_commands, "command_from", _throwing_away),),
    ),
    Mutation(
        "the end of a stream that its table is not told of",
        "by what he lost",
        ((services.table.node.Node, "detach", _telling_nobody),),
        seed=21,
    ),
    Mutation(
        "a void hand that is settled",
        "is settled as",
        ((services.table.node.Node, "bring_about", _settling_voids),),
    ),
    Mutation(
        "a grant that is not idempotent",
        "sign-up chips twice",
        ((services.ledger.grants, "grant", _as_if_new), (Postgres, "may_give", _yes)),
    ),
    Mutation(
        "a ticket that is claimed twice",
        "leads to",
        ((Rooms, "claim", _still_waiting),),
        seed=54,
    ),
    Mutation(
        "a player in two hands at once",
        " and in ",
        (
            (services.ledger.ledger, "open_hand", _as_if_free),
            (Postgres, "may_sit", _yes),
            (servicekit.seats.Seats, "table_of", _nowhere),  # what is before the ledger is too good to meet it often
        ),
    ),
    Mutation(
        "a table of a dead node that nobody takes up",
        "slept through a deadline",
        ((Redis, "claim", lambda _original: lambda *_: []),),
        seed=202,
    ),
    Mutation(
        "news that count twice",
        "statistics",
        ((StatisticsPool, "is_new", _yes),),
    ),
    Mutation(
        "a checkpoint that forgets the base",
        "than its log",
        ((services.table.log, "checkpoint_to", _forgetting_the_base),),
    ),
)
