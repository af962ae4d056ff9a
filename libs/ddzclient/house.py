"""Bots of the house: accounts of their own, marked as bots, that wait in rooms and sit down where too few people come.

Matchmaking takes them once a person has waited for DDZ_BOT_FILL_S; the lobby must allow bots (DDZ_ALLOW_BOTS).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
from collections.abc import Callable, Sequence
from typing import Final

from ddz.table.v1.events_pb2 import Snapshot
from ddz.table.v1.table_pb2 import Leave
from ddzclient.backoff import Backoff
from ddzclient.client import Gateway
from ddzclient.errors import ClientError, TableGone, TicketEnded
from ddzclient.player import Player, find_table
from ddzclient.session import Session
from ddzclient.table import TableView
from doudizhu.refusal import Refusal

HANDS: Final = 20  # of one table, after which a bot makes room for others
_TOO_FEW_OR_MANY: Final = {"BELOW_MINIMUM", "ABOVE_MAXIMUM"}


class NoBots(ClientError):
    """The lobby does not mark bots as such, and unmarked none of ours plays."""


async def keep(
    gateway: Gateway,
    secret: bytes,
    each: int,
    room_ids: Sequence[str] = (),
    *,
    hands: int = HANDS,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Keeps `each` bots in every one of the rooms (none given: all that new accounts may enter), until cancelled.

    The accounts follow from `secret`: with the same one they are the same. A bot that has too few chips left, or too
    many, gives way to a new account. `say` is told of what went wrong in passing. Raises NoBots, and Refusal when a
    room does not exist.
    """
    first = await _log_in(gateway, secret, "", 0, 0)
    chips = (await first.balance()).chips
    rooms = {room.room_id: room.terms for room in await first.rooms()}
    if unknown := [room_id for room_id in room_ids if room_id not in rooms]:
        raise Refusal("NOT_FOUND", f"There is no room {unknown[0]}.", field="room_id")
    open_to_new = [
        room_id
        for room_id, terms in rooms.items()
        if terms.minimum_chips <= chips and (not terms.maximum_chips or chips <= terms.maximum_chips)
    ]
    bots = itertools.product(room_ids or open_to_new, range(each))
    lives = [asyncio.create_task(_live(gateway, secret, room_id, number, hands, say)) for room_id, number in bots]
    try:
        await asyncio.gather(*lives)
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)


async def _live(
    gateway: Gateway, secret: bytes, room_id: str, number: int, hands: int, say: Callable[[str], None]
) -> None:
    """One bot's life: it waits, plays, and waits again."""
    backoff, generation = Backoff(first_s=0.5, longest_s=30.0), 0
    session: Session | None = None
    while True:
        try:
            session = session or await _log_in(gateway, secret, room_id, number, generation)
            table_id = await find_table(session, room_id)
            async with session.table(table_id) as table:
                await play_with_people(table, Player(seed=number), hands)
            backoff.reset()
        except TicketEnded:
            backoff.reset()  # nobody has come in all that time
        except NoBots:
            raise
        except (Refusal, ClientError) as error:
            if isinstance(error, Refusal) and error.reason in _TOO_FEW_OR_MANY:
                session, generation = None, generation + 1
            else:
                say(f"{room_id}, bot {number}: {error}")
            await backoff.wait()


async def play_with_people(table: TableView, player: Player, hands: int) -> None:
    """Plays up to `hands` hands, and leaves when only bots are left at the table."""
    playing = asyncio.create_task(player.play(table, hands))
    alone = asyncio.create_task(_alone(table))
    try:
        await asyncio.wait((playing, alone), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
            return
        with contextlib.suppress(TableGone, Refusal):  # closed meanwhile, or no seat any more
            await table.act(Leave())
    finally:
        for task in (playing, alone):
            task.cancel()
        await asyncio.gather(playing, alone, return_exceptions=True)


async def _alone(table: TableView) -> None:
    with contextlib.suppress(TableGone):
        await table.until(_only_bots)


def _only_bots(state: Snapshot) -> bool:
    return all(seat.player.bot or not seat.player.player_id for seat in state.seats)


async def _log_in(gateway: Gateway, secret: bytes, room_id: str, number: int, generation: int) -> Session:
    """The account of a bot; its key is derived, so that who does not know the secret cannot be it."""
    name = f"{room_id}/{number}/{generation}".encode()
    session = await Session.guest(gateway, f"bot:{hmac.digest(secret, name, 'sha256').hex()}")
    if not session.player.bot:
        raise NoBots("this server does not allow bots (DDZ_ALLOW_BOTS)")
    return session
