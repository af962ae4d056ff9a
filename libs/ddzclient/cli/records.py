"""A recorded hand by its id or from a file, for the commands that read one."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

from google.protobuf import json_format

from ddz.common.v1.hand_pb2 import HandRecord
from ddz.ledger.v1.ledger_pb2 import GetHandResponse
from ddzclient.cli import door
from ddzclient.session import Session


class Unreadable(Exception):
    """What was given is no record; the message says why."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say where hands are asked for, and by whom."""
    door.configure(parser)
    parser.add_argument("--device-key", default="", metavar="KEY", help="of the guest who asks; default: a new guest")


async def load(name: str, arguments: argparse.Namespace) -> GetHandResponse:
    """A hand with its settlement if there is one. Raises OSError, Unreadable, NoDoor, Refusal, ClientError."""
    return _read(name) if _is_file(name) else await _fetch(name, arguments)


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
    async with door.gateway(arguments) as gateway:
        session = await Session.guest(gateway, arguments.device_key or secrets.token_hex(16))
        return await session.hand(hand_id)
