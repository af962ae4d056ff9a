"""The rooms of a run: one for each rule book, with clocks and terms that differ from seed to seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from doudizhu import Refusal

SIGNUP_CHIPS: Final = 2_000
CLASSIC: Final = "classic-sim"
HAPPY: Final = "happy-sim"
ROB: Final = "rob-sim"


class SimRooms:
    """In the place of servicekit.rooms.Rooms, whose rooms come from a file that may change."""

    def __init__(self, rooms: list[lobby_pb2.Room]) -> None:
        self._rooms = {room.room_id: room for room in rooms}

    def all(self) -> tuple[lobby_pb2.Room, ...]:
        """Every room."""
        return tuple(self._rooms.values())

    def __contains__(self, room_id: str) -> bool:
        return room_id in self._rooms

    def get(self, room_id: str) -> lobby_pb2.Room:
        """One room; raises NOT_FOUND."""
        if room_id not in self._rooms:
            raise Refusal("NOT_FOUND", f"There is no room {room_id}.", field="room_id")
        return self._rooms[room_id]

    def matched(self) -> SimRooms:
        """Those that are filled by matchmaking."""
        return SimRooms([room for room in self.all() if room.terms.matched])

    async def follow(self, _changed: Callable[[], None]) -> None:
        """These never change."""
        await asyncio.get_running_loop().create_future()


def rooms_of(rng: random.Random) -> SimRooms:
    """Three rooms; short clocks, for what happens between two acts is the same whatever they last."""
    return SimRooms([_room(rng, CLASSIC, 1, 40, 0), _room(rng, HAPPY, 10, 10, 0), _room(rng, ROB, 10, 10, 3)])


def _room(rng: random.Random, room_id: str, least: int, most: int, rake: int) -> lobby_pb2.Room:
    matched = rake > 0
    clocks = common_pb2.Clocks(
        base_ms=4_000,
        agree_ms=4_000,
        auction_ms=3_000,
        show_window_ms=rng.choice((0, 400)),
        show_ms=1_500,
        first_lead_ms=4_000,
        play_ms=3_000,
        trustee_ms=200,
        countdown_ms=1_000,
        seed_ms=rng.choice((0, 400)),
        away_ms=rng.choice((0, 0, 8_000)),
    )
    terms = common_pb2.Terms(
        room_id=room_id,
        book=room_id.partition("-")[0],
        base_min_chips=least,
        base_max_chips=most,
        initial_multiplier=rng.choice((1, 2)) if matched else 1,
        rake_chips=rake,
        minimum_chips=20,
        clocks=clocks,
        matched=matched,
    )
    seating = lobby_pb2.SEATING_MATCHED if matched else lobby_pb2.SEATING_BY_CHOICE
    return lobby_pb2.Room(room_id=room_id, name_zh=room_id, name_en=room_id, terms=terms, seating=seating)
