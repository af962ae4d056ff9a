"""`ddz admin`: what an operator has done: through the gateway by his log-in (operate.py), and past it, where the
ledger can be reached, to audit it, and when nothing else goes any more: void, reverse, gift."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import table_pb2, table_pb2_grpc
from ddzclient.cli import door, operate
from ddzclient.errors import ClientError, translate
from doudizhu.refusal import Refusal
from servicekit.config import ConfigError
from servicekit.tls import NAME, Inside, aio_channel

_AUDIT_TIMEOUT_S: Final = 3600.0
_TIMEOUT_S: Final = 15.0
_OPEN_HANDS: Final = 1000

T = TypeVar("T")

if TYPE_CHECKING:  # the stubs have names for the two kinds of channel; the generated code has one
    from ddz.ledger.v1.ledger_pb2_grpc import LedgerInternalServiceAsyncStub as Ledger


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the verbs and their arguments."""
    parser.add_argument(
        "--ledger", default=os.environ.get("DDZ_LEDGER_TARGET"), metavar="TARGET", help="default: DDZ_LEDGER_TARGET"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="verb")

    audit = verbs.add_parser("audit", help="compute the whole ledger again; exit 1 when something is wrong")
    table = os.environ.get("DDZ_TABLE_TARGET")
    live = "asked whether the table of an old open hand is alive; default: DDZ_TABLE_TARGET"
    audit.add_argument("--table", default=table, metavar="TARGET", help=live)
    audit.add_argument("--open-limit-s", type=int, default=3600, help="how old an open hand may be (default 3600)")
    audit.add_argument("--since-ms", type=int, default=0, help="only records settled since then (ms of the epoch)")
    audit.add_argument("--skip-records", action="store_true", help="the invariants only, without the rules core")

    void = verbs.add_parser("void", help="close an open hand without moving a chip")
    void.add_argument("hand_id")
    void.add_argument("--reason", required=True)

    reverse = verbs.add_parser("reverse", help="take a settlement back, once")
    reverse.add_argument("hand_id")
    reverse.add_argument("--operator", help="who answers for it: past the gateway, without a log-in")
    operate.configure_act(reverse)

    gift = verbs.add_parser("gift", help="give a player chips, once per key")
    gift.add_argument("player_id")
    gift.add_argument("chips", type=int)
    gift.add_argument("--key", required=True, help="the same key again gives nothing more")
    operate.configure(verbs)


def run(arguments: argparse.Namespace) -> int:
    """0 when done and in order, 1 when an audit found faults, 2 when it could not be done."""
    if arguments.verb in operate.RUNS and not getattr(arguments, "operator", None):
        return _through_the_gateway(arguments)
    if not arguments.ledger:
        print("Where is the ledger? Give --ledger host:port, or set DDZ_LEDGER_TARGET.", file=sys.stderr)
        return 2
    try:
        return asyncio.run(_run(arguments))
    except (Refusal, ClientError, ConfigError) as error:
        print(f"ddz admin {arguments.verb}: {error}", file=sys.stderr)
        return 2


def _through_the_gateway(arguments: argparse.Namespace) -> int:
    try:
        return asyncio.run(operate.run(arguments))
    except operate.NoOperator as error:
        print(f"ddz admin {arguments.verb}: {error}", file=sys.stderr)
        return 2
    except (door.NoDoor, ClientError, Refusal) as error:
        return door.failed(f"admin {arguments.verb}", arguments, error)


async def _run(arguments: argparse.Namespace) -> int:
    verbs: dict[str, Callable[[argparse.Namespace, Ledger], Awaitable[int]]] = {
        "audit": _audit,
        "void": _void,
        "reverse": _reverse,
        "gift": _gift,
    }
    async with aio_channel(arguments.ledger, _inside()) as channel:
        return await verbs[arguments.verb](arguments, ledger_pb2_grpc.LedgerInternalServiceStub(channel))


def _inside() -> Inside | None:
    """What an operator shows to the services, from the settings that they have themselves."""
    certificate, key, authority = (os.environ.get(f"DDZ_TLS_{what}", "") for what in ("CERT", "KEY", "CA"))
    return Inside.read(certificate, key, authority, os.environ.get("DDZ_TLS_NAME", NAME))


async def _ask(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise translate(error) from None


async def _audit(arguments: argparse.Namespace, ledger: Ledger) -> int:
    limit_ms = arguments.open_limit_s * 1000
    request = ledger_pb2.AuditRequest(
        since_ms=arguments.since_ms,
        skip_records=arguments.skip_records,
        # With tables to ask, an old hand is a fault only when its table is not alive.
        open_limit_ms=0 if arguments.table else limit_ms,
    )
    found = await _ask(ledger.Audit(request, timeout=_AUDIT_TIMEOUT_S))
    faults = list(found.faults)
    if arguments.table:
        faults += await _abandoned(arguments.table, ledger, limit_ms)
    print(
        f"{found.hands_settled} hands settled ({found.records_checked} computed again), {found.hands_voided} voided, "
        f"{found.hands_reversed} reversed, {found.hands_open} open; {found.transfers} transfers; "
        f"all chips sum to {found.chips_sum}, all ratings to {found.rating_sum}; {found.outbox_pending} news wait."
    )
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults." if faults else "Everything holds.")
    return 1 if faults else 0


async def _abandoned(target: str, ledger: Ledger, limit_ms: int) -> list[str]:
    """Open hands older than the limit that no live table plays."""
    request = ledger_pb2.ListOpenHandsRequest(older_than_ms=limit_ms, limit=_OPEN_HANDS)
    old = (await _ask(ledger.ListOpenHands(request, timeout=_TIMEOUT_S))).hands
    async with aio_channel(target, _inside()) as channel:
        tables = table_pb2_grpc.TableServiceStub(channel)
        return [
            f"{hand.hand_id} is open, and no live table plays it: ddz admin void {hand.hand_id}"
            for hand in old
            if not await _plays(tables, hand)
        ]


async def _plays(tables: table_pb2_grpc.TableServiceAsyncStub, hand: ledger_pb2.OpenHand) -> bool:
    """Whether the hand's table is alive and at this hand; one of its players is who asks."""
    headers: Any = (("x-player-id", hand.player_ids[0]), ("x-table-id", hand.table_id))
    request = table_pb2.GetTableRequest(table_id=hand.table_id)
    try:
        found = await _ask(tables.GetTable(request, metadata=headers, timeout=_TIMEOUT_S))
    except Refusal as refusal:
        if refusal.reason in {"NOT_FOUND", "TABLE_CLOSED", "NOT_A_PLAYER"}:
            return False
        raise
    return found.snapshot.hand_id == hand.hand_id


async def _void(arguments: argparse.Namespace, ledger: Ledger) -> int:
    request = ledger_pb2.VoidHandRequest(hand_id=arguments.hand_id, reason=arguments.reason)
    reply = await _ask(ledger.VoidHand(request, timeout=_TIMEOUT_S))
    print(f"{arguments.hand_id} is void{_known(reply.result)}.")
    return 0


async def _reverse(arguments: argparse.Namespace, ledger: Ledger) -> int:
    request = ledger_pb2.ReverseRequest(hand_id=arguments.hand_id, operator=arguments.operator, reason=arguments.reason)
    reply = await _ask(ledger.Reverse(request, timeout=_TIMEOUT_S))
    print(f"{arguments.hand_id} is reversed{_known(reply.result)}.")
    for balance, chips, rating in zip(reply.balances, reply.chips, reply.rating, strict=True):
        print(f"  {balance.player_id}: {chips:+} chips, {rating:+} rating; now {balance.chips} and {balance.rating}")
    if reply.shortage_chips or reply.shortage_rating:
        print(f"  The system bears {reply.shortage_chips} chips and {reply.shortage_rating} rating.")
    return 0


async def _gift(arguments: argparse.Namespace, ledger: Ledger) -> int:
    request = ledger_pb2.GrantRequest(
        key=f"gift:{arguments.key}", player_id=arguments.player_id, chips=arguments.chips, kind="gift"
    )
    reply = await _ask(ledger.Grant(request, timeout=_TIMEOUT_S))
    print(f"{arguments.player_id} has {reply.balance.chips} chips{_known(reply.result)}.")
    return 0


def _known(result: ledger_pb2.Result.ValueType) -> str:
    return " (it was already)" if result == ledger_pb2.RESULT_REPLAYED else ""
