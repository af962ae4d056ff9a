"""`ddz verify`: computes a recorded hand again and says what does not agree."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
from pathlib import Path

from google.protobuf import json_format

from ddz.common.v1.hand_pb2 import HandRecord
from ddz.ledger.v1.ledger_pb2 import GetHandResponse
from ddzclient.client import LOCAL_GATEWAY, Gateway
from ddzclient.errors import ClientError
from ddzclient.session import Session
from ddzclient.verify import verify
from doudizhu.refusal import Refusal


class Unreadable(Exception):
    """What was given is no record; the message says why."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("hand", nargs="+", help="a hand's id, or the JSON file of a record (- for standard input)")
    parser.add_argument(
        "--gateway",
        default=LOCAL_GATEWAY,
        metavar="HOST:PORT",
        help=f"where hands are asked for (default {LOCAL_GATEWAY})",
    )
    parser.add_argument("--device-key", default="", metavar="KEY", help="of the guest who asks; default: a new guest")
    parser.add_argument("--tls", action="store_true", help="the gateway speaks TLS")


def run(arguments: argparse.Namespace) -> int:
    """0 when every hand agrees with its record, 1 when one does not, 2 when one could not be read."""
    status = 0
    for name in arguments.hand:
        try:
            hand = _read(name) if _is_file(name) else asyncio.run(_fetch(name, arguments))
        except (OSError, Unreadable, Refusal, ClientError) as unread:
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


def _is_file(name: str) -> bool:
    """Whether the argument means a file, there or not; the id of a hand has no slash, and does not end so."""
    return name == "-" or "/" in name or name.endswith(".json") or Path(name).is_file()


def _read(name: str) -> GetHandResponse:
    """A record alone, or with its settlement as the ledger's GetHand answers it."""
    if name == "-" and sys.stdin is None:
        raise Unreadable("there is no standard input")
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON") from None
    if not isinstance(fields, dict):
        raise Unreadable("it is not a JSON object")
    try:
        if "record" in fields:
            return json_format.ParseDict(fields, GetHandResponse())
        return GetHandResponse(record=json_format.ParseDict(fields, HandRecord()))
    except (json_format.ParseError, RecursionError) as other:
        raise Unreadable(f"it is no record of a hand: {other}") from None


async def _fetch(hand_id: str, arguments: argparse.Namespace) -> GetHandResponse:
    """Records are open to everybody who is logged in."""
    async with Gateway(arguments.gateway, tls=arguments.tls) as gateway:
        session = await Session.guest(gateway, arguments.device_key or secrets.token_hex(16))
        return await session.hand(hand_id)
