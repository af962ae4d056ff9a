"""services/ledger/store.py and queries.py over the simulated Postgres: the same functions, values in and values out.

Their SQL is modelled (postgres.py). Relief and reversals are left out: nobody in the simulation asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from doudizhu.refusal import Refusal
from services.ledger.grants import Given
from services.ledger.ledger import ISSUANCE, Hand, Leg, Opened, Player, Settled, Voided
from tests.sim.system.postgres import Connection, Postgres
from tests.sim.system.redis import wall_ms

if TYPE_CHECKING:
    from tests.sim.system.world import World


class LedgerStore:
    """In the place of the module services.ledger.store in transaction.py."""

    def __init__(self, server: Postgres) -> None:
        self._server = server

    async def lock_players(self, connection: Connection, player_ids: Sequence[str]) -> tuple[dict[str, Player], int]:
        """The players that exist, and the transaction's time in ms."""
        await connection.trip()
        players = self._server.tables.players
        found = {player_id: players[player_id] for player_id in player_ids if player_id in players}
        return found, wall_ms(self._server.world)

    async def add_players(self, connection: Connection, player_ids: Iterable[str]) -> None:
        """Makes accounts with nothing in them."""
        await connection.trip()
        players = self._server.tables.players
        for player_id in player_ids:
            players.setdefault(player_id, Player(player_id, 101 + len(players), 0, 0))

    async def read_seats(self, _connection: Connection, accounts: Sequence[int]) -> dict[int, str]:
        """The open hand of who sits in one, by account."""
        seats = self._server.tables.open_seats
        return {account: seats[account] for account in accounts if account in seats}

    async def read_hands(self, _connection: Connection, hand_ids: Sequence[str]) -> dict[str, Hand]:
        """The hands that were opened, by id."""
        hands = self._server.tables.hands
        return {hand_id: hands[hand_id] for hand_id in hand_ids if hand_id in hands}

    async def read_given(self, _connection: Connection, keys: Sequence[str]) -> dict[str, Given]:
        """The grants that were made, by key."""
        given = self._server.tables.given
        return {key: given[key] for key in keys if key in given}

    async def write_opened(self, connection: Connection, opened: Sequence[Opened]) -> None:
        """Seats the players of hands that are opened now."""
        await connection.trip()
        for each in opened:
            connection.write(each, partial(self._server.seat, each.hand, each.accounts))

    async def write_settled(self, connection: Connection, settled: Sequence[Settled], news: Sequence[bytes]) -> None:
        """Everything that settlements change."""
        await connection.trip()
        for each, payload in zip(settled, news, strict=True):
            connection.write(each, partial(self._settle, each, payload))

    def _settle(self, settled: Settled, payload: bytes) -> None:
        hand, end = settled.hand, settled.hand.end
        assert end is not None
        self._server.end_hand(hand, settled.accounts)
        for seat, player_id in enumerate(hand.player_ids):
            before = end.balance_before[seat], end.rating_before[seat]
            self._server.post(player_id, before, end.chips[seat], end.rating[seat])
        self._server.post_system(settled.legs)
        self._server.tell("ddz.hand.settled", hand.hand_id, payload)

    async def write_voided(self, connection: Connection, voided: Sequence[Voided]) -> None:
        """Closes hands without moving a chip."""
        await connection.trip()
        for each in voided:
            connection.write(each, partial(self._server.end_hand, each.hand, each.accounts))

    async def write_given(self, connection: Connection, given: Sequence[Given], news: Sequence[bytes]) -> None:
        """Grants, with their transfers."""
        await connection.trip()
        for each, payload in zip(given, news, strict=True):
            connection.write(each, partial(self._give, each, payload))

    def _give(self, given: Given, payload: bytes) -> None:
        self._server.give(given)
        before = given.chips_after - given.chips, given.rating_after
        self._server.post(given.player_id, before, given.chips, 0)
        self._server.post_system([Leg(ISSUANCE, "chips", -given.chips)])
        self._server.tell("ddz.account.changed", given.key, payload)


class LedgerQueries:
    """In the place of the module services.ledger.queries in servicer.py. `reads` is not used: there is one server."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def _tables(self) -> Any:
        try:
            await self._world.postgres.trip()
        except OSError as error:
            raise Refusal("UNAVAILABLE", "The ledger cannot reach its database; try again.") from error
        return self._world.postgres.tables

    async def hand_players(self, _reads: Any, hand_id: str) -> tuple[str, ...]:
        """Who sits in a hand that was opened."""
        hand = (await self._tables()).hands.get(hand_id)
        return hand.player_ids if hand is not None else ()

    async def balances(self, _reads: Any, player_ids: Sequence[str]) -> dict[str, tuple[int, int, str]]:
        """Chips, rating and open hand of the players that have accounts."""
        tables = await self._tables()
        found = (tables.players[player_id] for player_id in player_ids if player_id in tables.players)
        return {one.player_id: (one.chips, one.rating, tables.open_seats.get(one.account, "")) for one in found}

    async def settled_hand(self, _reads: Any, hand_id: str) -> Hand | None:
        """A settled hand; None when it is not known, open or void."""
        hand: Hand | None = (await self._tables()).hands.get(hand_id)
        return None if hand is None or hand.end is None or hand.end.voided else hand

    async def open_hands(self, _reads: Any, older_than_ms: int, limit: int) -> list[dict[str, Any]]:
        """Rows of open hands, the oldest first; what wire.open_hand takes."""
        tables = await self._tables()
        until_ms = wall_ms(self._world) - older_than_ms
        found = [tables.hands[one] for one in dict.fromkeys(tables.open_seats.values())]
        return [
            {
                "hand_id": hand.hand_id,
                "table_id": hand.table_id,
                "player_ids": hand.player_ids,
                "carried": hand.carried,
                "opened_at": _At(tables.opened_ms[hand.hand_id]),
            }
            for hand in found[:limit]
            if tables.opened_ms[hand.hand_id] <= until_ms
        ]


class _At:
    """A time of the simulated database, as wire.py reads it."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def timestamp(self) -> float:
        """Seconds since the epoch."""
        return self._at_ms / 1000
