"""`ddz play`: a seat at a table in the terminal, from the choice of a room to the points."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from rich.console import RenderableType

from ddz.table.v1 import events_pb2
from ddz.table.v1.table_pb2 import GetTableRequest
from ddzclient.cli import door, menu
from ddzclient.cli.door import NoDoor
from ddzclient.cli.seat import AtTable
from ddzclient.cli.terminal import Terminal, terminal
from ddzclient.errors import ClientError
from ddzclient.player import Player
from ddzclient.session import Session
from doudizhu.refusal import Refusal

_ANY = "any"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    door.configure(parser)
    door.configure_guest(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--room", metavar="ROOM", help="queue for this room at once, such as rob-beginner")
    where.add_argument(
        "--quick", nargs="?", const=_ANY, metavar="BOOK", help="queue for the best room, of classic, happy, rob or any"
    )
    where.add_argument("--table", metavar="TABLE", help="sit down at this table, or come back to it")
    parser.add_argument("--code", default="", help="of a private table, with --table")
    parser.add_argument("--auto", action="store_true", help="a bot answers for you")
    parser.add_argument("--hands", type=_hands, default=0, metavar="N", help="with --auto: leave after so many hands")
    parser.add_argument("--plain", action="store_true", help="print line by line instead of holding the screen")


def _hands(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 9):
        raise argparse.ArgumentTypeError("a number of hands")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """0 when the person has left as he wanted, 1 when the servers have refused, 2 when they cannot be reached."""
    if arguments.hands and not arguments.auto:
        print("ddz play: --hands goes with --auto.", file=sys.stderr)
        return 2
    try:
        return asyncio.run(_play(arguments, terminal(plain=arguments.plain)))
    except (NoDoor, ClientError, Refusal) as error:
        return door.failed("play", arguments, error)


async def _play(arguments: argparse.Namespace, screen: Terminal) -> int:
    key = door.device_key(arguments.server, arguments.guest)
    async with door.gateway(arguments) as gateway:
        session = await Session.guest(gateway, key)
        said: list[RenderableType] = []
        async with screen.working():
            while table_id := await _table(arguments, session, screen, said):
                async with session.table(table_id) as table:
                    seat = AtTable(session, table, screen)
                    said = [await seat.run(Player() if arguments.auto else None, arguments.hands)]
                if (points := seat.last_result()) is not None and not screen.plain:
                    said = [points, *said]
                if arguments.room or arguments.quick or arguments.table or arguments.auto or seat.quit:
                    break
            else:
                said = [] if screen.plain else said  # lines stay where the menu has printed them
        for sentence in said:
            screen.console.print(sentence, markup=False)
    return 0


async def _table(
    arguments: argparse.Namespace, session: Session, screen: Terminal, said: Sequence[RenderableType]
) -> str | None:
    """The table to go to; None when the person wants none. `said`: how the one before ended."""
    if arguments.table:
        if (await session.profile()).table_id != arguments.table:
            await session.sit(arguments.table, code=arguments.code)
        return str(arguments.table)
    if (left := (await session.profile()).table_id) and await _still_there(session, left):
        return left
    if arguments.room:
        return await menu.find(session, screen, arguments.room, patient=arguments.auto)
    if arguments.quick:
        book = "" if arguments.quick == _ANY else arguments.quick
        return await menu.find(session, screen, "", book, patient=arguments.auto)
    return await menu.choose(session, screen, said)


async def _still_there(session: Session, table_id: str) -> bool:
    """Whether the person has a seat at a table that the lobby remembers him at."""
    try:
        request = GetTableRequest(table_id=table_id)
        state = (await session.call(session.gateway.table.GetTable, request, table_id=table_id)).snapshot
    except Refusal:
        return False
    return state.you >= 0 and not state.observing and state.clock.phase != events_pb2.PHASE_CLOSED
