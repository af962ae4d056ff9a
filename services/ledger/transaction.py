"""One transaction for many requests: lock the players, read, decide each request, write what was decided, commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import asyncpg

from doudizhu.refusal import Refusal
from servicekit.traces import Span, traceparent
from services.ledger import counts, grants, ledger, reversals, store, wire
from services.ledger.grants import ClaimRelief, Given, Grant
from services.ledger.ledger import Hand, Opened, OpenHand, Player, Settled, SettleHand, Voided, VoidHand
from services.ledger.reversals import Reverse, Reversed

HandRequest = OpenHand | SettleHand | VoidHand | Reverse
GrantRequest = Grant | ClaimRelief
Request = HandRequest | GrantRequest
Reply = Opened | Settled | Voided | Given | Reversed


def players_of(request: Request) -> tuple[str, ...]:
    """Whose accounts a request may move."""
    return (request.player_id,) if isinstance(request, GrantRequest) else request.player_ids


def claims(request: Request) -> tuple[str, ...]:
    """What a request touches: its key and its players. Two that share a claim are never in one transaction."""
    key = f"grant {request.key}" if isinstance(request, GrantRequest) else f"hand {request.hand_id}"
    return key, *players_of(request)


@dataclass(slots=True)
class _Stored:
    """What the requests of a batch ask about."""

    players: dict[str, Player]
    at_ms: int
    seated: dict[int, str] = field(default_factory=dict)
    hands: dict[str, Hand] = field(default_factory=dict)
    given: dict[str, Given] = field(default_factory=dict)
    claimed: dict[tuple[str, date], int] = field(default_factory=dict)
    reversed: dict[str, Reversed] = field(default_factory=dict)


async def transact(
    connection: asyncpg.Connection, requests: Sequence[Request], spans: Sequence[Span] = ()
) -> list[Reply | Refusal]:
    """Answers requests that share no claim, by index; all or nothing of it is stored.

    `spans` are theirs, if they have any: what the news of a request name.

    Raises what asyncpg raises; then what became of it is known only to who looks: run it again, on another
    connection.
    """
    player_ids = list({player_id for request in requests for player_id in players_of(request)})
    began_s = time.perf_counter()
    while True:
        await connection.execute("BEGIN")
        players, at_ms = await store.lock_players(connection, player_ids)
        missing = _missing(requests, players)
        if not missing:
            break
        await connection.execute("ROLLBACK")
        await store.add_players(connection, missing)
    stored = await _read(connection, requests, players, at_ms)
    replies = [_answer(request, stored) for request in requests]
    await _write(connection, [reply for reply in replies if not isinstance(reply, Refusal) and not reply.replayed])
    if any(span.is_recording() for span in spans):
        await store.write_traces(connection, _traced(replies, spans))
    await connection.execute("COMMIT")
    counts.COMMIT_SECONDS.observe(time.perf_counter() - began_s)
    for request, reply in zip(requests, replies, strict=True):
        counts.count(request, reply)
    return replies


def _traced(replies: Sequence[Reply | Refusal], spans: Sequence[Span]) -> dict[str, str]:
    """By the key of news that were written now, the `traceparent` of the request that they are of."""
    return {
        key: traceparent(span.get_span_context())
        for reply, span in zip(replies, spans, strict=True)
        if span.is_recording() and not isinstance(reply, Refusal) and (key := _news_key(reply))
    }


def _news_key(reply: Reply) -> str:
    """The key of what is told of a reply; empty when nothing is."""
    match reply:
        case Settled(replayed=False):
            return reply.hand.hand_id
        case Given(replayed=False):
            return reply.key
        case Reversed(replayed=False):
            return reversals.reversal_key(reply.hand_id)
    return ""


def _missing(requests: Sequence[Request], players: dict[str, Player]) -> list[str]:
    """Who is new and needs accounts; other requests than these speak of players that have them."""
    return [
        player_id
        for request in requests
        if isinstance(request, OpenHand | GrantRequest)
        for player_id in players_of(request)
        if player_id not in players
    ]


async def _read(
    connection: asyncpg.Connection, requests: Sequence[Request], players: dict[str, Player], at_ms: int
) -> _Stored:
    stored = _Stored(players, at_ms)
    if any(isinstance(request, OpenHand | ClaimRelief) for request in requests):
        stored.seated = await store.read_seats(connection, [player.account for player in players.values()])
    if hand_ids := [request.hand_id for request in requests if isinstance(request, HandRequest)]:
        stored.hands = await store.read_hands(connection, hand_ids)
    if keys := [request.key for request in requests if isinstance(request, GrantRequest)]:
        stored.given = await store.read_given(connection, keys)
    if claimants := [(request.player_id, request.day) for request in requests if isinstance(request, ClaimRelief)]:
        stored.claimed = await store.read_claimed(connection, claimants)
    if hand_ids := [request.hand_id for request in requests if isinstance(request, Reverse)]:
        stored.reversed = await store.read_reversed(connection, hand_ids)
    return stored


def _answer(request: Request, stored: _Stored) -> Reply | Refusal:
    try:
        return _decide(request, stored)
    except Refusal as refusal:
        return refusal


def _decide(request: Request, stored: _Stored) -> Reply:
    players = stored.players
    match request:
        case SettleHand(hand_id=hand_id):
            return ledger.settle_hand(request, stored.hands.get(hand_id), players, stored.at_ms)
        case OpenHand(hand_id=hand_id):
            return ledger.open_hand(request, stored.hands.get(hand_id), players, stored.seated)
        case VoidHand(hand_id=hand_id):
            return ledger.void_hand(request, stored.hands.get(hand_id), players, stored.at_ms)
        case Reverse(hand_id=hand_id):
            return reversals.reverse(request, stored.hands.get(hand_id), stored.reversed.get(hand_id), players)
        case Grant(key=key, player_id=player_id):
            return grants.grant(request, stored.given.get(key), players[player_id])
        case ClaimRelief(key=key, player_id=player_id, day=day):
            player, claimed = players[player_id], stored.claimed.get((player_id, day), 0)
            seat = stored.seated.get(player.account)
            return grants.claim_relief(request, stored.given.get(key), player, claimed, seat)


async def _write(connection: asyncpg.Connection, replies: Sequence[Reply]) -> None:
    """Stores what was decided, one call for each kind of it."""
    if opened := [reply for reply in replies if isinstance(reply, Opened)]:
        await store.write_opened(connection, opened)
    if settled := [reply for reply in replies if isinstance(reply, Settled)]:
        await store.write_settled(connection, settled, [wire.hand_settled(each) for each in settled])
    if voided := [reply for reply in replies if isinstance(reply, Voided)]:
        await store.write_voided(connection, voided)
    if given := [reply for reply in replies if isinstance(reply, Given)]:
        await store.write_given(connection, given, [wire.grant_changed(each) for each in given])
    for reversal in (reply for reply in replies if isinstance(reply, Reversed)):
        await store.write_reversed(connection, reversal, wire.reversal_changed(reversal))
