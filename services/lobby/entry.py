"""The way in: log-in, registration, refresh and log-out. Whoever holds a session has had the sign-up chips."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from prometheus_client import Counter

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import logs, orders, remote
from servicekit.clients import AWAY
from services.lobby import attempts as limits
from services.lobby import tokens
from services.lobby.account import BOT_KEY_PREFIX, GREATEST_NAME_LENGTH, Account, Reason, display_name, login_name
from services.lobby.attempts import Attempts, Counted, Limit
from services.lobby.passwords import Passwords
from services.lobby.store import Store, Successor
from services.lobby.tokens import Tokens

LOGINS: Final = Counter("ddz_logins", "Ways in taken, by method and result", ["method", "result"])

_LEDGER_TIMEOUT_S: Final = 5.0
_HOUR_S: Final = 3600

log = logs.get("entry")


@dataclass(frozen=True, slots=True)
class EntryTerms:
    """What an operator decides about accounts."""

    signup_chips: int  # 0 = none
    refresh_s: int
    refresh_grace_s: float  # how long a refresh may be repeated
    allow_bots: bool
    accounts_per_hour: int  # new ones from one address; 0 = any number


class Entry:
    """Makes and renews sessions."""

    def __init__(
        self,
        terms: EntryTerms,
        store: Store,
        attempts: Attempts,
        issuer: Tokens,
        ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
    ) -> None:
        self._terms = terms
        self._store = store
        self._attempts = attempts
        self._tokens = issuer
        self._ledger = ledger
        self._passwords = Passwords()
        self._refresh_life = timedelta(seconds=terms.refresh_s)

    async def guest(self, device_key: str, address: str) -> tuple[Account, lobby_pb2.Session, bool]:
        """The guest of a device key; whether he is new. A bot says so by its key, where bots are allowed."""
        bot = self._terms.allow_bots and device_key.startswith(BOT_KEY_PREFIX)
        device = tokens.digest(device_key)
        counted = () if await self._store.is_guest(device) else self._new_from(address)
        async with limits.trying(self._attempts, *counted):
            account, created = await self._store.guest(device, bot=bot)
        _require_welcome(account)
        LOGINS.labels("guest", "created" if created else "ok").inc()
        return account, await self._open(account), created

    async def password(self, name: str, password: str, address: str) -> tuple[Account, lobby_pb2.Session]:
        """The account of a name and password; raises BAD_CREDENTIALS, alike for a wrong name and password.

        Who has the right ones and is banned is told so: BANNED, as by every way in.
        """
        account = await self._proven(login_name(name), password, address)
        if account is None:
            LOGINS.labels("password", "refused").inc()
            raise Refusal(Reason.BAD_CREDENTIALS, "Name or password is wrong.")
        _require_welcome(account)
        LOGINS.labels("password", "ok").inc()
        return account, await self._open(account)

    async def register(self, name: str, password: str, shown: str, address: str) -> tuple[Account, lobby_pb2.Session]:
        """A new account; raises NAME_TAKEN.

        That tells anybody that a name exists: people choose names, so registration has to. Log-in does not tell, and
        `accounts_per_hour` bounds how many names an address can try. With the account's own password it is a log-in,
        at any time and within the limits of one: the first answer may have been lost, or the ledger been away.
        """
        key, counted = login_name(name), self._new_from(address)
        kept_name = display_name(shown or name[:GREATEST_NAME_LENGTH])
        async with limits.trying(self._attempts, *counted):
            made = await self._store.register(key, await self._passwords.hash(password), kept_name)
        account = made or await self._proven(key, password, address)
        if account is None:
            raise Refusal(Reason.NAME_TAKEN, "This name is taken.", field="name")
        if made is None:
            await self._attempts.take_back(*counted)
        _require_welcome(account)
        LOGINS.labels("register", "created" if made else "ok").inc()
        return account, await self._open(account)

    async def refresh(self, refresh_token: str) -> lobby_pb2.Session:
        """A new session for a refresh token, which is used up; raises UNAUTHENTICATED when it is not good.

        For `refresh_grace_s` a repeat gets the same new refresh token: the first answer may have been lost.
        """
        salt = tokens.new_salt()
        new = Successor(salt, tokens.digest(tokens.successor(refresh_token, salt)))
        grace = timedelta(seconds=self._terms.refresh_grace_s)
        rotated = await self._store.rotate(tokens.digest(refresh_token), new, self._refresh_life, grace)
        if rotated is None:
            LOGINS.labels("refresh", "refused").inc()
            owner = await self._store.owner(tokens.digest(refresh_token))
            if owner is not None:
                _require_welcome(owner)
            raise Refusal(Reason.UNAUTHENTICATED, "Log in again: this refresh token is not good any more.")
        _require_welcome(rotated.account)
        LOGINS.labels("refresh", "ok").inc()
        return self._session(rotated.account, tokens.successor(refresh_token, rotated.salt))

    def public_keys(self) -> list[dict[str, str]]:
        """The public keys that access tokens can be checked with."""
        return self._tokens.public()

    async def log_out(self, number: int) -> None:
        """Ends every session of an account; its access tokens run out by themselves, soon (docs/operations.md)."""
        await self._store.end_sessions(number)

    async def keep_pruned(self) -> None:
        """Forgets once an hour the sessions that have run out: who does not come back forgets none himself."""
        while True:
            try:
                while await self._store.forget_expired():
                    pass
            except AWAY as error:
                log.warning("sessions not pruned", extra={"why": repr(error)})
            await asyncio.sleep(_HOUR_S)

    async def _proven(self, key: str, password: str, address: str) -> Account | None:
        """The account that a name and a password prove, None when one is wrong; one try of so many: RATE_LIMITED."""
        counted = ((limits.NAME_FROM_ADDRESS, f"{key} {address}"), (limits.NAME, key), (limits.ADDRESS, address))
        found = await self._store.by_name(key)  # before it counts: who gives up while Postgres is away has not tried
        async with limits.trying(self._attempts, *counted):
            right = await self._passwords.matches(found[1] if found else None, password)
        if not right:
            return None
        assert found is not None
        account, kept = found
        await self._attempts.forget(*counted[0])
        await self._attempts.take_back(*counted[1:])
        if self._passwords.outdated(kept):
            await self._store.set_password(account.number, await self._passwords.hash(password))
        return account

    def _new_from(self, address: str) -> tuple[Counted, ...]:
        """What a new account counts for."""
        if not self._terms.accounts_per_hour:
            return ()
        return ((Limit("new_account", self._terms.accounts_per_hour, _HOUR_S), address),)

    async def _open(self, account: Account) -> lobby_pb2.Session:
        """The session of a log-in, after the sign-up grant; one that could not be made is made at the next log-in."""
        if self._terms.signup_chips and not account.granted:
            await self._grant(account)
        refresh = tokens.new_refresh()
        await self._store.add_session(account.number, tokens.digest(refresh), self._refresh_life)
        return self._session(account, refresh)

    async def _grant(self, account: Account) -> None:
        request = ledger_pb2.GrantRequest(
            key=f"signup:{account.player_id}",
            player_id=account.player_id,
            chips=self._terms.signup_chips,
            kind="signup",
        )
        try:
            await remote.ask(self._ledger.Grant(request, timeout=_LEDGER_TIMEOUT_S), "ledger")
        except Refusal as refusal:
            if refusal.reason != "KEY_CONFLICT":  # granted already, when the amount was another one
                raise
        await self._store.set_granted(account.number)

    def _session(self, account: Account, refresh: str) -> lobby_pb2.Session:
        access, access_expires_at_ms = self._tokens.access(account, to_player(account).display_name)
        return lobby_pb2.Session(
            player_id=account.player_id,
            access_token=access,
            access_expires_at_ms=access_expires_at_ms,
            refresh_token=refresh,
            refresh_expires_at_ms=int((time.time() + self._terms.refresh_s) * 1000),
        )


def _require_welcome(account: Account) -> None:
    """Raises Refusal BANNED."""
    if account.banned_until_ms > time.time_ns() // 1_000_000:
        LOGINS.labels("any", "banned").inc()
        raise orders.banned(account.banned_until_ms)


def to_player(account: Account) -> common_pb2.Player:
    """The account as everybody sees it: under a neutral name while it is muted."""
    muted = account.muted_until_ms > time.time_ns() // 1_000_000
    return common_pb2.Player(
        player_id=account.player_id,
        display_name=orders.neutral_name(account.player_id) if muted else account.display_name,
        avatar_id=account.avatar_id,
        bot=account.bot,
    )
