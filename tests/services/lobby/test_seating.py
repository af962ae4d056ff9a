"""Opening tables, private ones too, sitting down and observing: what the lobby checks, and what it passes on."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from ddz.lobby.v1 import lobby_pb2
from doudizhu.refusal import Refusal
from servicekit.orders import Orders
from services.lobby.tables import Tables
from tests.services.lobby.conftest import Person, Town, refusal_of
from tests.services.lobby.test_board import report, until

ROOM = "happy-beginner"


def creation(room_id: str = ROOM, *, private: bool = False, request_id: str = "") -> lobby_pb2.CreateTableRequest:
    request_id = request_id or secrets.token_hex(8)
    return lobby_pb2.CreateTableRequest(room_id=room_id, request_id=request_id, private=private)


async def create(person: Person, **kind: Any) -> lobby_pb2.CreateTableResponse:
    answer = await person.call("CreateTable", creation(**kind))
    assert isinstance(answer, lobby_pb2.CreateTableResponse)
    return answer


def sitting(table_id: str, seat: int | None = None, code: str = "") -> lobby_pb2.SitRequest:
    return lobby_pb2.SitRequest(table_id=table_id, seat=seat, code=code)


async def test_who_creates_a_table_sits_there(town: Town) -> None:
    person = await town.player()
    made = await create(person)
    assert town.tables.seats[made.table_id] == [person.id, "", ""]
    assert (made.seat, made.code) == (0, "")
    terms = town.tables.tables[made.table_id].terms
    assert (terms.room_id, terms.book, terms.matched) == (ROOM, "happy", False)


async def test_a_repeat_of_a_request_opens_no_second_table(town: Town) -> None:
    person = await town.player()
    request = creation()
    answers = await asyncio.gather(*(person.call("CreateTable", request) for _ in range(8)))
    assert len({answer.table_id for answer in answers}) == 1
    assert sum(person.id in seats for seats in town.tables.seats.values()) == 1
    other = creation("classic-beginner", request_id=request.request_id)
    assert (await refusal_of(person.call("CreateTable", other))).reason == "KEY_CONFLICT"


class SentAgain:
    """A Redis whose connection is lost before it tells that a request is kept: the client sends the command again."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)

    async def set(self, key: str, *arguments: Any, **options: Any) -> Any:
        if key.startswith("lobby:request:"):
            await self._redis.set(key, *arguments, **options)
        return await self._redis.set(key, *arguments, **options)


async def test_a_private_table_is_found_though_its_request_was_sent_again(town: Town) -> None:
    tables = Tables(cast("Any", SentAgain(town.redis)))
    opened = await tables.create("p1", secrets.token_hex(8), ROOM, private=True)
    assert await tables.by_code(opened.code) == opened


async def lives(town: Town, person: Person) -> dict[str, int]:
    """The seconds for which Redis keeps the one request of a person, its table and its code."""
    [request] = await town.redis.keys(f"lobby:request:{person.id}:*")
    opened = json.loads(cast("bytes", await town.redis.get(request)))
    keys = {"request": request, "table": f"lobby:table:{opened['table_id']}", "code": f"lobby:code:{opened['code']}"}
    return {name: await town.redis.ttl(key) for name, key in keys.items()}


async def test_a_table_that_was_not_opened_is_soon_forgotten(town: Town) -> None:
    def refuse(table_id: str) -> None:
        raise Refusal("UNAVAILABLE", "planted")

    person = await town.player()
    request = creation(private=True)
    town.tables.fault = refuse
    try:
        assert (await refusal_of(person.call("CreateTable", request))).reason == "UNAVAILABLE"
    finally:
        town.tables.fault = lambda table_id: None
    assert max((await lives(town, person)).values()) <= 600
    made = await person.call("CreateTable", request)
    assert town.tables.opens.count(made.table_id) == 2
    day = 86_400
    kept = await lives(town, person)
    assert all(
        least < kept[name] <= most
        for name, (least, most) in {
            "request": (day - 600, day),
            "table": (day, 7 * day),
            "code": (day, 7 * day),
        }.items()
    )


async def test_a_table_that_closes_as_it_is_opened_stays_closed(town: Town) -> None:
    tables, request_id = Tables(town.redis), secrets.token_hex(8)
    opened = await tables.create("p1", request_id, ROOM, private=True)
    await tables.forget(opened.table_id)
    for call in (tables.keep("p1", request_id, opened), tables.create("p1", request_id, ROOM, private=True)):
        with pytest.raises(Refusal, match="TABLE_CLOSED"):
            await call
    assert await tables.by_code(opened.code) is None


async def test_a_player_opens_only_so_many_tables_a_minute(town: Town) -> None:
    person = await town.player()
    for _ in range(30):
        made = await create(person)
        town.tables.leave(made.table_id, person.id)
    assert (await refusal_of(create(person))).reason == "RATE_LIMITED"
    await create(await town.player())


@pytest.mark.parametrize("room_id", ["99", "no-room", "", "Room", "x" * 60])
async def test_br_088_no_room_of_that_kind_no_table(town: Town, room_id: str) -> None:
    before = dict(town.tables.tables)
    person = await town.player()
    refused = await refusal_of(person.call("CreateTable", creation(room_id)))
    assert refused.reason in ("INVALID", "NOT_FOUND")
    assert town.tables.tables == before


async def test_seats_of_matched_rooms_are_not_for_the_choosing(town: Town) -> None:
    person = await town.player()
    assert (await refusal_of(person.call("CreateTable", creation("rob-beginner")))).reason == "FORBIDDEN"
    table_id = f"m{secrets.token_hex(10)}"
    town.tables.seats[table_id] = ["", "", ""]
    await report(town, table_id, room_id="rob-beginner")

    async def known() -> bool:
        request = lobby_pb2.ListTablesRequest(room_id="rob-beginner", page_size=200)
        return table_id in {table.table_id for table in (await town.stub.ListTables(request)).tables}

    await until(known)
    assert (await refusal_of(person.call("Sit", sitting(table_id)))).reason == "FORBIDDEN"
    await person.call("Observe", lobby_pb2.ObserveRequest(table_id=table_id, seat=1))
    assert town.tables.observers[table_id] == {person.id: 1}


async def test_chips_decide_who_may_sit(town: Town) -> None:
    host, poor, rich = await town.player(), await town.player(), await town.player()
    made = await create(host)
    town.ledger.chips[poor.id], town.ledger.chips[rich.id] = 199, 50_001
    below = await refusal_of(poor.call("Sit", sitting(made.table_id)))
    assert (below.reason, below.data["minimum_chips"]) == ("BELOW_MINIMUM", "200")
    above = await refusal_of(rich.call("Sit", sitting(made.table_id)))
    assert (above.reason, above.data["maximum_chips"]) == ("ABOVE_MAXIMUM", "50000")
    assert (await refusal_of(poor.call("CreateTable", creation()))).reason == "BELOW_MINIMUM"
    assert town.tables.seats[made.table_id] == [host.id, "", ""]
    await poor.call("Observe", lobby_pb2.ObserveRequest(table_id=made.table_id, seat=0))


async def test_the_tables_refusals_arrive_as_they_are(town: Town) -> None:
    host, guest = await town.player(), await town.player()
    made = await create(host)
    taken = await refusal_of(guest.call("Sit", sitting(made.table_id, 0)))
    assert (taken.reason, taken.data) == ("SEAT_TAKEN", {"seat": "0"})
    assert (await guest.call("Sit", sitting(made.table_id, 2))).seat == 2
    assert (await refusal_of(guest.call("Sit", sitting("tnone")))).reason == "NOT_FOUND"


@pytest.mark.parametrize("table_id", ["-1", "0", "2147483648", "", "a b", "x" * 65])
async def test_br_133_a_table_that_is_none(town: Town, table_id: str) -> None:
    person = await town.player()
    for request in (sitting(table_id), lobby_pb2.ObserveRequest(table_id=table_id)):
        name = "Sit" if isinstance(request, lobby_pb2.SitRequest) else "Observe"
        assert (await refusal_of(person.call(name, request))).reason in ("INVALID", "NOT_FOUND")
    assert table_id not in town.tables.seats


async def test_br_086_the_last_seat_goes_to_one(town: Town) -> None:
    for _ in range(25):
        host, second, *rivals = [await town.player() for _ in range(4)]
        made = await create(host)
        await second.call("Sit", sitting(made.table_id))
        calls = [rival.call("Sit", sitting(made.table_id)) for rival in rivals]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, lobby_pb2.SitResponse) for answer in answers) == 1
        loser = rivals[0] if isinstance(answers[0], BaseException) else rivals[1]
        assert (await refusal_of(loser.call("Sit", sitting(made.table_id)))).reason == "ROOM_FULL"


async def test_br_074_br_079_one_account_has_one_seat_however_often_it_sits(town: Town) -> None:
    host, person = await town.player(), await town.player()
    made = await create(host)
    seats = await asyncio.gather(*(person.call("Sit", sitting(made.table_id)) for _ in range(6)))
    assert len({answer.seat for answer in seats}) == 1
    assert town.tables.seats[made.table_id].count(person.id) == 1


async def test_one_account_sits_at_one_table(town: Town) -> None:
    host, other_host, person = [await town.player() for _ in range(3)]
    made, other = await create(host), await create(other_host)
    await person.call("Sit", sitting(made.table_id))
    await report(town, made.table_id, host.id, person.id, seq=2)

    async def known() -> bool:
        profile = (await person.call("GetProfile", lobby_pb2.GetProfileRequest())).profile
        return bool(profile.table_id == made.table_id)

    await until(known)
    refused = await refusal_of(person.call("Sit", sitting(other.table_id)))
    assert (refused.reason, refused.data["table_id"]) == ("ALREADY_SEATED", made.table_id)
    assert (await refusal_of(person.call("CreateTable", creation()))).reason == "ALREADY_SEATED"
    await person.call("Sit", sitting(made.table_id))
    await person.call("Observe", lobby_pb2.ObserveRequest(table_id=other.table_id, seat=0))
    # He has left, and the news of it is late: the table's own word counts.
    town.tables.leave(made.table_id, person.id)
    await person.call("Sit", sitting(other.table_id))


@pytest.mark.parametrize("why", ["rich", "poor", "ledger", "maintenance"])
async def test_who_sits_gets_his_seat_whatever_keeps_others_out(
    town: Town, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def fail(*arguments: object) -> None:
        raise Refusal("MAINTENANCE" if arguments else "UNAVAILABLE", "planted")

    host, person, late = await town.player(), await town.player(), await town.player()
    made = await create(host, private=True)
    seat = (await person.call("Sit", sitting(made.table_id, 2, made.code))).seat
    await report(town, made.table_id, host.id, "", person.id, seq=2)

    async def known() -> bool:
        profile = (await person.call("GetProfile", lobby_pb2.GetProfileRequest())).profile
        return bool(profile.table_id == made.table_id)

    await until(known)
    for each in (person, late):
        town.ledger.chips[each.id] = {"rich": 50_001, "poor": 1}.get(why, 1_000)
    if why == "ledger":
        monkeypatch.setattr(town.ledger, "fault", fail)
    if why == "maintenance":
        monkeypatch.setattr(Orders, "require_open", fail)
    reason = {"rich": "ABOVE_MAXIMUM", "poor": "BELOW_MINIMUM", "ledger": "UNAVAILABLE"}.get(why, "MAINTENANCE")
    assert (await refusal_of(late.call("Sit", sitting(made.table_id, code=made.code)))).reason == reason
    for again in (sitting(made.table_id), sitting(made.table_id, 1, made.code)):
        assert (await person.call("Sit", again)).seat == seat


async def test_br_095_leave_and_sit_again_is_one_seat(town: Town) -> None:
    host, person = await town.player(), await town.player()
    made = await create(host)
    for _ in range(3):
        await person.call("Sit", sitting(made.table_id))
        town.tables.leave(made.table_id, person.id)
    await person.call("Sit", sitting(made.table_id))
    assert town.tables.seats[made.table_id].count(person.id) == 1


# ---- private tables -------------------------------------------------------------------------------------------------


async def test_a_private_table_is_found_by_its_code_alone(town: Town) -> None:
    host, friend, stranger = [await town.player() for _ in range(3)]
    made = await create(host, private=True)
    assert len(made.code) == 6
    found = await friend.call("FindTable", lobby_pb2.FindTableRequest(code=made.code.lower()))
    assert (found.table_id, found.room_id) == (made.table_id, ROOM)
    assert (await refusal_of(friend.call("FindTable", lobby_pb2.FindTableRequest(code="WRONG0")))).reason == "NOT_FOUND"
    for code in ("", "AAAAAA", "地主"):
        assert (await refusal_of(stranger.call("Sit", sitting(made.table_id, code=code)))).reason == "FORBIDDEN"
        observe = lobby_pb2.ObserveRequest(table_id=made.table_id, seat=0, code=code)
        assert (await refusal_of(stranger.call("Observe", observe))).reason == "FORBIDDEN"
    assert (await friend.call("Sit", sitting(made.table_id, code=made.code))).seat == 1
    await stranger.call("Observe", lobby_pb2.ObserveRequest(table_id=made.table_id, seat=0, code=made.code))


async def test_a_repeat_of_a_private_creation_has_the_same_code(town: Town) -> None:
    person = await town.player()
    request = creation(private=True)
    answers = await asyncio.gather(*(person.call("CreateTable", request) for _ in range(4)))
    assert len({(answer.table_id, answer.code) for answer in answers}) == 1
    public = creation(request_id=request.request_id)
    assert (await refusal_of(person.call("CreateTable", public))).reason == "KEY_CONFLICT"


async def test_guessing_codes_is_limited(town: Town) -> None:
    host, guesser = await town.player(), await town.player()
    made = await create(host, private=True)
    reasons = []
    for number in range(25):
        call = guesser.call("FindTable", lobby_pb2.FindTableRequest(code=f"AAAA{number:02}"))
        reasons.append((await refusal_of(call)).reason)
    assert reasons == ["NOT_FOUND"] * 20 + ["RATE_LIMITED"] * 5
    assert (await refusal_of(guesser.call("Sit", sitting(made.table_id, code="BBBBBB")))).reason == "RATE_LIMITED"


async def test_a_private_table_that_closes_takes_its_code_along(town: Town) -> None:
    host = await town.player()
    made = await create(host, private=True)
    await report(town, made.table_id, seq=9, phase="closed")

    async def gone() -> bool:
        return not await town.redis.exists(f"lobby:code:{made.code}")

    await until(gone)


async def forgotten(town: Town, table_id: str) -> None:
    """Closes a table; returns when the lobby has heard of it."""
    await report(town, table_id, seq=9, phase="closed")

    async def heard() -> bool:
        return await town.redis.strlen(f"lobby:table:{table_id}") == 0

    await until(heard)


@pytest.mark.parametrize("private", [False, True])
async def test_who_comes_to_a_closed_table_is_told_so_and_guesses_at_nothing(town: Town, private: bool) -> None:
    host, friend = await town.player(), await town.player()
    made = await create(host, private=private)
    town.tables.leave(made.table_id, host.id)
    await forgotten(town, made.table_id)
    for code in (made.code, "", "WRONG0"):
        for _ in range(10):
            refused = await refusal_of(friend.call("Sit", sitting(made.table_id, code=code)))
            assert (refused.reason, refused.field) == ("TABLE_CLOSED", "table_id")
        observe = lobby_pb2.ObserveRequest(table_id=made.table_id, seat=0, code=code)
        assert (await refusal_of(friend.call("Observe", observe))).reason == "TABLE_CLOSED"
    again = await create(host, private=True)
    assert (await friend.call("Sit", sitting(again.table_id, code=again.code))).seat == 1


@pytest.mark.parametrize("private", [False, True])
async def test_a_repeat_does_not_open_a_table_again_that_has_closed(town: Town, private: bool) -> None:
    """Its id is that of its hands: a table that lived twice would bring settled hands again."""
    host = await town.player()
    request = creation(private=private)
    made = await host.call("CreateTable", request)
    opens = town.tables.opens.count(made.table_id)
    await forgotten(town, made.table_id)
    codes = await town.redis.keys("lobby:code:*")
    refused = await refusal_of(host.call("CreateTable", request))
    assert (refused.reason, refused.field) == ("TABLE_CLOSED", "request_id")
    assert town.tables.opens.count(made.table_id) == opens
    assert await town.redis.keys("lobby:code:*") == codes
    if private:
        found = host.call("FindTable", lobby_pb2.FindTableRequest(code=made.code))
        assert (await refusal_of(found)).reason == "NOT_FOUND"
    assert (await create(host, private=private)).table_id != made.table_id
