"""Commands of people: protobuf -> what the table is asked (part of wire.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ddz.table.v1 import table_pb2
from doudizhu.cards import parse_ranks
from doudizhu.hand import Bid, Call, Pass, Play, Rob, Show
from services.table import commands
from services.table.life import seat_or_refuse
from services.table.table import Table

_ACTIONS: Final[dict[str, Callable[[int, Any], commands.SeatAction]]] = {
    "set_base": lambda _, body: commands.SetBase(body.base_chips),
    "answer_base": lambda _, body: commands.AnswerBase(body.agree),
    "ready": lambda _, body: commands.Ready(body.ready),
    "trustee": lambda _, body: commands.SetTrustee(body.on),
    "allow_observers": lambda _, body: commands.AllowObservers(body.allow),
    "give_seed": lambda _, body: commands.GiveSeed(body.seed),
    "bid": lambda seat, body: Bid(seat, body.level),
    "call": lambda seat, body: Call(seat, body.call),
    "rob": lambda seat, body: Rob(seat, body.rob),
    "show": lambda seat, body: Show(seat, body.show),
    "pass": lambda seat, _: Pass(seat),
    "play": lambda seat, body: Play(seat, tuple(body.cards), body.type or None, _rank(body.rank)),
}


def command_from(table: Table, player_id: str, command: table_pb2.Command) -> commands.Command:
    """What this person asks of this table; raises NOT_A_PLAYER, and Malformed for a rank that is none."""
    name = command.WhichOneof("action")
    assert name is not None, "validated before"
    if name == "leave":
        return commands.Leave(player_id)
    seat = seat_or_refuse(table, player_id)
    return commands.Act(seat, _ACTIONS[name](seat, getattr(command, name)))


def _rank(text: str) -> int | None:
    return parse_ranks(text)[0] if text else None
