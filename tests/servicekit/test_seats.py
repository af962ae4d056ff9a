"""Where players sit, as tables report it: what a closed table says of those who were left at it."""

from __future__ import annotations

from typing import Any, cast

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from servicekit.seats import CLOSED, Seats


def test_who_was_left_at_a_table_that_closed_sits_nowhere() -> None:
    seats = Seats(cast(Any, None))
    players = [common_pb2.Player(player_id=f"p{number}") for number in range(1, 4)]
    seats.report(lobby_pb2.TableSummary(table_id="m1", phase="play", players=players))
    assert seats.hint("p1") == "m1"
    seats.report(lobby_pb2.TableSummary(table_id="m1", phase=CLOSED, players=players[:2]))
    assert [seats.hint(player.player_id) for player in players] == ["", "", ""]
