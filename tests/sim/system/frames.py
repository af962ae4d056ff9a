"""What a frame says, read once for all who get the same bytes: events, their cards, the clock, answers.

Cards are sets of bits: card n is 1 << n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ddz.table.v1 import events_pb2, table_pb2

Clock = tuple[int, int, int]  # phase, seat, deadline in ms


def mask_of(cards: Iterable[int]) -> int:
    """A set of cards."""
    mask = 0
    for card in cards:
        mask |= 1 << card
    return mask


@dataclass(frozen=True, slots=True)
class Told:
    """One event as it was told."""

    seq: int
    name: str
    cards: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame. `clock` is that after its last event; `accepted` are (command id, event number)."""

    kind: str
    events: tuple[Told, ...] = ()
    clock: Clock | None = None
    accepted: tuple[tuple[str, int], ...] = ()
    snapshot: events_pb2.Snapshot | None = None
    why: str = ""


# Every message of the contract that can name a card, and where; tests/services/table/test_leaks.py keeps the list.
_CARDS: Final[dict[str, Callable[[Any], Iterable[int]]]] = {
    "played": lambda body: body.combo.cards,
    "shown": lambda body: body.cards,
    "landlord_set": lambda body: body.bottom,
    "dealt": lambda body: _dealt(body),
    "hand_won": lambda body: (card for seat in body.hands for card in seat.cards),
}


def _dealt(body: events_pb2.Dealt) -> Iterable[int]:
    yield from (card for seat in body.hands for card in seat.cards)
    yield from body.bottom
    if body.HasField("marked_card"):
        yield body.marked_card


def _told(event: events_pb2.Event) -> Told:
    name = event.WhichOneof("event") or ""
    find = _CARDS.get(name)
    return Told(event.seq, name, mask_of(find(getattr(event, name))) if find else 0)


def cards_of_snapshot(snapshot: events_pb2.Snapshot) -> int:
    """Every card that a snapshot names."""
    cards = [card for seat in snapshot.seats for card in seat.cards.cards]
    cards += snapshot.bottom
    cards += snapshot.on_table.cards
    cards += [card for event in snapshot.trick for card in event.played.combo.cards]
    if snapshot.HasField("marked_card"):
        cards.append(snapshot.marked_card)
    return mask_of(cards)


@lru_cache(maxsize=512)
def read(raw: bytes) -> Frame:
    """The frame that these bytes are."""
    message = table_pb2.PlayResponse.FromString(raw)
    kind = message.WhichOneof("frame") or ""
    if kind == "events":
        events = message.events
        last = events.events[-1].clock if events.events else None
        return Frame(
            kind,
            events=tuple(_told(event) for event in events.events),
            clock=None if last is None else (last.phase, last.seat, last.deadline_ms),
            accepted=tuple((one.command_id, one.seq) for one in events.accepted),
        )
    if kind == "snapshot":
        clock = message.snapshot.clock
        return Frame(kind, clock=(clock.phase, clock.seat, clock.deadline_ms), snapshot=message.snapshot)
    if kind == "accepted":
        return Frame(kind, accepted=((message.accepted.command_id, message.accepted.seq),))
    return Frame(kind, why=message.goodbye.why if kind == "goodbye" else "")
