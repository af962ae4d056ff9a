"""The verbs of `ddz admin` that go through the gateway, by an operator's log-in; each act is written down there."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

from google.protobuf.json_format import MessageToJson

from ddz.admin.v1 import admin_pb2
from ddzclient.cli import door
from ddzclient.cli.words import plain
from ddzclient.errors import ClientError, is_transient
from ddzclient.session import Session
from doudizhu.refusal import Refusal

NAME: Final = "DDZ_OPERATOR"
PASSWORD: Final = "DDZ_OPERATOR_PASSWORD"
_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400}
_PLAYER: Final = ("player_id", "such as p17; a profile shows it")
_TABLE: Final = ("table_id", "such as t0a1b2…; a lobby shows it")
_NODE: Final = ("node_id", "as `ddz admin nodes` lists it")
_PAGE: Final = 50

Run = Callable[[argparse.Namespace, Session], Awaitable[None]]


class NoOperator(Exception):
    """Nobody to log in as; the sentence says what to give."""


def _until(text: str) -> int:
    """An end in milliseconds since the epoch, of 7d, 12h, 30m, or a date with or without a time, UTC unless it says."""
    if part := re.fullmatch(r"(\d{1,5})([mhd])", text):
        return round((time.time() + int(part[1]) * _UNITS_S[part[2]]) * 1000)
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("an end is 30m, 12h, 7d, 2027-01-31 or 2027-01-31T18:00+08:00") from None
    return round((end if end.tzinfo else datetime.fromisoformat(f"{end.isoformat()}+00:00")).timestamp() * 1000)


def configure(verbs: Any) -> None:
    """Adds the verbs and their arguments."""
    _act(verbs, "drain", "a table node takes no new tables, and its players go on at another", _NODE)
    _act(verbs, "undrain", "a drained node takes tables again", _NODE)
    _verb(verbs, "nodes", "the table nodes that answer")
    closing = _act(verbs, "maintenance", "close the system with a message to all, or open it")
    closing.add_argument("state", choices=("on", "off"))
    closing.add_argument("--message", default="", help="what everybody is told; needed to close")
    _act(verbs, "void-table", "end a table: its live hand is void, nobody pays", _TABLE)
    log = _verb(verbs, "log", "the events of a table as JSON lines, without the cards of a live hand", _TABLE)
    log.add_argument("--after", type=int, default=0, metavar="SEQ", help="only events behind this number")
    mute = _act(verbs, "mute", "everybody sees a neutral name in the place of a player's", _PLAYER)
    mute.add_argument("--until", type=_until, required=True, metavar="END", help="30m, 12h, 7d or a date")
    _act(verbs, "unmute", "end a mute before its time", _PLAYER)
    ban = _act(verbs, "ban", "a player cannot log in, sit down or queue", _PLAYER)
    ban.add_argument(
        "--until", type=_until, default=0, metavar="END", help="30m, 12h, 7d or a date (default: for ever)"
    )
    _act(verbs, "unban", "end a ban before its time", _PLAYER)
    grant = _act(verbs, "grant", "give a player chips, once", _PLAYER)
    grant.add_argument("chips", type=int)
    _act(verbs, "rooms", "every process reads the rooms file now, and says what it has")
    acts = _verb(verbs, "acts", "what operators have done, the newest first")
    acts.add_argument("--pages", type=int, default=1, help=f"how many pages of {_PAGE} (default 1)")


def configure_act(parser: argparse.ArgumentParser) -> None:
    """Adds who does an act, why, and under which id."""
    configure_operator(parser)
    parser.add_argument("--reason", required=True, help="for the record")
    parser.add_argument("--act-id", default="", help="the same id again does nothing twice (default: a new one)")


def configure_operator(parser: argparse.ArgumentParser) -> None:
    """Adds where the server is, and who logs in."""
    door.configure(parser)
    parser.add_argument(
        "--name", default=os.environ.get(NAME, ""),
        help=f"the operator's log-in (default: {NAME}); the password is asked for, or taken from {PASSWORD}",
    )  # fmt: skip


def _verb(verbs: Any, name: str, what: str, *positional: tuple[str, str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
    configure_operator(parser)
    for argument, meaning in positional:
        parser.add_argument(argument, help=meaning)
    return parser


def _act(verbs: Any, name: str, what: str, *positional: tuple[str, str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
    configure_act(parser)
    for argument, meaning in positional:
        parser.add_argument(argument, help=meaning)
    return parser


async def run(arguments: argparse.Namespace) -> int:
    """Logs in and does the verb. Raises NoOperator, NoDoor, Refusal, ClientError; of an act in doubt with a note of
    how to repeat it.
    """
    if not arguments.name:
        raise NoOperator(f"Who are you? Give --name, or set {NAME}.")
    async with door.gateway(arguments) as gateway:
        session = await Session.log_in(gateway, arguments.name, _password(arguments.name))
        if "act_id" in arguments and not arguments.act_id:
            arguments.act_id = uuid.uuid4().hex
        try:
            await RUNS[arguments.verb](arguments, session)
        except (ClientError, Refusal) as error:
            if "act_id" in arguments and is_in_doubt(error):
                error.add_note(
                    f"It may have been done. Repeated with --act-id {arguments.act_id} it is not done twice."
                )
            raise
    return 0


def is_in_doubt(error: ClientError | Refusal) -> bool:
    """Whether an act that ended so may have been done, or may yet be: its final answer is another one."""
    return isinstance(error, ClientError) or is_transient(error)


def _password(name: str) -> str:
    """From the environment or the terminal; never an argument, which every process of the machine can read."""
    if password := os.environ.get(PASSWORD):
        return password
    if sys.stdin is None or not sys.stdin.isatty():
        raise NoOperator(f"There is no terminal to ask for the password: set {PASSWORD}.")
    return getpass.getpass(f"Password of {name}: ")


def _by(arguments: argparse.Namespace) -> dict[str, str]:
    return {"act_id": arguments.act_id, "reason": arguments.reason}


async def _drain(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.DrainRequest(**_by(arguments), node_id=arguments.node_id)
    node = (await session.call(session.gateway.admin.Drain, request)).node
    print(f"{node.node_id} is drained: {node.streams} streams are left.")


async def _undrain(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.UndrainRequest(**_by(arguments), node_id=arguments.node_id)
    node = (await session.call(session.gateway.admin.Undrain, request)).node
    print(f"{node.node_id} takes tables again.")


async def _nodes(_: argparse.Namespace, session: Session) -> None:
    found = await session.call(session.gateway.admin.ListNodes, admin_pb2.ListNodesRequest())
    for node in found.nodes:
        state = ", draining" if node.draining else ""
        print(f"{node.node_id}: {node.tables} tables, {node.seats} seats, {node.streams} streams{state}")


async def _maintenance(arguments: argparse.Namespace, session: Session) -> None:
    on = arguments.state == "on"
    request = admin_pb2.SetMaintenanceRequest(**_by(arguments), on=on, message=arguments.message)
    await session.call(session.gateway.admin.SetMaintenance, request)
    print("The system is closed: hands are played out, and no other begins." if on else "The system is open.")


async def _void_table(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.VoidTableRequest(**_by(arguments), table_id=arguments.table_id)
    hand_id = (await session.call(session.gateway.admin.VoidTable, request)).hand_id
    print(f"{arguments.table_id} is closed; {f'{hand_id} is void' if hand_id else 'no hand was void by it'}.")


async def _log(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.ReadTableRequest(table_id=arguments.table_id, after_seq=arguments.after)
    found = await session.call(session.gateway.admin.ReadTable, request)
    for event in found.events:
        print(MessageToJson(event, indent=None))


async def _mute(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.MuteRequest(**_by(arguments), player_id=arguments.player_id, until_ms=arguments.until)
    shown = (await session.call(session.gateway.admin.Mute, request)).display_name
    print(f"{arguments.player_id} is called {plain(shown)} {_end(arguments.until)}.")


async def _unmute(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.UnmuteRequest(**_by(arguments), player_id=arguments.player_id)
    shown = (await session.call(session.gateway.admin.Unmute, request)).display_name
    print(f"{arguments.player_id} is called {plain(shown)} again.")


async def _ban(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.BanRequest(**_by(arguments), player_id=arguments.player_id, until_ms=arguments.until)
    await session.call(session.gateway.admin.Ban, request)
    print(f"{arguments.player_id} is banned {_end(arguments.until)}.")


async def _unban(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.UnbanRequest(**_by(arguments), player_id=arguments.player_id)
    await session.call(session.gateway.admin.Unban, request)
    print(f"{arguments.player_id} is not banned.")


def _end(until_ms: int) -> str:
    return time.strftime("until %Y-%m-%d %H:%M UTC", time.gmtime(until_ms / 1000)) if until_ms else "for ever"


async def _grant(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.GrantRequest(**_by(arguments), player_id=arguments.player_id, chips=arguments.chips)
    chips = (await session.call(session.gateway.admin.Grant, request)).chips
    print(f"{arguments.player_id} has {chips} chips.")


async def _reverse(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.ReverseRequest(**_by(arguments), hand_id=arguments.hand_id)
    found = await session.call(session.gateway.admin.Reverse, request)
    print(f"{arguments.hand_id} is reversed.")
    for player_id, chips, rating in zip(found.player_ids, found.chips, found.rating, strict=True):
        print(f"  {player_id}: {chips:+} chips, {rating:+} rating")
    if found.shortage_chips or found.shortage_rating:
        print(f"  The system bears {found.shortage_chips} chips and {found.shortage_rating} rating.")


async def _rooms(arguments: argparse.Namespace, session: Session) -> None:
    request = admin_pb2.ReloadRoomsRequest(**_by(arguments))
    for one in (await session.call(session.gateway.admin.ReloadRooms, request)).processes:
        print(f"{one.process}: {one.error or ', '.join(one.room_ids)}")


async def _acts(arguments: argparse.Namespace, session: Session) -> None:
    token = ""
    for _ in range(arguments.pages):
        request = admin_pb2.ListActsRequest(page_size=_PAGE, page_token=token)
        page = await session.call(session.gateway.admin.ListActs, request)
        for act in page.acts:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(act.at_ms / 1000))
            came = f"{act.outcome or 'not known yet'}{f' ({plain(act.detail)})' if act.detail else ''}"
            what = f"{act.act} {plain(act.arguments_json)} {plain(act.reason)!r}"
            print(f"{at} {act.operator_id} {what}: {came} [{act.act_id}]")
        token = page.next_page_token
        if not token:
            return


RUNS: Final[dict[str, Run]] = {
    "drain": _drain, "undrain": _undrain, "nodes": _nodes, "maintenance": _maintenance, "void-table": _void_table,
    "log": _log, "mute": _mute, "unmute": _unmute, "ban": _ban, "unban": _unban, "grant": _grant,
    "reverse": _reverse, "rooms": _rooms, "acts": _acts,
}  # fmt: skip
