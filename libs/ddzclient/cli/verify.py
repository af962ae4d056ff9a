"""`ddz verify`: computes a recorded hand again and says what does not agree."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from pathlib import Path

from google.protobuf import json_format

from ddz.common.v1.hand_pb2 import HandRecord
from ddz.ledger.v1.ledger_pb2 import GetHandResponse
from ddzclient.client import Gateway
from ddzclient.errors import ClientError
from ddzclient.session import Session
from ddzclient.verify import verify
from doudizhu.refusal import Refusal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("hand", nargs="+", help="a hand's id, or the JSON file of a record (- for standard input)")
    parser.add_argument("--gateway", default="127.0.0.1:8080", metavar="HOST:PORT", help="where hands are asked for")
    parser.add_argument("--device-key", default="", metavar="KEY", help="of the guest who asks; default: a new guest")
    parser.add_argument("--tls", action="store_true", help="the gateway speaks TLS")


def run(arguments: argparse.Namespace) -> int:
    """0 when every hand agrees with its record, 1 when one does not, 2 when one could not be read."""
    status = 0
    for name in arguments.hand:
        try:
            hand = _read(name) if name == "-" or Path(name).is_file() else asyncio.run(_fetch(name, arguments))
        except (OSError, UnicodeDecodeError, json_format.ParseError, Refusal, ClientError) as unread:
            print(f"{name}: cannot be read: {unread}", file=sys.stderr)
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


def _read(name: str) -> GetHandResponse:
    """A record alone, or with its settlement as the ledger's GetHand answers it."""
    text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    try:
        return json_format.Parse(text, GetHandResponse())
    except json_format.ParseError:
        return GetHandResponse(record=json_format.Parse(text, HandRecord()))


async def _fetch(hand_id: str, arguments: argparse.Namespace) -> GetHandResponse:
    """Records are open to everybody who is logged in."""
    async with Gateway(arguments.gateway, tls=arguments.tls) as gateway:
        session = await Session.guest(gateway, arguments.device_key or secrets.token_hex(16))
        return await session.hand(hand_id)
