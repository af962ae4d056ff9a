"""`ddz verify`: computes a recorded hand again and says what does not agree."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ddzclient.cli import records
from ddzclient.cli.door import NoDoor
from ddzclient.cli.records import Unreadable
from ddzclient.errors import ClientError
from ddzclient.verify import verify
from doudizhu.refusal import Refusal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("hand", nargs="+", help="a hand's id, or the JSON file of a record (- for standard input)")
    records.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 when every hand agrees with its record, 1 when one does not, 2 when one could not be read."""
    status = 0
    for name in arguments.hand:
        try:
            hand = asyncio.run(records.load(name, arguments))
        except (OSError, Unreadable, NoDoor, Refusal, ClientError) as unread:
            why = unread.strerror if isinstance(unread, OSError) else unread
            print(f"{name}: cannot be read: {why}", file=sys.stderr)
            status = 2
            continue
        settlement = hand.settlement if hand.HasField("settlement") else None
        differences = verify(hand.record, settlement)
        for sentence in differences:
            print(f"{hand.record.hand_id}: {sentence}")
        if differences:
            status = max(status, 1)
            continue
        computed = "deal, play, result and settlement" if settlement is not None else "deal, play and result"
        print(f"{hand.record.hand_id}: {computed} are right ({len(hand.record.actions)} actions)")
    return status
