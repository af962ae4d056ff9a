"""services/lobby/store.py and the pool of the scorekeeper over the simulated Postgres: guests and statistics.

Their SQL is modelled. Sessions are not kept, nobody is rate-limited and tokens are not signed: the simulation is about
accounts and what they are given. Real: entry.py, scorekeeper.py, seating.py, tables.py, board.py and directory.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from services.lobby.account import GUEST_NAME, Account
from tests.sim.system.redis import wall_ms

if TYPE_CHECKING:
    from tests.sim.system.world import World


class LobbyStore:
    """Accounts; every method is one transaction."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def is_guest(self, device_hash: bytes) -> bool:
        """Whether the device has an account."""
        await self._world.postgres.trip()
        return device_hash in self._world.postgres.tables.accounts

    async def guest(self, device_hash: bytes, *, bot: bool) -> tuple[Account, bool]:
        """The guest of a device, made when there is none; whether this call made him."""
        await self._world.postgres.trip()
        accounts = self._world.postgres.tables.accounts
        if device_hash in accounts:
            return accounts[device_hash], False
        number = len(accounts) + 1
        account = Account(number, f"{GUEST_NAME}{number}", 0, bot, False, wall_ms(self._world))
        accounts[device_hash] = account
        return account, True

    async def set_granted(self, number: int) -> None:
        """Notes that the sign-up chips have been given."""
        await self._world.postgres.trip()
        accounts = self._world.postgres.tables.accounts
        for key, account in accounts.items():
            if account.number == number:
                accounts[key] = replace(account, granted=True)
                return

    async def add_session(self, *_arguments: Any) -> None:
        """Sessions are not kept."""
        await self._world.postgres.trip()


class StatisticsPool:
    """The pool of the scorekeeper: its one statement that counts hands, each once, and the one that prunes."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def fetchval(self, query: str, hand_ids: list[str], player_ids: list[str], *columns: list[int]) -> int:
        """Adds what has not been counted; how many hands that were."""
        assert "lobby.counted_hand" in query
        await self._world.postgres.trip()
        tables = self._world.postgres.tables
        new = [hand_id for hand_id in dict.fromkeys(hand_ids) if self.is_new(hand_id)]
        for hand_id, player_id, hands in zip(hand_ids, player_ids, columns[0], strict=True):
            if hand_id in new:
                tables.statistics[player_id] = tables.statistics.get(player_id, 0) + hands
        tables.counted.update(dict.fromkeys(new))
        if self._world.chance.strikes("statement not answered", 0.01):
            raise ConnectionResetError("the simulated connection broke")
        return len(new)

    def is_new(self, hand_id: str) -> bool:
        """The primary key of counted hands."""
        return hand_id not in self._world.postgres.tables.counted

    async def execute(self, _query: str, *_arguments: Any) -> None:
        """Nothing grows old in a run."""


class NoLimits:
    """In the place of Attempts: nobody is limited."""

    async def count(self, *_arguments: Any) -> None:
        """One more try."""

    async def take_back(self, *_arguments: Any) -> None:
        """One less."""


class PlainTokens:
    """In the place of Tokens: the simulated gateway believes who calls."""

    def access(self, account: Account, _shown: str) -> tuple[str, int]:
        """A token that nobody checks."""
        return account.player_id, 0


class NoPasswords:
    """In the place of Passwords, which hashes for tens of milliseconds when it is made: here all are guests."""
