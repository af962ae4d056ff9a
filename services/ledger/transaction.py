"""One transaction for many requests: lock the players, read, decide each request, write what was decided, commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import asyncpg

from doudizhu.refusal import Refusal
from services.ledger import grants, ledger, store, wire
from services.ledger.grants import Given, Grant
from services.ledger.ledger import Hand, Opened, OpenHand, Player, Settled, SettleHand, VoidHand

Request = OpenHand | SettleHand | VoidHand | Grant
Reply = Opened | Settled | Given
R = TypeVar("R", Opened, Settled, Given)


def claims(request: Request) -> tuple[str, ...]:
    """What a request touches: two that share a claim are never in one transaction. The key comes first."""
    if isinstance(request, Grant):
        return f"grant {request.key}", request.player_id
    return f"hand {request.hand_id}", *request.player_ids


@dataclass(slots=True)
class _Stored:
    """What the requests of a batch ask about."""

    players: dict[str, Player]
    at_ms: int
    hands: dict[str, Hand]
    given: dict[str, Given]


@dataclass(slots=True)
class _Writes:
    """What is decided and not stored yet."""

    opened: list[Opened] = field(default_factory=list)
    settled: list[tuple[SettleHand, Settled]] = field(default_factory=list)
    voided: list[tuple[VoidHand, Settled]] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)


async def transact(connection: asyncpg.Connection, requests: Sequence[Request]) -> list[Reply | Refusal]:
    """Answers requests that share no claim, by index; all or nothing of it is stored.

    Raises what asyncpg raises; then what became of it is known only to who looks: run it again, on another
    connection.
    """
    player_ids = list({claim for request in requests for claim in claims(request)[1:]})
    while True:
        await connection.execute("BEGIN")
        players, at_ms = await store.lock_players(connection, player_ids)
        missing = _missing(requests, players)
        if not missing:
            break
        await connection.execute("ROLLBACK")
        await store.add_players(connection, missing)
    stored = await _read(connection, requests, players, at_ms)
    writes = _Writes()
    replies = [_decide(request, stored, writes) for request in requests]
    await _write(connection, writes)
    await connection.execute("COMMIT")
    return replies


def _missing(requests: Sequence[Request], players: dict[str, Player]) -> list[str]:
    """Who is new and needs accounts; settling and voiding never make any."""
    return [
        claim
        for request in requests
        if isinstance(request, OpenHand | Grant)
        for claim in claims(request)[1:]
        if claim not in players
    ]


async def _read(
    connection: asyncpg.Connection, requests: Sequence[Request], players: dict[str, Player], at_ms: int
) -> _Stored:
    hand_ids = [request.hand_id for request in requests if not isinstance(request, Grant)]
    keys = [request.key for request in requests if isinstance(request, Grant)]
    hands = await store.read_hands(connection, hand_ids) if hand_ids else {}
    given = await store.read_granted(connection, keys) if keys else {}
    return _Stored(players, at_ms, hands, given)


def _decide(request: Request, stored: _Stored, writes: _Writes) -> Reply | Refusal:
    try:
        match request:
            case SettleHand():
                hand = stored.hands.get(request.hand_id)
                return _keep(
                    ledger.settle_hand(request, hand, stored.players, stored.at_ms),
                    lambda settled: writes.settled.append((request, settled)),
                )
            case OpenHand():
                hand = stored.hands.get(request.hand_id)
                return _keep(ledger.open_hand(request, hand, stored.players), writes.opened.append)
            case VoidHand():
                hand = stored.hands.get(request.hand_id)
                return _keep(
                    ledger.void_hand(request, hand, stored.players, stored.at_ms),
                    lambda voided: writes.voided.append((request, voided)),
                )
            case Grant():
                known = stored.given.get(request.key)
                return _keep(grants.grant(request, known, stored.players[request.player_id]), writes.given.append)
    except Refusal as refusal:
        return refusal


def _keep(reply: R, write: Callable[[R], None]) -> R:
    if not reply.replayed:
        write(reply)
    return reply


async def _write(connection: asyncpg.Connection, writes: _Writes) -> None:
    if writes.opened:
        await store.write_opened(connection, writes.opened)
    if writes.settled:
        await store.write_settled(
            connection,
            [settled for _, settled in writes.settled],
            [wire.hand_settled(request, settled.hand) for request, settled in writes.settled],
        )
    if writes.voided:
        await store.write_voided(
            connection,
            [voided for _, voided in writes.voided],
            [request.reason for request, _ in writes.voided],
        )
    if writes.given:
        await store.write_given(connection, writes.given, [wire.account_changed(given) for given in writes.given])
