"""A simulated Postgres: the ledger's and the lobby's tables under serialised transactions; connections that break.

Modelled, not real: the SQL of services/ledger/migrations (functions, keys, CHECKs, triggers), services/lobby/store.py,
and what only calls it (services/ledger/store.py, queries.py). Each method here keeps the contract of its namesake. Real
is all that decides: transaction.py, batcher.py, ledger.py, grants.py, relay.py, entry.py. The SQL is tested against a
real Postgres in tests/services/ledger and tests/services/lobby.

A transaction holds the database from BEGIN to COMMIT and stores all or nothing. A connection that breaks before COMMIT
has stored nothing; one that breaks at COMMIT has stored all or nothing, and nobody knows which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import asyncpg

from services.ledger.grants import Given
from services.ledger.ledger import Hand, Leg, Opened, Player, Settled, Voided
from services.lobby.account import Account
from tests.sim.system.loop import PROCESS, Process
from tests.sim.system.redis import wall_ms

if TYPE_CHECKING:
    from tests.sim.system.world import World

Change = Opened | Settled | Voided | Given


@dataclass
class Tables:
    """What is stored. Players by id, hands by id, open seats by account, transfers as sums of the system accounts."""

    players: dict[str, Player] = field(default_factory=dict)
    hands: dict[str, Hand] = field(default_factory=dict)
    opened_ms: dict[str, int] = field(default_factory=dict)
    open_seats: dict[int, str] = field(default_factory=dict)
    given: dict[str, Given] = field(default_factory=dict)
    system: dict[tuple[int, str], int] = field(default_factory=dict)
    outbox: dict[int, tuple[str, str, bytes]] = field(default_factory=dict)
    accounts: dict[bytes, Account] = field(default_factory=dict)
    counted: dict[str, None] = field(default_factory=dict)
    statistics: dict[str, int] = field(default_factory=dict)

    def copied(self) -> Tables:
        """What a transaction of the ledger may change is copied; the values are frozen."""
        return replace(
            self,
            players=dict(self.players),
            hands=dict(self.hands),
            open_seats=dict(self.open_seats),
            given=dict(self.given),
            system=dict(self.system),
            outbox=dict(self.outbox),
        )


class Postgres:
    """The server. `lock` is held by the one transaction that runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.up = True
        self.tables = Tables()
        self.lock = asyncio.Lock()
        self.connections: list[Connection] = []
        self.leader: Connection | None = None
        self.news = 0

    def restart(self) -> None:
        """Every connection breaks; what was committed stays."""
        for connection in list(self.connections):
            connection.terminate()

    def forget(self, process: Process) -> None:
        """A process is gone, and its connections with it."""
        for connection in [one for one in self.connections if one.process is process]:
            connection.terminate()

    async def connect(self, *_arguments: Any, **_settings: Any) -> Connection:
        """A new connection; raises OSError when there is no server."""
        await self.trip()
        connection = Connection(self)
        self.connections.append(connection)
        return connection

    async def trip(self) -> None:
        """The way to the server and back; raises ConnectionError when it is not there."""
        process = PROCESS.get()
        await asyncio.sleep(self.world.chance.delay_s())
        if not self.up or (process is not None and not process.alive):
            raise ConnectionRefusedError("no simulated Postgres")

    # ---- guards ---------------------------------------------------------------------------------------------------

    def end_hand(self, hand: Hand, accounts: Sequence[int]) -> None:
        """Stores a settlement: once a hand, of an open hand, summing to 0, leaving nobody below 0."""
        end = hand.end
        assert end is not None
        if not self.may_end(self.tables.hands[hand.hand_id]):
            raise asyncpg.UniqueViolationError(f"settlement of {hand.hand_id}")
        for account in accounts:
            if self.tables.open_seats.get(account) == hand.hand_id:
                del self.tables.open_seats[account]
        if sum(end.chips) + sum(end.rake) + end.flee_chips:
            raise asyncpg.CheckViolationError("sums_to_zero")
        if any(before + change < 0 for before, change in zip(end.balance_before, end.chips, strict=True)):
            raise asyncpg.CheckViolationError("no_negative_balance")
        self.tables.hands[hand.hand_id] = hand

    @staticmethod
    def may_end(stored: Hand) -> bool:
        """The primary key of settlements, and that the seats are open."""
        return stored.end is None

    def seat(self, hand: Hand, accounts: Sequence[int]) -> None:
        """Stores an open hand; each account in one at most."""
        if hand.hand_id in self.tables.hands:
            raise asyncpg.UniqueViolationError(f"hand {hand.hand_id}")
        for account in accounts:
            if not self.may_sit(account):
                raise asyncpg.UniqueViolationError(f"open seat of {account}")
            self.tables.open_seats[account] = hand.hand_id
        self.tables.hands[hand.hand_id] = hand
        self.tables.opened_ms[hand.hand_id] = wall_ms(self.world)

    def may_sit(self, account: int) -> bool:
        """The primary key of open seats."""
        return account not in self.tables.open_seats

    def give(self, given: Given) -> None:
        """Stores a grant, once a key."""
        if not self.may_give(given.key):
            raise asyncpg.UniqueViolationError(f"grant {given.key}")
        self.tables.given[given.key] = given

    def may_give(self, key: str) -> bool:
        """The primary key of grants."""
        return key not in self.tables.given

    def post(self, player_id: str, before: tuple[int, int], chips: int, rating: int) -> None:
        """Moves a player's balances, which must be those that the rules were computed from."""
        player = self.tables.players[player_id]
        if (player.chips, player.rating) != before:
            raise asyncpg.SerializationError("a balance is not the one that was read")
        if player.chips + chips < 0 or player.rating + rating < 0:
            raise asyncpg.CheckViolationError("chips_not_negative")
        self.tables.players[player_id] = player._replace(chips=player.chips + chips, rating=player.rating + rating)

    def post_system(self, legs: Iterable[Leg]) -> None:
        """Moves what goes to the system's accounts."""
        for leg in legs:
            key = leg.account, leg.unit
            self.tables.system[key] = self.tables.system.get(key, 0) + leg.amount

    def tell(self, subject: str, key: str, payload: bytes) -> None:
        """Puts a row into the outbox."""
        self.news += 1
        self.tables.outbox[self.news] = (subject, key, payload)


class Connection:
    """What asyncpg.Connection is to the ledger: transactions, and the relay's few queries."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.process = PROCESS.get()
        self._alive = True
        self._holds = False
        self._writes: list[tuple[Change, Callable[[], None]]] = []

    def terminate(self) -> None:
        """Drops the connection; what it had not committed is not stored."""
        self._alive = False
        self._writes = []
        if self._server.leader is self:
            self._server.leader = None
        if self in self._server.connections:
            self._server.connections.remove(self)
        self._release()

    def _release(self) -> None:
        if self._holds:
            self._holds = False
            self._server.lock.release()

    async def trip(self) -> None:
        """One round trip; raises ConnectionDoesNotExistError when the connection is broken."""
        await self._server.trip()
        if not self._alive or self._server.world.chance.strikes("postgres connection broken", 0.0005):
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the simulated connection broke")

    def write(self, change: Change, store: Callable[[], None]) -> None:
        """Something to be stored with the transaction."""
        self._writes.append((change, store))

    async def execute(self, query: str, *arguments: Any) -> str:
        """BEGIN, COMMIT, ROLLBACK, DISCARD PLANS and ledger.forget_news."""
        match query.split()[0]:
            case "BEGIN":
                await self._server.lock.acquire()
                self._holds = True
            case "COMMIT":
                await self._commit()
            case "ROLLBACK":
                self._writes = []
                self._release()
            case "SELECT":
                assert "forget_news" in query
                await self.trip()
                for outbox_id in arguments[0]:
                    self._server.tables.outbox.pop(outbox_id, None)
            case _:
                assert query == "DISCARD PLANS", query
        return ""

    async def _commit(self) -> None:
        server = self._server
        await server.trip()
        if not self._alive:
            raise asyncpg.ConnectionDoesNotExistError("the simulated connection broke")
        broken = server.world.chance.strikes("commit not answered", 0.003)
        if not broken or server.world.chance.rng.random() < 0.5:
            self._store()
        self._release()
        if broken:
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the simulated connection broke at COMMIT")

    def _store(self) -> None:
        """All or nothing: a guard that refuses leaves everything as it was."""
        server, before = self._server, self._server.tables
        writes, self._writes = self._writes, []
        if not writes:
            return
        server.tables = before.copied()
        try:
            for _, store in writes:
                store()
        except asyncpg.PostgresError:
            server.tables = before
            self._release()
            raise
        server.world.audit.committed([change for change, _ in writes])

    async def fetchval(self, _query: str, *_arguments: Any) -> bool:
        """pg_try_advisory_lock."""
        await self.trip()
        if self._server.leader is None:
            self._server.leader = self
        return self._server.leader is self

    async def fetch(self, query: str, limit: int) -> list[dict[str, Any]]:
        """ledger.oldest_news."""
        assert "oldest_news" in query
        await self.trip()
        rows = sorted(self._server.tables.outbox.items())[:limit]
        return [
            {"outbox_id": outbox_id, "subject": subject, "key": key, "payload": payload, "traceparent": None}
            for outbox_id, (subject, key, payload) in rows
        ]
