"""`ddz watch`: looks on at a table, live; the cards of the seat one observes are seen by its player's leave alone."""

from __future__ import annotations

import argparse
import asyncio

from ddzclient.cli import door
from ddzclient.cli.door import NoDoor
from ddzclient.cli.seat import AtTable
from ddzclient.cli.terminal import Terminal, terminal
from ddzclient.errors import ClientError
from ddzclient.session import Session
from doudizhu.refusal import Refusal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    door.configure(parser)
    door.configure_guest(parser)
    parser.add_argument("table", help="the table's id")
    parser.add_argument("--seat", type=int, choices=(0, 1, 2), help="whose observer to be (default: the first seated)")
    parser.add_argument("--code", default="", help="of a private table")
    parser.add_argument("--plain", action="store_true", help="print line by line instead of holding the screen")


def run(arguments: argparse.Namespace) -> int:
    """0 when the table has ended or the person has left, 1 when the servers have refused, 2 when out of reach."""
    try:
        return asyncio.run(_watch(arguments, terminal(plain=arguments.plain)))
    except (NoDoor, ClientError, Refusal) as error:
        return door.failed("watch", arguments, error)


async def _watch(arguments: argparse.Namespace, screen: Terminal) -> int:
    key = door.device_key(arguments.server, arguments.guest)
    async with door.gateway(arguments) as gateway:
        session = await Session.guest(gateway, key)
        await _observe(session, arguments)
        async with screen.working(), session.table(arguments.table) as table:
            said = await AtTable(session, table, screen, arguments.code).run()
    screen.console.print(said, markup=False)
    return 0


async def _observe(session: Session, arguments: argparse.Namespace) -> None:
    """Becomes the observer of the seat asked for, or of the first that is taken. Raises Refusal."""
    seats = (0, 1, 2) if arguments.seat is None else (arguments.seat,)
    for seat in seats:
        try:
            await session.observe(arguments.table, seat, arguments.code)
        except Refusal:
            if seat == seats[-1]:
                raise
        else:
            return
