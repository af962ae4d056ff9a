"""Acts of operators in a real Postgres: once, whatever happens, and for good."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from prometheus_client import REGISTRY

from ddz.admin.v1 import admin_pb2
from doudizhu.refusal import Refusal
from services.lobby.account import Account, ends_at_ms, require_own_name
from services.lobby.acts import Acts
from tests.services.lobby.conftest import Town

Work = Callable[[], Awaitable[admin_pb2.GrantResponse]]


@pytest.fixture
async def acts(town: Town) -> AsyncIterator[Acts]:
    async with asyncpg.create_pool(town.config.postgres_dsn, min_size=1, max_size=2) as pool:
        yield Acts(pool)


async def do(acts: Acts, act_id: str, work: Work, chips: int = 5, operator: str = "p1") -> admin_pb2.GrantResponse:
    request = admin_pb2.GrantRequest(act_id=act_id, reason="why", player_id="p2", chips=chips)
    return await acts.do(operator, act_id, request, admin_pb2.GrantResponse, work)


class Ends:
    """Ends as it is told, one call after the other."""

    def __init__(self, *ends: int | Exception) -> None:
        self.ends = list(ends)

    async def __call__(self) -> admin_pb2.GrantResponse:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return admin_pb2.GrantResponse(chips=end)


async def test_a_repeat_gets_the_first_answer(acts: Acts) -> None:
    act_id, work = secrets.token_hex(8), Ends(7, 8)
    assert [(await do(acts, act_id, work)).chips for _ in range(3)] == [7, 7, 7]
    assert work.ends == [8]
    for other in ({"chips": 6}, {"operator": "p3"}):
        with pytest.raises(Refusal, match="KEY_CONFLICT"):
            await do(acts, act_id, work, **other)


async def test_a_refusal_is_an_answer_unless_it_is_in_passing(acts: Acts) -> None:
    act_id = secrets.token_hex(8)
    no = Refusal("NOT_FOUND", "Nobody.", field="player_id", hint="x")
    work = Ends(Refusal("UNAVAILABLE", "Away."), ValueError("a fault"), no, 9)
    for kind, words in ((Refusal, "Away"), (ValueError, "a fault"), (Refusal, "Nobody"), (Refusal, "Nobody")):
        with pytest.raises(kind, match=words) as caught:
            await do(acts, act_id, work)
    assert isinstance(caught.value, Refusal)
    assert (caught.value.reason, caught.value.field, caught.value.data) == ("NOT_FOUND", "player_id", {"hint": "x"})
    assert work.ends == [9]


async def test_an_act_is_counted_as_done_once_it_is_written_down(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    def done() -> float:
        return REGISTRY.get_sample_value("ddz_admin_acts_total", {"act": "Grant", "outcome": "done"}) or 0

    async def lost(*_arguments: object) -> None:
        raise ConnectionResetError

    before, act_id = done(), secrets.token_hex(8)
    with monkeypatch.context() as away:
        away.setattr(acts, "_end", lost)
        with pytest.raises(ConnectionResetError):
            await do(acts, act_id, Ends(7))
    assert done() == before
    await do(acts, act_id, Ends(7))
    assert done() == before + 1


async def test_they_are_listed_with_what_came_of_them(acts: Acts) -> None:
    ids = [secrets.token_hex(8) for _ in range(3)]
    ends: list[int | Exception] = [1, Refusal("UNAVAILABLE", "Away."), KeyError("secret")]
    for act_id, end in zip(ids, ends, strict=True):
        with contextlib.suppress(Refusal, KeyError):
            await do(acts, act_id, Ends(end))
    newest, more = await acts.page(0, 2)
    older, _ = await acts.page(int(more), 1)
    assert [act.act_id for act in (*newest, *older)] == ids[::-1]
    assert [(act.outcome, act.detail) for act in (*newest, *older)] == [
        ("FAULT", "KeyError"),
        ("UNAVAILABLE", "Away."),
        ("done", ""),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lobby.operator (number) VALUES (1)",
        "INSERT INTO lobby.act (act_id, operator_id, act, arguments, reason) VALUES ('a', 'b', 'c', '{}', 'd')",
        "UPDATE lobby.act SET reason = ''",
        "DELETE FROM lobby.outcome",
        "TRUNCATE lobby.act, lobby.outcome",
    ],
)
async def test_the_service_itself_can_make_no_operator_and_change_no_act(town: Town, statement: str) -> None:
    connection = await asyncpg.connect(town.config.postgres_dsn)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


def test_an_end_lies_in_the_future() -> None:
    assert ends_at_ms(11, 10) == 11
    with pytest.raises(Refusal, match="INVALID"):
        ends_at_ms(10, 10)


def test_who_is_muted_keeps_his_name() -> None:
    muted = Account(1, "a", 0, bot=False, granted=True, created_at_ms=0, muted_until_ms=10)
    require_own_name(muted, 10)
    with pytest.raises(Refusal, match="FORBIDDEN"):
        require_own_name(muted, 9)
