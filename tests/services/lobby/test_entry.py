"""Log-in and registration: who is let in, as whom."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import time
from typing import Any

import jwt
from google.protobuf import json_format
from prometheus_client import REGISTRY

from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit import clients
from services.lobby.store import Store
from tests.services.lobby.conftest import Settle, Town, refusal_of

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
