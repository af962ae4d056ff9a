"""Records of hands, by their outcome alone."""

from __future__ import annotations

from collections.abc import Sequence

from ddz.common.v1 import common_pb2, hand_pb2

SIDES = {"landlord": hand_pb2.SIDE_LANDLORD, "farmers": hand_pb2.SIDE_FARMERS}


def record(
    hand_id: str,
    players: Sequence[str],
    *,
    book: str = "rob",
    base: int = 10,
    rake: int = 0,
    winner: str | None = None,
    landlord: int | None = None,
    level: int = 1,
    multiplier: int = 1,
    fled: int | None = None,
    flee_multiplier: int = 0,
    elapsed_s: int = 90,
) -> hand_pb2.HandRecord:
    """The record of a hand that ended like this."""
    outcome = hand_pb2.Outcome(
        winner=SIDES[winner] if winner else hand_pb2.SIDE_UNSPECIFIED,
        landlord=landlord,
        level=level,
        multiplier=multiplier,
        fled=fled,
        flee_multiplier=flee_multiplier,
        elapsed_s=elapsed_s,
    )
    terms = common_pb2.Terms(
        room_id="room",
        book=book,
        base_min_chips=base,
        base_max_chips=base,
        initial_multiplier=1,
        rake_chips=rake,
        clocks=common_pb2.Clocks(),
    )
    return hand_pb2.HandRecord(
        hand_id=hand_id,
        table_id="table",
        record_version=1,
        terms=terms,
        base_chips=base,
        players=[common_pb2.Player(player_id=player_id) for player_id in players],
        outcome=outcome,
        started_at_ms=1_000,
        ended_at_ms=91_000,
    )
