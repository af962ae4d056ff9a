"""`ddz bots`: bots that wait in rooms to fill tables where too few people come, until they are stopped."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from ddzclient import house
from ddzclient.cli import door
from ddzclient.cli.door import NoDoor
from ddzclient.errors import ClientError
from doudizhu.refusal import Refusal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    door.configure(parser)
    parser.add_argument("--each", type=_count, default=2, metavar="N", help="how many in each room (default 2)")
    parser.add_argument(
        "--room", action="append", default=[], metavar="ROOM",
        help="wait in this room; may be given again (default: every room that new accounts may enter)",
    )  # fmt: skip


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= 1000):
        raise argparse.ArgumentTypeError("a number from 1 to 1000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """0 when it was stopped, 1 when the servers refuse, 2 when they cannot be reached or allow no bots."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(_keep(arguments))
    except KeyboardInterrupt:
        pass
    except (NoDoor, ClientError, Refusal) as error:
        return door.failed("bots", arguments, error)
    return 0


async def _keep(arguments: argparse.Namespace) -> None:
    secret = door.device_key(arguments.server, "house").encode()
    async with door.gateway(arguments) as gateway:
        await house.keep(gateway, secret, arguments.each, arguments.room, say=_say)


def _say(what: str) -> None:
    print(f"ddz bots: {what}", file=sys.stderr, flush=True)
