"""Profiles: the account, with what the ledger and the tables know of the player."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Final

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import remote
from servicekit.seats import Seats
from services.lobby.account import Account, Reason, display_name, number_of, require_own_name
from services.lobby.entry import to_player
from services.lobby.presence import Presence
from services.lobby.scorekeeper import Scorekeeper
from services.lobby.store import Store

_LEDGER_TIMEOUT_S: Final = 5.0


class Profiles:
    """Reads and changes profiles."""

    def __init__(
        self,
        store: Store,
        presence: Presence,
        seats: Seats,
        scores: Scorekeeper,
        ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
        public_ledger: ledger_pb2_grpc.LedgerServiceAsyncStub,
    ) -> None:
        self._store = store
        self._presence = presence
        self._seats = seats
        self._scores = scores
        self._ledger = ledger
        self._public_ledger = public_ledger

    async def account(self, player_id: str) -> Account:
        """The account of a player; raises NOT_FOUND."""
        account = await self._store.account(number_of(player_id))
        if account is None:
            raise Refusal(Reason.NOT_FOUND, "There is no such player.", field="player_id")
        return account

    async def get(self, player_id: str, caller_id: str) -> lobby_pb2.Profile:
        """A player's profile; his chips are shown to himself alone."""
        return await self._profile(await self.account(player_id), own=player_id == caller_id)

    async def update(self, player_id: str, name: str, avatar_id: int) -> lobby_pb2.Profile:
        """Sets display name and avatar; tables show them from the next token and seat on."""
        require_own_name(await self.account(player_id), time.time_ns() // 1_000_000)
        account = await self._store.update_profile(number_of(player_id), display_name(name), avatar_id)
        if account is None:
            raise Refusal(Reason.NOT_FOUND, "There is no such player.", field="player_id")
        return await self._profile(account, own=True)

    async def leaders(self, unit: str, limit: int) -> list[lobby_pb2.Leader]:
        """The highest ratings or chips, with names; without those who have chips at the ledger and no account here."""
        request = ledger_pb2.ListLeadersRequest(unit=unit, limit=limit)
        call = self._public_ledger.ListLeaders(request, timeout=_LEDGER_TIMEOUT_S)
        balances = {_number(balance.player_id): balance for balance in (await remote.ask(call, "ledger")).leaders}
        accounts = await self._store.accounts(balances)
        shown = [(accounts[number], balance) for number, balance in balances.items() if number in accounts]
        return [
            lobby_pb2.Leader(
                place=place,
                player=to_player(account),
                chips=balance.chips,
                rating=balance.rating,
                title=balance.title,
            )
            for place, (account, balance) in enumerate(shown, 1)
        ]

    async def _profile(self, account: Account, *, own: bool) -> lobby_pb2.Profile:
        request = ledger_pb2.ListBalancesRequest(player_ids=[account.player_id])
        answer = await remote.ask(self._ledger.ListBalances(request, timeout=_LEDGER_TIMEOUT_S), "ledger")
        balance = answer.balances[0]
        seat = self._seats.hint(account.player_id)
        return lobby_pb2.Profile(
            player=to_player(account),
            chips=balance.chips if own else 0,
            rating=balance.rating,
            title=balance.title,
            created_at_ms=account.created_at_ms,
            statistics=lobby_pb2.Statistics(**asdict(await self._scores.of(account.player_id))),
            online=bool(seat) or await self._presence.is_online(account.player_id),
            table_id=seat if own else "",
        )


def _number(player_id: str) -> int:
    """The number of an account, or 0, which none has: an operator's gift makes an account of any name at the ledger."""
    try:
        return number_of(player_id)
    except Refusal:
        return 0
