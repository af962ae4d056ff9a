"""Log-in, registration, refresh and log-out."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from google.protobuf import json_format
from prometheus_client import REGISTRY

from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import clients
from servicekit.config import describe
from services.lobby import service
from services.lobby.passwords import Passwords
from services.lobby.store import GREATEST_SESSIONS, Store, Successor
from tests.services.lobby.conftest import Person, Settle, Town, refusal_of
from tests.services.lobby.test_board import until

# How often the suite's share of races is run: `RACES=20 make test ARGS="-k races"`.
RACES = int(os.environ.get("RACES", "1"))


def password_login(name: str, password: str) -> lobby_pb2.LoginRequest:
    return lobby_pb2.LoginRequest(password=lobby_pb2.PasswordLogin(name=name, password=password))


async def tries(town: Town) -> set[tuple[Any, Any]]:
    """What counts against anybody now."""
    kept = {key: await town.redis.get(key) for key in await town.redis.keys("lobby:tries:*")}
    return {(key, count) for key, count in kept.items() if count not in (None, b"0")}


def network() -> str:
    """An address that no other test calls from."""
    return f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}::1"


def away() -> None:
    """For the ledger's `fault`."""
    raise Refusal("UNAVAILABLE", "down")


async def test_a_new_device_key_makes_a_guest_with_the_sign_up_chips(town: Town) -> None:
    key = secrets.token_hex(16)
    first = await town.guest(key)
    again = await town.guest(key)
    assert (first.created, again.created) == (True, False)
    assert first.player == again.player
    assert first.player.display_name == f"游客{first.player.player_id[1:]}"
    assert town.ledger.chips[first.player.player_id] == 10_000
    assert town.ledger.grants[f"signup:{first.player.player_id}"] == (first.player.player_id, 10_000)


async def test_the_access_token_says_who_it_is_and_checks_with_the_public_keys(town: Town) -> None:
    answer = await town.guest()
    told = (await town.stub.ListKeys(lobby_pb2.ListKeysRequest())).keys
    assert [key.kid for key in told] == ["new", "old"]
    public = jwt.PyJWKSet.from_dict(json_format.MessageToDict(lobby_pb2.ListKeysResponse(keys=told)))
    header = jwt.get_unverified_header(answer.session.access_token)
    assert header["kid"] == "new"
    claims = jwt.decode(
        answer.session.access_token, public["new"].key, algorithms=["ES256"], audience="ddz", issuer="ddz-lobby"
    )
    assert claims["sub"] == answer.player.player_id == answer.session.player_id
    assert base64.urlsafe_b64decode(claims["name"] + "==").decode() == answer.player.display_name
    assert (claims["avatar"], claims["bot"]) == (0, False)
    assert claims["exp"] * 1000 == answer.session.access_expires_at_ms
    assert 880 < claims["exp"] - time.time() <= 900


async def test_a_bot_key_makes_a_bot_only_where_bots_are_allowed(town: Town, found: Settle) -> None:
    assert (await town.guest(f"bot:{secrets.token_hex(16)}")).player.bot
    async with found(allow_bots=False) as strict:
        assert not (await strict.guest(f"bot:{secrets.token_hex(16)}")).player.bot


async def test_two_log_ins_with_one_new_key_make_one_guest(town: Town) -> None:
    for _ in range(50):
        key = secrets.token_hex(16)
        answers = await asyncio.gather(*(town.guest(key) for _ in range(4)))
        assert len({answer.player.player_id for answer in answers}) == 1
        assert [answer.created for answer in answers].count(True) == 1
        assert town.ledger.chips[answers[0].player.player_id] == 10_000


async def test_a_device_is_one_guest_when_log_ins_race(town: Town) -> None:
    """The same race, without the wire."""
    async with clients.postgres(town.config.postgres_dsn, connections=8) as pool:
        store = Store(pool)

        async def one() -> None:
            device = secrets.token_bytes(32)
            found = await asyncio.gather(*(store.guest(device, bot=False) for _ in range(4)))
            assert len({account.number for account, _ in found}) == 1
            assert [created for _, created in found].count(True) == 1

        for _ in range(50 * RACES):
            await asyncio.gather(*(one() for _ in range(20)))


async def test_a_guest_gets_in_once_the_ledger_has_granted(town: Town) -> None:
    key = secrets.token_hex(16)
    town.ledger.fault = away
    try:
        assert (await refusal_of(town.guest(key))).reason == "UNAVAILABLE"
    finally:
        town.ledger.fault = lambda: None
    answer = await town.guest(key)
    assert town.ledger.chips[answer.player.player_id] == 10_000


async def test_a_grant_of_another_amount_is_not_given_twice(town: Town, found: Settle) -> None:
    key = secrets.token_hex(16)
    player_id = (await town.guest(key)).player.player_id
    town.postgres.psql(f"UPDATE lobby.account SET granted = false WHERE number = {player_id[1:]}", "ddz")
    async with found(signup_chips=5) as other:
        other.ledger.grants.update(town.ledger.grants)
        assert (await other.guest(key)).player.player_id == player_id
        assert other.ledger.grants[f"signup:{player_id}"] == (player_id, 10_000)


async def test_device_keys_passwords_and_tokens_are_not_kept(town: Town) -> None:
    key, name, password = secrets.token_hex(16), f"n{secrets.token_hex(6)}", secrets.token_hex(16)
    guest = await town.guest(key)
    registered = await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password=password))
    dump = town.postgres.psql("SELECT * FROM lobby.account; SELECT * FROM lobby.session;", "ddz")
    for secret in (key, password, guest.session.refresh_token, registered.session.refresh_token):
        assert secret not in dump
        assert secret.encode().hex() not in dump
    assert "$argon2id$" in dump


async def test_name_and_password(town: Town) -> None:
    name, password = f"Müller{secrets.token_hex(4)}", "correct horse"
    made = await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password=password, display_name=" 张 三 "))
    assert made.player.display_name == "张 三"
    back = await town.stub.Login(password_login(name.upper(), password))
    assert back.player == made.player
    assert not back.created


async def test_a_name_is_taken_whatever_its_case_and_width(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    for spelling in (name, name.upper(), "".join(chr(ord(c) + 0xFEE0) for c in name)):
        refused = await refusal_of(
            town.stub.Register(lobby_pb2.RegisterRequest(name=spelling, password="another horse"))
        )
        assert refused.reason == "NAME_TAKEN"


async def test_two_registrations_of_one_name_make_one_account(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    requests = [lobby_pb2.RegisterRequest(name=name, password=f"{each} horse") for each in ("a", "second", "third")]
    answers = await asyncio.gather(*(town.stub.Register(request) for request in requests), return_exceptions=True)
    assert sum(isinstance(answer, lobby_pb2.RegisterResponse) for answer in answers) == 1


async def test_one_registration_sent_twice_at_once_makes_one_account(town: Town) -> None:
    request = lobby_pb2.RegisterRequest(name=f"name{secrets.token_hex(4)}", password="correct horse")
    answers = await asyncio.gather(*(town.stub.Register(request) for _ in range(4)))
    assert len({answer.player.player_id for answer in answers}) == 1


async def test_a_registration_sent_again_leads_in(found: Settle) -> None:
    """The ledger is away when the account is made, and then an answer is lost; no repeat counts as a new account."""
    async with found(accounts_per_hour=2) as town:
        metadata = [("x-forwarded-for", network())]
        name = f"name{secrets.token_hex(4)}"
        request = lobby_pb2.RegisterRequest(name=name, password="correct horse", display_name="Ann")
        town.ledger.fault = away
        assert (await refusal_of(town.stub.Register(request, metadata=metadata))).reason == "UNAVAILABLE"
        town.ledger.fault = lambda: None
        before = await tries(town)
        request.name = name.upper()
        answers = [await town.stub.Register(request, metadata=metadata) for _ in range(3)]
        assert len({answer.player.player_id for answer in answers}) == 1
        assert town.ledger.chips[answers[0].player.player_id] == 10_000
        assert await tries(town) <= before
        town.postgres.psql(f"UPDATE lobby.account SET banned_until_ms = {2**62} WHERE login_name = '{name}'", "ddz")
        assert (await refusal_of(town.stub.Register(request, metadata=metadata))).reason == "BANNED"


async def test_registration_is_no_way_round_the_limits_of_log_in(town: Town) -> None:
    name, metadata = f"name{secrets.token_hex(4)}", [("x-forwarded-for", network())]
    await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    wrong = lobby_pb2.RegisterRequest(name=name, password="wrong horse")
    reasons = [(await refusal_of(town.stub.Register(wrong, metadata=metadata))).reason for _ in range(11)]
    assert reasons == ["NAME_TAKEN"] * 10 + ["RATE_LIMITED"]
    for call in (
        town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"), metadata=metadata),
        town.stub.Login(password_login(name, "correct horse"), metadata=metadata),
    ):
        assert (await refusal_of(call)).reason == "RATE_LIMITED"


async def test_a_taken_name_counts_as_a_new_account(found: Settle) -> None:
    """So that an address can try only so many names."""
    async with found(accounts_per_hour=2) as town:
        names = [f"name{secrets.token_hex(4)}" for _ in range(3)]
        for name in names:
            first = lobby_pb2.RegisterRequest(name=name, password="correct horse")
            await town.stub.Register(first, metadata=[("x-forwarded-for", network())])
        metadata = [("x-forwarded-for", network())]
        tried = [lobby_pb2.RegisterRequest(name=name, password="wrong horse") for name in names]
        reasons = [(await refusal_of(town.stub.Register(each, metadata=metadata))).reason for each in tried]
        assert reasons == ["NAME_TAKEN", "NAME_TAKEN", "RATE_LIMITED"]


def ways_in(method: str, result: str) -> float:
    return REGISTRY.get_sample_value("ddz_logins_total", {"method": method, "result": result}) or 0


async def test_who_is_banned_is_not_counted_as_let_in(town: Town) -> None:
    name, key = f"name{secrets.token_hex(4)}", secrets.token_hex(16)
    named = await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    numbers = [each.player.player_id[1:] for each in (named, await town.guest(key))]
    ban = f"UPDATE lobby.account SET banned_until_ms = {2**62} WHERE number IN ({', '.join(numbers)})"
    town.postgres.psql(ban, "ddz")
    before = [ways_in("guest", "ok"), ways_in("password", "ok"), ways_in("any", "banned")]
    assert (await refusal_of(town.guest(key))).reason == "BANNED"
    assert (await refusal_of(town.stub.Login(password_login(name, "correct horse")))).reason == "BANNED"
    after = [ways_in("guest", "ok"), ways_in("password", "ok"), ways_in("any", "banned")]
    assert after == [before[0], before[1], before[2] + 2]


async def test_a_wrong_name_and_a_wrong_password_are_refused_alike(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    wrong_password = await refusal_of(town.stub.Login(password_login(name, "wrong horse")))
    wrong_name = await refusal_of(town.stub.Login(password_login(f"x{name}", "wrong horse")))
    assert wrong_password.reason == wrong_name.reason == "BAD_CREDENTIALS"
    assert (wrong_password.message, wrong_password.data) == (wrong_name.message, wrong_name.data)


@pytest.mark.parametrize("exists", [True, False])
async def test_log_in_attempts_are_limited_whether_the_name_exists_or_not(town: Town, exists: bool) -> None:
    name = f"name{secrets.token_hex(4)}"
    if exists:
        await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    metadata = [("x-forwarded-for", f"198.51.100.{int(exists)}")]
    calls = (town.stub.Login(password_login(name, "wrong horse"), metadata=metadata) for _ in range(14))
    reasons = [(await refusal_of(call)).reason for call in calls]
    assert reasons == ["BAD_CREDENTIALS"] * 10 + ["RATE_LIMITED"] * 4
    elsewhere = [("x-forwarded-for", "198.51.100.1, 203.0.113.9")]
    refused = await refusal_of(town.stub.Login(password_login(name, "wrong horse"), metadata=elsewhere))
    assert refused.reason == "BAD_CREDENTIALS"


async def test_all_addresses_of_one_ipv6_network_are_one(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    reasons = []
    for host in range(12):
        metadata = [("x-forwarded-for", f"2001:db8:5:7::{host + 1:x}")]
        reasons.append(
            (await refusal_of(town.stub.Login(password_login(name, "wrong horse"), metadata=metadata))).reason
        )
    assert reasons == ["BAD_CREDENTIALS"] * 10 + ["RATE_LIMITED"] * 2
    elsewhere = [("x-forwarded-for", "2001:db8:5:8::1")]
    refused = await refusal_of(town.stub.Login(password_login(name, "wrong horse"), metadata=elsewhere))
    assert refused.reason == "BAD_CREDENTIALS"


async def test_a_name_that_does_not_exist_costs_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a log-in takes is one argon2 hash with the same parameters, whether there is an account or not."""
    passwords = Passwords()
    kept = await passwords.hash("correct horse")
    worked: list[str] = []

    def verify(self: PasswordHasher, known: str, password: str) -> bool:
        worked.append(known.rsplit("$", 2)[0])
        raise VerifyMismatchError

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    assert not await passwords.matches(None, "wrong horse")
    assert not await passwords.matches(kept, "wrong horse")
    assert worked == [kept.rsplit("$", 2)[0]] * 2


async def test_a_hash_that_nobody_waits_for_any_more_keeps_its_thread_and_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise who resets his log-ins has as many hashes made at once as he likes, each of 64 MiB."""
    passwords, go, begun = Passwords(), threading.Event(), threading.Semaphore(0)
    running: list[str] = []
    most = 0

    def verify(self: PasswordHasher, kept: str, password: str) -> bool:
        nonlocal most
        running.append(password)
        most = max(most, len(running))
        begun.release()
        go.wait()
        running.remove(password)
        return True

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    given_up = [asyncio.create_task(passwords.matches("kept", f"given up {number}")) for number in range(4)]
    for _ in given_up:
        await asyncio.to_thread(begun.acquire)
    for task in given_up:
        task.cancel()
    await asyncio.wait(given_up)
    others = [asyncio.create_task(passwords.matches("kept", f"other {number}")) for number in range(60)]
    one_too_many = asyncio.create_task(passwords.matches("kept", "one too many"))
    await asyncio.sleep(0)  # all of them have taken a place now, or found none
    go.set()
    with pytest.raises(Refusal, match="OVERLOADED"):
        await one_too_many
    assert all(await asyncio.gather(*others))
    assert most == 4


async def test_attempts_at_once_do_not_slip_through(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    metadata = [("x-forwarded-for", "198.51.100.77")]
    calls = (town.stub.Login(password_login(name, "wrong horse"), metadata=metadata) for _ in range(30))
    reasons = [(await task).reason for task in [asyncio.create_task(refusal_of(call)) for call in calls]]
    assert reasons.count("BAD_CREDENTIALS") == 10


async def test_log_ins_that_succeed_do_not_count(town: Town) -> None:
    name = f"name{secrets.token_hex(4)}"
    await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    for _ in range(12):
        await town.stub.Login(password_login(name, "correct horse"))


OVERLOADED = Refusal("OVERLOADED", "planted")


def failing(error: Exception) -> Callable[..., Awaitable[Any]]:
    """A method that fails."""

    async def fail(self: object, *arguments: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("of", "method", "error", "reason"),
    [(Passwords, "matches", OVERLOADED, "OVERLOADED"), (Store, "by_name", ConnectionError("planted"), "UNAVAILABLE")],
)
async def test_a_log_in_that_nobody_has_judged_counts_for_nothing(
    town: Town, monkeypatch: pytest.MonkeyPatch, of: type, method: str, error: Exception, reason: str
) -> None:
    name = f"name{secrets.token_hex(4)}"
    await town.stub.Register(lobby_pb2.RegisterRequest(name=name, password="correct horse"))
    before = await tries(town)
    with monkeypatch.context() as patch:
        patch.setattr(of, method, failing(error))
        for _ in range(12):
            assert (await refusal_of(town.stub.Login(password_login(name, "correct horse")))).reason == reason
    assert await tries(town) <= before
    await town.stub.Login(password_login(name, "correct horse"))


async def test_who_gives_up_a_log_in_has_tried(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise he has as many hashes made as he likes, and sees the verdict in how long they take."""
    begun, name = asyncio.Event(), f"name{secrets.token_hex(4)}"

    async def hang(self: object, *arguments: object) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return False

    metadata = [("x-forwarded-for", "198.51.100.78")]
    with monkeypatch.context() as patch:
        patch.setattr(Passwords, "matches", hang)
        for _ in range(10):
            begun.clear()
            call = town.stub.Login(password_login(name, "wrong horse"), metadata=metadata)
            asking = asyncio.ensure_future(refusal_of(call))
            await begun.wait()
            call.cancel()
            await asyncio.wait([asking])
    refused = await refusal_of(town.stub.Login(password_login(name, "wrong horse"), metadata=metadata))
    assert refused.reason == "RATE_LIMITED"


@pytest.mark.parametrize(
    ("of", "method", "error", "reason"),
    [(Passwords, "hash", OVERLOADED, "OVERLOADED"), (Store, "register", ConnectionError("planted"), "UNAVAILABLE")],
)
async def test_an_account_that_was_not_made_counts_for_nothing(
    found: Settle, monkeypatch: pytest.MonkeyPatch, of: type, method: str, error: Exception, reason: str
) -> None:
    async with found(accounts_per_hour=1) as town:
        metadata = [("x-forwarded-for", network())]
        name = f"name{secrets.token_hex(4)}"
        request = lobby_pb2.RegisterRequest(name=name, password="correct horse")
        with monkeypatch.context() as patch:
            patch.setattr(of, method, failing(error))
            for _ in range(2):
                assert (await refusal_of(town.stub.Register(request, metadata=metadata))).reason == reason
        await town.stub.Register(request, metadata=metadata)


def test_new_accounts_are_limited_unless_an_operator_says_otherwise() -> None:
    [default] = [row[2] for row in describe(service.Config) if row[0] == "DDZ_ACCOUNTS_PER_HOUR"]
    assert default == "20"


async def test_new_accounts_are_limited_by_address_where_configured(found: Settle) -> None:
    async with found(accounts_per_hour=2) as town:
        metadata = [("x-forwarded-for", f"192.0.2.{secrets.randbelow(200)}")]
        keys = [secrets.token_hex(16) for _ in range(3)]

        def login(key: str) -> lobby_pb2.LoginRequest:
            return lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key=key))

        for key in keys[:2]:
            await town.stub.Login(login(key), metadata=metadata)
        assert (await refusal_of(town.stub.Login(login(keys[2]), metadata=metadata))).reason == "RATE_LIMITED"
        await town.stub.Login(login(keys[0]), metadata=metadata)


async def refreshed(town: Town, session: lobby_pb2.Session) -> lobby_pb2.Session:
    request = lobby_pb2.RefreshRequest(refresh_token=session.refresh_token)
    return (await town.stub.Refresh(request)).session


async def test_a_refresh_token_is_good_once(found: Settle) -> None:
    async with found(refresh_grace_s=0.0) as town:
        first = (await town.guest()).session
        second = await refreshed(town, first)
        assert second.player_id == first.player_id
        assert second.refresh_token != first.refresh_token
        assert second.access_token != first.access_token
        assert (await refusal_of(refreshed(town, first))).reason == "UNAUTHENTICATED"


async def test_a_refresh_token_that_comes_twice_ends_its_family_alone(found: Settle) -> None:
    async with found(refresh_grace_s=0.0) as town:
        key = secrets.token_hex(16)
        stolen, other = (await town.guest(key)).session, (await town.guest(key)).session
        second = await refreshed(town, stolen)
        await refusal_of(refreshed(town, stolen))
        assert (await refusal_of(refreshed(town, second))).reason == "UNAUTHENTICATED"
        await refreshed(town, other)


async def test_a_refresh_whose_answer_was_lost_is_answered_again(town: Town) -> None:
    first = (await town.guest()).session
    lost = await refreshed(town, first)
    again = await refreshed(town, first)
    assert again.refresh_token == lost.refresh_token
    third = await refreshed(town, again)
    assert third.refresh_token not in (first.refresh_token, again.refresh_token)


async def test_a_refresh_token_whose_successor_was_used_ends_its_family(town: Town) -> None:
    """Who repeats it did not lose the answer."""
    first = (await town.guest()).session
    third = await refreshed(town, await refreshed(town, first))
    for session in (first, third):
        assert (await refusal_of(refreshed(town, session))).reason == "UNAUTHENTICATED"


async def test_a_session_that_is_refreshed_again_and_again_ends_alone(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of it does not grow for ever; what it used up long ago does not count."""
    monkeypatch.setattr("services.lobby.store.GREATEST_REFRESHES", 3)
    key = secrets.token_hex(16)
    other, session = (await town.guest(key)).session, (await town.guest(key)).session
    theirs = f"lobby.session SET used_at = used_at - interval '2 days' WHERE number = {session.player_id[1:]}"
    for _ in range(3):
        session = await refreshed(town, session)
    town.postgres.psql(f"UPDATE {theirs}", "ddz")
    for _ in range(3):
        session = await refreshed(town, session)
    last = await refusal_of(refreshed(town, session))
    assert last.reason == "UNAUTHENTICATED"
    left = f"SELECT count(*) FROM lobby.session WHERE number = {session.player_id[1:]}"
    assert town.postgres.psql(left, "ddz").strip() == "1"
    await refreshed(town, other)


async def test_refreshes_at_once_give_one_session(town: Town) -> None:
    for _ in range(20):
        session = (await town.guest()).session
        answers = await asyncio.gather(*(refreshed(town, session) for _ in range(4)))
        assert len({answer.refresh_token for answer in answers}) == 1


async def test_a_refresh_token_runs_out(found: Settle) -> None:
    async with found(refresh_token_s=0) as town:
        request = lobby_pb2.RefreshRequest(refresh_token=(await town.guest()).session.refresh_token)
        assert (await refusal_of(town.stub.Refresh(request))).reason == "UNAUTHENTICATED"


async def test_sessions_that_have_run_out_are_forgotten_though_nobody_comes_back(
    town: Town, found: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.lobby.store._FORGET_AT_ONCE", 1)
    away, there = [(await town.guest()).session for _ in range(3)], (await town.guest()).session
    theirs = f"WHERE number IN ({', '.join(session.player_id[1:] for session in away)})"
    town.postgres.psql(f"UPDATE lobby.session SET expires_at = now() - interval '1 second' {theirs}", "ddz")

    async def gone() -> bool:
        return town.postgres.psql(f"SELECT count(*) FROM lobby.session {theirs}", "ddz").strip() == "0"

    async with found():
        await until(gone)
    await refreshed(town, there)


async def test_an_account_has_so_many_sessions_and_the_newest_stay(town: Town) -> None:
    key = secrets.token_hex(16)
    sessions = [(await town.guest(key)).session for _ in range(GREATEST_SESSIONS + 1)]
    assert (await refusal_of(refreshed(town, sessions[0]))).reason == "UNAUTHENTICATED"
    for session in (sessions[1], sessions[-1]):
        await refreshed(town, session)


async def test_log_out_ends_every_session(town: Town) -> None:
    key = secrets.token_hex(16)
    sessions = [await town.guest(key) for _ in range(3)]
    person = Person(town, sessions[0].player)
    await person.call("LogOut", lobby_pb2.LogOutRequest())
    for answer in sessions:
        request = lobby_pb2.RefreshRequest(refresh_token=answer.session.refresh_token)
        assert (await refusal_of(town.stub.Refresh(request))).reason == "UNAUTHENTICATED"


async def test_no_session_outlives_a_log_out_or_a_theft_that_races_a_refresh(town: Town) -> None:
    """Without the wire: what ends sessions ends the one that a refresh is just making."""
    life, none = timedelta(days=1), timedelta(0)

    def successor() -> Successor:
        return Successor(secrets.token_bytes(32), secrets.token_bytes(32))

    async with clients.postgres(town.config.postgres_dsn, connections=8) as pool:
        store = Store(pool)

        async def one(number: int, *, log_out: bool, swapped: bool) -> None:
            first, second = secrets.token_bytes(32), successor()
            await store.add_session(number, first, life)
            await store.rotate(first, second, life, none)
            ends = store.end_sessions(number) if log_out else store.rotate(first, successor(), life, none)
            renews = store.rotate(second.token_hash, successor(), life, none)
            await asyncio.gather(*([renews, ends] if swapped else [ends, renews]))
            assert await pool.fetchval("SELECT count(*) FROM lobby.session WHERE number = $1", number) == 0

        accounts = [(await store.guest(secrets.token_bytes(32), bot=False))[0] for _ in range(8)]
        for turn in range(25 * RACES):
            for log_out in (True, False):
                swapped = turn % 2 == 0
                await asyncio.gather(*(one(who.number, log_out=log_out, swapped=swapped) for who in accounts))


async def test_who_carries_no_token_is_asked_to_log_in(town: Town) -> None:
    assert (await refusal_of(town.stub.LogOut(lobby_pb2.LogOutRequest()))).reason == "UNAUTHENTICATED"
    assert (await refusal_of(town.stub.GetProfile(lobby_pb2.GetProfileRequest()))).reason == "UNAUTHENTICATED"
