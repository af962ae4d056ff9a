"""How often anybody may try to log in or register, and what counts as a try."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit.config import describe
from services.lobby import service
from services.lobby.passwords import Passwords
from services.lobby.store import Store
from tests.services.lobby.conftest import Settle, Town, refusal_of

# How often the suite's share of races is run: `RACES=20 make test ARGS="-k races"`.
from tests.services.lobby.test_entry import network, password_login, tries


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
    with pytest.raises(VerifyMismatchError):  # and not that it were no hash, which would cost nothing
        PasswordHasher().verify(passwords._nobody, "wrong horse")
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
