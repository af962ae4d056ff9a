"""From a claim to a table. The table's id is the match's, so that any instance may ask for it any number of times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from ddz.common.v1 import common_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu.refusal import Refusal
from servicekit import ids, logs, metrics, remote, traces
from servicekit.orders import Orders
from servicekit.pipe import StoreLost
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from services.matchmaking import counts, queue
from services.matchmaking.news import News
from services.matchmaking.store import Claim, Store

_TIMEOUT_S: Final = 2.0
_PAUSE_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
_NOT_NOW_ATTEMPTS: Final = 3
_BACK_MS: Final = 1_000  # tickets that come back are looked at again after this

# Refusals that say nothing about this match: another node, or the same one later, may open it.
_NOT_NOW: Final = frozenset({"UNAVAILABLE", "DRAINING", "OVERLOADED", "MAINTENANCE", "RATE_LIMITED"})
# The id is a hash of the three tickets: if it is known, this match has been opened before.
_OPEN_ALREADY: Final = frozenset({"KEY_CONFLICT", "TABLE_CLOSED"})

log = logs.get("opening")


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Opener:
    """Opens the tables of claims for one instance, called `owner`."""

    def __init__(
        self,
        rooms: Rooms,
        store: Store,
        news: News,
        table: table_pb2_grpc.TableInternalServiceAsyncStub,
        seats: Seats,
        orders: Orders,
        owner: str,
        patience_s: float,
    ) -> None:
        self._rooms = rooms
        self._store = store
        self._news = news
        self._table = table
        self._seats = seats
        self._orders = orders
        self._owner = owner
        self._patience_s = patience_s
        self.answering = True  # whether the table service did, when asked last

    async def open(self, room_id: str, claim: Claim) -> None:
        """Opens the claim's table and matches its tickets, or gives them back.

        Whatever else goes wrong is left to the claim's lease: somebody takes it over and asks for the same table.
        """
        started = time.monotonic()
        try:
            with counts.OPENING.track_inprogress(), traces.span("OpenTable"):
                # One that was taken over may have waited for its place longer than its lease.
                if claim.inherited and not await self._kept(room_id, claim):
                    return
                if room_id not in self._rooms:
                    await self._back(room_id, claim, "room gone")
                    return
                request = self._request(room_id, claim)
                ids.bind(table=request.table_id)
                if await self._asked(room_id, claim, request):
                    await self._finish(room_id, claim, request)
                    counts.FOUND_SECONDS.observe(time.monotonic() - started)
        except StoreLost as error:
            counts.CLAIMS.labels(room_id, "left").inc()
            log.warning("claim left", extra={"room": room_id, "why": str(error)})
        except Exception:
            metrics.FAULTS.labels("opening").inc()
            log.exception("unexpected exception", extra={"room": room_id})

    def _request(self, room_id: str, claim: Claim) -> table_pb2.OpenRequest:
        match = queue.match_id(room_id, claim.epoch, claim.ticket_ids)
        players = {player.player_id: player for player in map(common_pb2.Player.FromString, claim.who)}
        # Not as they joined: one of them may have been muted while he waited.
        seats = [self._orders.shown(players[player]) for player in queue.seat_order(match, players)]
        return table_pb2.OpenRequest(table_id=match, terms=self._rooms.get(room_id).terms, players=seats)

    async def _asked(self, room_id: str, claim: Claim, request: table_pb2.OpenRequest) -> bool:
        """Whether the table is open. If not, the tickets are back, or the claim is somebody else's.

        As long as the table may have been opened (an attempt without an answer), the tickets stay claimed: given
        back, they could end up at two tables. Only after `patience_s` of silence they are; a refusal says nothing of
        the attempt before it. For the same reason it is asked only before whether one of the three has sat down
        elsewhere meanwhile.
        """
        doubt = claim.inherited
        gives_up = time.monotonic() + self._patience_s
        attempt = 0
        while True:
            try:
                if not doubt and (seated := await self._elsewhere(claim, request)):
                    await self._back(room_id, claim, "seated elsewhere", seated)
                    return False
                call = self._table.Open(request, timeout=_TIMEOUT_S, metadata=[("x-table-id", request.table_id)])
                await remote.ask(call, "table")
                self.answering = True
                return True
            except remote.Silence:
                doubt, self.answering = True, False
            except Refusal as refusal:
                self.answering = refusal.reason not in _NOT_NOW
                if refusal.reason in _OPEN_ALREADY:
                    return True
                if not doubt and (self.answering or attempt >= _NOT_NOW_ATTEMPTS):
                    await self._back(room_id, claim, refusal.reason)
                    return False
            if time.monotonic() > gives_up:
                log.error("table in doubt", extra={"room": room_id, "table": request.table_id})
                await self._back(room_id, claim, "silence")
                return False
            await asyncio.sleep(_PAUSE_S[min(attempt, len(_PAUSE_S) - 1)])
            attempt += 1
            if not await self._kept(room_id, claim):
                return False

    async def _kept(self, room_id: str, claim: Claim) -> bool:
        """Renews the claim's lease; whether the claim is still ours."""
        kept = await self._store.renew(room_id, claim, self._owner, now_ms())
        if not kept:
            counts.CLAIMS.labels(room_id, "lost").inc()
        return kept

    async def _elsewhere(self, claim: Claim, request: table_pb2.OpenRequest) -> list[str]:
        """The tickets of those who sit at another table, by its own word; it is asked only after a report of it."""
        seated = set()
        for player in request.players:
            try:
                if await self._seats.table_of(player) not in ("", request.table_id):
                    seated.add(player.player_id)
            except remote.Silence as silence:  # not of the table that is to be opened: no reason for doubt
                raise Refusal(silence.reason, silence.message) from None
        return [ticket for ticket in claim.ticket_ids if ticket.rpartition("-")[0] in seated]

    async def _finish(self, room_id: str, claim: Claim, request: table_pb2.OpenRequest) -> None:
        now = now_ms()
        players = [common_pb2.Player.FromString(who).player_id for who in claim.who]
        waited = [now - joined for joined in claim.joined_ms]
        match = matchmaking_pb2.MatchMade(
            match_id=request.table_id, room_id=room_id, player_ids=players, waited_ms=waited
        )
        if await self._store.matched(room_id, claim, request.table_id, match.SerializeToString(), now):
            counts.MATCHES.labels(room_id).inc()
            counts.CLAIMS.labels(room_id, "inherited" if claim.inherited else "matched").inc()
            for wait in waited:
                counts.WAIT_SECONDS.labels(room_id).observe(wait / 1000)
        await self._news.changed(room_id, claim.ticket_ids)

    async def _back(self, room_id: str, claim: Claim, why: str, seated: Sequence[str] = ()) -> None:
        """Gives the tickets back, but for those `seated` elsewhere, which end; then the others need not pause.

        Those of a room that is gone from the file all end: nobody looks there any more.
        """
        now = now_ms()
        gone = room_id not in self._rooms
        ended = claim.ticket_ids if gone else seated
        due = now if seated else now + _BACK_MS
        if await self._store.give_back(room_id, claim, self._owner, now, due, ended):
            counts.CLAIMS.labels(room_id, "back").inc()
            counts.CANCELS.labels(room_id, "room_gone" if gone else "seated").inc(len(ended))
            log.warning("claim given back", extra={"room": room_id, "why": why})
        await self._news.changed(room_id, claim.ticket_ids)
