"""Where people queue: checks chips and seats, numbers tickets, cancels. What becomes of them, the queue decides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import logs, rooms
from servicekit.orders import Orders
from servicekit.pipe import StoreLost
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from services.matchmaking import counts, queue
from services.matchmaking.balances import Balances
from services.matchmaking.matcher import Matcher
from services.matchmaking.news import News
from services.matchmaking.opening import now_ms
from services.matchmaking.queue import LIVE, Reason, State, Ticket
from services.matchmaking.store import Entry, Pointer, Store

_RACES: Final = 5
# An older number is never put into the queue any more: its end may have been forgotten.
_FRESH_MS: Final = 600_000
_EXPEL_S: Final = 5.0
_NO_WATCHER: Final = ""  # no instance is called so

log = logs.get("desk")


class Desk:
    """Join, quick start and cancel."""

    def __init__(
        self,
        all_rooms: Rooms,
        store: Store,
        matcher: Matcher,
        news: News,
        balances: Balances,
        seats: Seats,
        orders: Orders,
        *,
        bots_fill: bool,
    ) -> None:
        self._rooms = all_rooms
        self._store = store
        self._matcher = matcher
        self._news = news
        self._balances = balances
        self._seats = seats
        self._orders = orders
        self._bots_fill = bots_fill

    async def join(self, player: common_pb2.Player, room_id: str) -> Ticket:
        """The player's ticket in the room: the one he has, or a new one. One account has one ticket.

        A ticket that found a table is his as long as he sits there. Who has one is asked for nothing else; another one
        raises BELOW_MINIMUM or ABOVE_MAXIMUM, MAINTENANCE, ALREADY_SEATED. Raises LIMIT_REACHED when he waits in
        another room, NOT_FOUND for no room; BANNED.
        """
        self._orders.require_welcome(player.player_id)
        room = self._rooms.get(room_id)
        seat = await self._seats.table_of(player)
        ticket = await self._latest(player.player_id)
        if ticket is not None and await self._is_his(player, ticket, seat):
            return self._known(ticket, room_id, new=False)
        if seat:
            words = "You sit at a table: leave it first."
            raise Refusal(Reason.ALREADY_SEATED, words, table_id=seat)
        self._orders.require_open()
        entry = await self._entry(player, room)
        now = now_ms()
        for _ in range(_RACES):
            ended = "" if ticket is None else ticket.ticket_id
            pointer = await self._store.allocate(player.player_id, room_id, now, ended)
            ticket = await self._enter(pointer, room_id, entry)
            if await self._is_his(player, ticket, seat):
                return self._known(ticket, room_id, new=pointer.at_ms == now)
        raise Refusal(Reason.UNAVAILABLE, "Too many joins at once; try again.")

    async def quick_start(self, player: common_pb2.Player, book: str) -> Ticket:
        """Joins the best room for the player's chips, or finds the ticket he has.

        Raises NOT_FOUND when no room plays the book, BELOW_MINIMUM or ABOVE_MAXIMUM when none is open to his chips;
        BANNED, MAINTENANCE.
        """
        self._orders.require_welcome(player.player_id)
        offers = [offer for offer in map(_offer, self._rooms.all()) if book in ("", offer.book)]
        if not offers:
            raise Refusal(Reason.NOT_FOUND, "No room plays this book.", field="book")
        ticket = await self._latest(player.player_id)
        if ticket is not None and await self._is_his(player, ticket, await self._seats.table_of(player)):
            return self._known(ticket, ticket.room_id, new=False)
        balance = await self._balances.get(player.player_id)
        best = queue.best_room(offers, balance.chips)
        if best is None:
            raise _no_room(offers, balance.chips)
        try:
            return await self.join(player, best.room_id)
        except Refusal as refusal:
            if refusal.reason != Reason.LIMIT_REACHED:
                raise
            return await self.join(player, refusal.data["room_id"])

    async def _latest(self, player_id: str) -> Ticket | None:
        """The player's latest ticket, whose owner is there; None when there is none or it never came into its queue."""
        pointer = await self._store.latest(player_id)
        if pointer is None:
            return None
        if pointer.room_id not in self._rooms:
            await self._end(pointer.room_id, pointer.ticket_id)
        (ticket,) = await self._store.watch(pointer.room_id, [pointer.ticket_id], _NO_WATCHER, now_ms())
        self._matcher.wake(pointer.room_id)
        return ticket

    async def expelling(self) -> None:
        """Cancels the tickets of those who have been banned, for ever; Redis may be away for a while."""
        changed = asyncio.Event()
        self._orders.on_change(changed.set)
        while True:
            changed.clear()
            try:
                await self.expel()
            except StoreLost as error:
                log.warning("not expelled", extra={"why": str(error)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EXPEL_S):
                    await changed.wait()

    async def expel(self) -> None:
        """Cancels the waiting tickets of those who have been banned; one that has been claimed is left to the table."""
        for player_id in self._orders.banned:
            pointer = await self._store.latest(player_id)
            if pointer is not None:
                done, _ = await self._store.cancel(pointer.room_id, pointer.ticket_id, now_ms())
                if done:
                    counts.CANCELS.labels(pointer.room_id, "banned").inc()
                    await self._news.changed(pointer.room_id, [pointer.ticket_id])

    async def cancel(self, player_id: str, ticket_id: str) -> Ticket:
        """Takes a waiting ticket out; raises TOO_LATE, with the table once there is one, when others claimed it."""
        room_id = await self.room_of(player_id, ticket_id)
        done, ticket = await self._store.cancel(room_id, ticket_id, now_ms())
        if ticket is None:
            raise Refusal(Reason.NOT_FOUND, "There is no such ticket.", field="ticket_id")
        counts.CANCELS.labels(room_id, "done" if done else ticket.state.value).inc()
        if ticket.state in (State.CLAIMED, State.MATCHED):
            words = "Too late: a table has been found."
            raise Refusal(Reason.TOO_LATE, words, table_id=ticket.table_id, ticket_id=ticket_id)
        if done:
            await self._news.changed(room_id, [ticket_id])
        return ticket

    async def room_of(self, player_id: str, ticket_id: str) -> str:
        """The room of a player's own ticket; raises NOT_FOUND, for another's too.

        A ticket that still waits in a room that is gone from the file is cancelled: nobody looks there any more.
        """
        room_id = await self._store.room_of(player_id, ticket_id)
        if room_id is None:
            raise Refusal(Reason.NOT_FOUND, "There is no such ticket.", field="ticket_id")
        if room_id not in self._rooms:
            await self._end(room_id, ticket_id)
        return room_id

    async def _end(self, room_id: str, ticket_id: str) -> None:
        """Cancels a ticket whose room is gone from the file."""
        done, _ = await self._store.cancel(room_id, ticket_id, now_ms())
        if done:
            counts.CANCELS.labels(room_id, "room_gone").inc()
            await self._news.changed(room_id, [ticket_id])

    async def _entry(self, player: common_pb2.Player, room: lobby_pb2.Room) -> Entry:
        balance = await self._balances.get(player.player_id)
        rooms.admit(room, balance.chips)
        rated = rooms.book_of(room.terms).rated
        return Entry(
            who=self._orders.shown(player).SerializeToString(),
            strength=queue.strength(balance.chips, balance.rating, rated=rated),
            reserve=player.bot and self._bots_fill,
        )

    async def _enter(self, pointer: Pointer, room_id: str, entry: Entry) -> Ticket:
        """The pointer's ticket. One that never came into its queue is made if it is for this room, else ended."""
        now = now_ms()
        if pointer.room_id not in self._rooms:
            await self._end(pointer.room_id, pointer.ticket_id)
        create = pointer.room_id == room_id and now - pointer.at_ms < _FRESH_MS
        ticket = await self._store.enter(pointer, entry, now, create=create)
        self._matcher.wake(pointer.room_id)
        return ticket

    async def _is_his(self, player: common_pb2.Player, ticket: Ticket, seat: str) -> bool:
        """Whether a ticket still waits, or its table is the one where its player sits."""
        if ticket.state is not State.MATCHED:
            return ticket.state in LIVE
        return ticket.table_id == seat if seat else await self._seats.sits_at(player, ticket.table_id)

    def _known(self, ticket: Ticket, room_id: str, *, new: bool) -> Ticket:
        if ticket.room_id != room_id:
            words = f"You have a ticket in {ticket.room_id}; cancel it first."
            raise Refusal(
                Reason.LIMIT_REACHED,
                words,
                ticket_id=ticket.ticket_id,
                room_id=ticket.room_id,
                table_id=ticket.table_id,
            )
        result = "queued" if new else ("seated" if ticket.state is State.MATCHED else "same")
        counts.JOINS.labels(room_id, result).inc()
        return ticket


def _no_room(offers: Sequence[queue.RoomTerms], chips: int) -> Refusal:
    """Why no room takes so many chips: they are too few for the next room up, or else too many for every room."""
    above = [offer.minimum_chips for offer in offers if offer.minimum_chips > chips]
    if above:
        words = "No room is open to so few chips."
        return Refusal(Reason.BELOW_MINIMUM, words, minimum_chips=min(above), chips=chips)
    greatest = max(offer.maximum_chips for offer in offers)
    return Refusal(Reason.ABOVE_MAXIMUM, "No room is open to so many chips.", maximum_chips=greatest, chips=chips)


def _offer(room: lobby_pb2.Room) -> queue.RoomTerms:
    terms = room.terms
    least = rooms.least_chips(room)
    return queue.RoomTerms(room.room_id, terms.book, least, terms.maximum_chips, terms.base_min_chips)
