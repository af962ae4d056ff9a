"""Keeps the statistics: settled hands from JetStream, by one consumer of all instances, each counted once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple, fields
from datetime import timedelta
from typing import Final

import asyncpg
import nats.errors
from google.protobuf.message import DecodeError
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext
from prometheus_client import Counter

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import news_pb2
from servicekit import logs, stream, traces
from servicekit.clients import AWAY
from servicekit.lasting import end, lasting
from services.lobby.tally import Tally, tally

SUBJECT: Final = "ddz.hand.settled"
DURABLE: Final = "lobby-statistics"
COUNTED: Final = Counter("ddz_lobby_hands_counted", "Settled hands taken into the statistics", ["result"])

_BATCH: Final = 200
_PATIENCE_S: Final = 1.0
_TROUBLE_S: Final = 1.0
_KEEP: Final = timedelta(days=8)
_PRUNE_S: Final = 3600.0
_TROUBLE: Final = (*AWAY, nats.errors.Error, asyncpg.PostgresError)

_NAMES: Final = [field.name for field in fields(Tally)]
_SUMS: Final = _NAMES[:-1]
# Two instances may hold the same hands and players: each takes its locks in the order of the keys.
_ADD: Final = f"""
WITH counted AS (
  INSERT INTO lobby.counted_hand (hand_id) SELECT DISTINCT unnest($1::text[]) AS hand_id ORDER BY hand_id
  ON CONFLICT DO NOTHING RETURNING hand_id
), added AS (
  INSERT INTO lobby.statistics (player_id, {", ".join(_NAMES)})
  SELECT player_id, {", ".join(f"sum({name})" for name in _SUMS)}, max(greatest_multiplier)
  FROM unnest($1::text[], $2::text[], {", ".join(f"${i}::bigint[]" for i in range(3, 3 + len(_NAMES)))})
    AS hand (hand_id, player_id, {", ".join(_NAMES)}) JOIN counted USING (hand_id)
  GROUP BY player_id ORDER BY player_id
  ON CONFLICT (player_id) DO UPDATE SET
    {", ".join(f"{name} = statistics.{name} + excluded.{name}" for name in _SUMS)},
    greatest_multiplier = greatest(statistics.greatest_multiplier, excluded.greatest_multiplier)
)
SELECT count(*) FROM counted
"""

log = logs.get("scorekeeper")


class Scorekeeper:
    """Run `running`; read with `of`."""

    def __init__(self, pool: asyncpg.Pool, bus: NatsClient) -> None:
        self._pool = pool
        self._bus = bus

    async def of(self, player_id: str) -> Tally:
        """The statistics of a player."""
        query = f"SELECT {', '.join(_NAMES)} FROM lobby.statistics WHERE player_id = $1"
        row = await self._pool.fetchrow(query, player_id)
        return Tally(**dict(row)) if row else Tally()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Counts as hands are settled."""
        works = {"scorekeeper": self._work, "prune": self._prune}
        tasks = [asyncio.create_task(lasting(where, work)) for where, work in works.items()]
        try:
            yield
        finally:
            await end(*tasks)

    async def count(self, hands: Mapping[str, Mapping[str, Tally]]) -> int:
        """Adds hands, by id and player; how many had not been counted before."""
        if not hands:
            return 0
        rows = [(hand, player, *astuple(add)) for hand, players in hands.items() for player, add in players.items()]
        return int(await self._pool.fetchval(_ADD, *map(list, zip(*rows, strict=True))))

    async def _work(self) -> None:
        while True:
            try:
                await self._consume(self._bus.jetstream(timeout=2.0))
            except _TROUBLE as error:
                log.warning("statistics wait", extra={"why": repr(error)})
            await asyncio.sleep(_TROUBLE_S)

    async def _consume(self, jetstream: JetStreamContext) -> None:
        await stream.ensure(jetstream)
        subscription = await jetstream.pull_subscribe(SUBJECT, durable=DURABLE, stream=stream.STREAM)
        try:
            await self._count_all(subscription)
        finally:
            if not self._bus.is_closed:
                await subscription.unsubscribe()

    async def _count_all(self, subscription: JetStreamContext.PullSubscription) -> None:
        while True:
            try:
                messages = await subscription.fetch(_BATCH, timeout=_PATIENCE_S)
            except nats.errors.TimeoutError:
                continue
            with contextlib.ExitStack() as spans:
                for message in messages:
                    traces.hearing(SUBJECT, message.headers, spans)
                hands = {hand: players for message in messages for hand, players in _hand_of(message).items()}
                new = await self.count(hands)
                COUNTED.labels("new").inc(new)
                COUNTED.labels("known").inc(len(hands) - new)
                for message in messages:
                    await message.ack()

    async def _prune(self) -> None:
        while True:
            try:
                await self._pool.execute("DELETE FROM lobby.counted_hand WHERE at < now() - $1::interval", _KEEP)
            except _TROUBLE as error:
                log.warning("not pruned", extra={"why": repr(error)})
            await asyncio.sleep(_PRUNE_S)


def _hand_of(message: Msg) -> dict[str, dict[str, Tally]]:
    """What a message adds, by hand and player; nothing when it cannot be read or tells no outcome."""
    try:
        settled = news_pb2.HandSettled.FromString(message.data)
    except DecodeError:
        COUNTED.labels("unreadable").inc()
        return {}
    outcome, players = settled.outcome, [seat.player_id for seat in settled.settlement.seats]
    if not settled.HasField("outcome") or len(set(players)) != 3:
        COUNTED.labels("unreadable").inc()
        return {}
    added = tally(
        players,
        landlord=outcome.landlord if outcome.HasField("landlord") else None,
        landlord_won=outcome.winner == hand_pb2.SIDE_LANDLORD,
        fled=outcome.fled if outcome.HasField("fled") else None,
        multiplier=outcome.multiplier,
    )
    return {settled.settlement.hand_id: added}
