"""Join, quick start, cancel, watch: what people see. Rows of reports of other systems' faults by their number (BR)."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from pathlib import Path

import grpc
import pytest
import yaml

from ddz.admin.v1 import orders_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from doudizhu.refusal import Refusal
from servicekit import clients, errors, identity, orders
from tests.services.lobby.conftest import refusal_of
from tests.services.matchmaking.conftest import (
    CANCELLED,
    MATCHED,
    ROOM,
    ROOMS_FILE,
    WAITING,
    Hall,
    Open,
    Person,
    until,
)


async def seated(*players: Person, room_id: str = ROOM) -> str:
    """Joins and returns the one table that all got."""
    tickets = await asyncio.gather(*(player.join(room_id) for player in players))
    ends = await asyncio.gather(*(p.end_of(t.ticket_id) for p, t in zip(players, tickets, strict=True)))
    assert {end.state for end in ends} == {MATCHED}
    (table_id,) = {end.table_id for end in ends}
    return table_id


# ---- joining --------------------------------------------------------------------------------------------------------


async def test_three_who_join_get_one_table(hall: Hall) -> None:
    players = hall.players(3)
    table_id = await seated(*players)
    request = hall.tables.tables[table_id]
    assert sorted(player.player_id for player in request.players) == sorted(player.id for player in players)
    assert {player.display_name for player in request.players} == {player.player.display_name for player in players}
    assert (request.terms.room_id, request.terms.matched) == (ROOM, True)


async def test_a_room_by_choice_gives_a_quick_table(hall: Hall) -> None:
    table_id = await seated(*hall.players(3), room_id="classic-beginner")
    assert not hall.tables.tables[table_id].terms.matched


async def test_the_same_tickets_make_the_same_table_again(opened: Open) -> None:
    """A seeded demo repeats exactly."""
    tables = []
    for _ in range(2):
        async with opened() as hall:
            players = hall.players(3)
            for number, person in enumerate(players):
                person.player.player_id = f"same{number}"
                hall.ledger.chips[person.id] = 1_000
            table_id = await seated(*players)
            tables.append((table_id, hall.tables.seats[table_id]))
    assert tables[0] == tables[1]


async def test_a_queue_that_lost_its_memory_makes_other_tables(opened: Open) -> None:
    tables = set()
    for _ in range(2):
        async with opened(deal_seed="") as hall:
            players = hall.players(3)
            for number, person in enumerate(players):
                person.player.player_id = f"lost{number}"
                hall.ledger.chips[person.id] = 1_000
            tables.add(await seated(*players))
    assert len(tables) == 2


@pytest.mark.parametrize(("chips", "reason"), [(199, "BELOW_MINIMUM"), (50_001, "ABOVE_MAXIMUM")])
async def test_chips_outside_the_rooms_bounds_are_refused(hall: Hall, chips: int, reason: str) -> None:
    refused = await refusal_of(hall.player(chips=chips).join())
    assert refused.reason == reason
    bound = {"BELOW_MINIMUM": ("minimum_chips", "200"), "ABOVE_MAXIMUM": ("maximum_chips", "50000")}[reason]
    assert refused.data.items() >= {bound, ("chips", str(chips))}


@pytest.mark.parametrize("chips", [200, 50_000])
async def test_chips_at_the_rooms_bounds_are_enough(hall: Hall, chips: int) -> None:
    assert (await hall.player(chips=chips).join()).state == WAITING


async def test_one_account_waits_in_one_room(hall: Hall) -> None:
    player = hall.player()
    ticket = await player.join()
    refused = await refusal_of(player.join("happy-beginner"))
    assert refused.reason == "LIMIT_REACHED"
    assert refused.data["ticket_id"] == ticket.ticket_id
    await player.cancel(ticket.ticket_id)
    assert (await player.join("happy-beginner")).state == WAITING


async def test_in_maintenance_who_waits_is_told_of_his_ticket_and_nobody_gets_another_one(hall: Hall) -> None:
    waiting = hall.player()
    ticket = await waiting.join()
    closed = orders_pb2.Orders(maintenance="back at noon")
    await hall.redis.set(orders.KEY, closed.SerializeToString())

    async def is_closed() -> bool:
        late = hall.player()
        try:
            made = await late.join("happy-beginner")
        except grpc.aio.AioRpcError as error:
            refused = errors.from_rpc_error(error)
            return refused is not None and refused.reason == "MAINTENANCE"
        await late.cancel(made.ticket_id)
        return False

    await until(is_closed)
    assert (await waiting.join()).ticket_id == ticket.ticket_id
    quick = matchmaking_pb2.QuickStartRequest()
    found = await hall.stub.QuickStart(quick, metadata=identity.metadata(waiting.player))
    assert found.ticket.ticket_id == ticket.ticket_id
    await waiting.cancel(ticket.ticket_id)
    assert (await refusal_of(waiting.join())).reason == "MAINTENANCE"
    closed.sanctions.add(player_id=waiting.id, banned_until_ms=2**52)
    await hall.redis.set(orders.KEY, closed.SerializeToString())

    async def is_banned() -> bool:
        return (await refusal_of(waiting.join())).reason == "BANNED"

    await until(is_banned)


async def test_who_is_muted_while_he_queues_sits_down_under_the_neutral_name(hall: Hall) -> None:
    muted, *others = hall.players(3)
    tickets = [await player.join() for player in (muted, others[0])]
    ordered = orders_pb2.Orders()
    ordered.sanctions.add(player_id=muted.id, muted_until_ms=2**52)
    banned = hall.player()  # his refusal tells that the orders have been read
    ordered.sanctions.add(player_id=banned.id, banned_until_ms=2**52)
    await hall.redis.set(orders.KEY, ordered.SerializeToString())

    async def is_read() -> bool:
        try:
            ticket = await banned.join("happy-beginner")
        except grpc.aio.AioRpcError:
            return True
        await banned.cancel(ticket.ticket_id)
        return False

    await until(is_read)
    await others[1].join()
    end = await muted.end_of(tickets[0].ticket_id)
    names = {player.player_id: player.display_name for player in hall.tables.tables[end.table_id].players}
    assert names == {player.id: player.player.display_name for player in others} | {
        muted.id: orders.neutral_name(muted.id)
    }


async def test_without_the_ledger_nobody_is_queued(hall: Hall) -> None:
    def down() -> None:
        raise Refusal("UNAVAILABLE", "down")

    player = hall.player()
    hall.ledger.fault = down
    assert (await refusal_of(player.join())).reason == "UNAVAILABLE"
    hall.ledger.fault = lambda: None
    assert (await player.join()).state == WAITING


@pytest.mark.parametrize("room_id", ["-1", "0", "2147483648", "", "no-such-room", "x" * 49, "rob'; --", "{rob}"])
async def test_br_088_br_133_what_is_no_room_is_refused_and_opens_none(hall: Hall, room_id: str) -> None:
    assert (await refusal_of(hall.player().join(room_id))).reason in ("INVALID", "NOT_FOUND")
    assert set(await hall.redis.keys("mm:*")) <= {b"mm:rooms"}
    assert hall.tables.tables == {}


async def test_who_sits_at_a_table_is_sent_back_there(hall: Hall) -> None:
    players = hall.players(3)
    table_id = await seated(*players)
    again = await players[0].join()
    assert (again.ticket_id, again.state, again.table_id) == (f"{players[0].id}-1", MATCHED, table_id)
    hall.tables.leave(table_id, players[0].id)
    assert (await players[0].join()).ticket_id == f"{players[0].id}-2"


@pytest.mark.parametrize("matched", [False, True])
@pytest.mark.parametrize("chips", [1, 50_001, None])
async def test_who_has_a_ticket_finds_it_whatever_keeps_others_out(
    hall: Hall, chips: int | None, matched: bool
) -> None:
    def down() -> None:
        raise Refusal("UNAVAILABLE", "down")

    player, late = hall.players(2)
    ticket_id = f"{player.id}-1"
    if matched:
        await seated(player, *hall.players(2))
    else:
        await player.join()
    if chips is None:
        hall.ledger.fault = down
    for each in (player, late):
        hall.ledger.chips[each.id] = chips or 1_000
    reason = {1: "BELOW_MINIMUM", 50_001: "ABOVE_MAXIMUM", None: "UNAVAILABLE"}[chips]
    assert (await refusal_of(late.join())).reason == reason
    assert (await player.join()).ticket_id == ticket_id
    quick = matchmaking_pb2.QuickStartRequest()
    found = await hall.stub.QuickStart(quick, metadata=identity.metadata(player.player))
    assert found.ticket.ticket_id == ticket_id
    assert (await refusal_of(player.join("happy-beginner"))).reason == "LIMIT_REACHED"


async def test_a_ticket_whose_owner_is_back_is_matched_again(hall: Hall) -> None:
    """Who watched it is gone: it waits for its owner, who joins again."""
    player, *others = hall.players(3)
    ticket = await player.join()
    watching = player.watch(ticket.ticket_id)
    assert (await watching.read()).ticket.state == WAITING
    watching.cancel()
    key = f"mm:{{{ROOM}}}:t:{ticket.ticket_id}"

    async def absent() -> bool:
        return await hall.redis.hget(key, "absent") == b"1"

    await until(absent)
    assert (await player.join()).ticket_id == ticket.ticket_id
    await asyncio.gather(*(other.join() for other in others))
    assert (await player.end_of(ticket.ticket_id)).state == MATCHED


async def test_who_sits_by_choice_is_not_queued_until_he_leaves(hall: Hall) -> None:
    from ddz.lobby.v1 import lobby_pb2

    player = hall.player()
    hall.tables.seats["tchoice"] = [player.id, "", ""]
    summary = lobby_pb2.TableSummary(table_id="tchoice", room_id=ROOM, phase="seating", seq=1)
    summary.players.add(player_id=player.id)
    async with clients.nats_bus(hall.config.nats_url, name="test") as bus:
        await bus.publish("ddz.lobby.table", summary.SerializeToString())
        await bus.flush()

    async def refused() -> bool:
        try:
            ticket = await player.join()
        except Exception:
            return True
        await player.cancel(ticket.ticket_id)
        return False

    await until(refused)
    refusal = await refusal_of(player.join())
    assert (refusal.reason, refusal.data["table_id"]) == ("ALREADY_SEATED", "tchoice")
    hall.tables.leave("tchoice", player.id)
    assert (await player.join()).state == WAITING


# ---- quick start ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chips", "book", "room_id"),
    [
        (1_000, "rob", "rob-beginner"),
        (20_000, "rob", "rob-middle"),
        (10**9, "rob", "rob-master"),
        (60_000, "classic", "classic-middle"),
        (500, "", "happy-beginner"),
    ],
)
async def test_quick_start_queues_for_the_best_room(hall: Hall, chips: int, book: str, room_id: str) -> None:
    player = hall.player(chips=chips)
    request = matchmaking_pb2.QuickStartRequest(book=book)
    answer = await hall.stub.QuickStart(request, metadata=identity.metadata(player.player))
    assert (answer.ticket.room_id, answer.ticket.state) == (room_id, WAITING)
    again = await hall.stub.QuickStart(request, metadata=identity.metadata(player.player))
    assert again.ticket.ticket_id == answer.ticket.ticket_id


async def test_quick_start_finds_the_ticket_that_one_has(hall: Hall) -> None:
    player = hall.player()
    ticket = await player.join("happy-beginner")
    request = matchmaking_pb2.QuickStartRequest(book="rob")
    answer = await hall.stub.QuickStart(request, metadata=identity.metadata(player.player))
    assert (answer.ticket.ticket_id, answer.ticket.room_id) == (ticket.ticket_id, "happy-beginner")


@pytest.mark.parametrize(
    ("chips", "reason", "bound"),
    [
        (10, "BELOW_MINIMUM", {"minimum_chips": "200", "chips": "10"}),
        (70_000, "BELOW_MINIMUM", {"minimum_chips": "100000", "chips": "70000"}),
        (200_000, "ABOVE_MAXIMUM", {"maximum_chips": "150000", "chips": "200000"}),
    ],
)
async def test_quick_start_says_which_bound_keeps_one_out(
    opened: Open, tmp_path: Path, chips: int, reason: str, bound: dict[str, str]
) -> None:
    """A file with a gap between its rooms, and none for the rich."""
    content = yaml.safe_load(ROOMS_FILE.read_text())
    low, high = content["rooms"][:2]
    low["terms"] |= {"minimum_chips": 200, "maximum_chips": 50_000}
    high["terms"] |= {"minimum_chips": 100_000, "maximum_chips": 150_000}
    file = tmp_path / "rooms.yaml"
    file.write_text(json.dumps(content | {"rooms": [low, high]}))
    async with opened(rooms_file=str(file)) as hall:
        player = hall.player(chips=chips)
        call = hall.stub.QuickStart(matchmaking_pb2.QuickStartRequest(), metadata=identity.metadata(player.player))
        refused = await refusal_of(call)
        assert (refused.reason, refused.data) == (reason, bound)


# ---- cancelling -----------------------------------------------------------------------------------------------------


async def test_cancel_and_cancel_again(hall: Hall) -> None:
    player = hall.player()
    ticket = await player.join()
    assert (await player.cancel(ticket.ticket_id)).state == CANCELLED
    assert (await player.cancel(ticket.ticket_id)).state == CANCELLED
    assert (await player.join()).ticket_id == f"{player.id}-2"


async def test_nobody_cancels_or_watches_anothers_ticket(hall: Hall) -> None:
    player, stranger = hall.players(2)
    ticket = await player.join()
    assert (await refusal_of(stranger.cancel(ticket.ticket_id))).reason == "NOT_FOUND"
    assert (await refusal_of(stranger.end_of(ticket.ticket_id))).reason == "NOT_FOUND"
    assert (await player.join()).state == WAITING


@pytest.mark.parametrize("ticket_id", ["p1-1", "1", "-", "p1", "p1-", "p1-99999999999999999999"])
async def test_a_ticket_that_does_not_exist_is_not_found(hall: Hall, ticket_id: str) -> None:
    player = hall.player()
    assert (await refusal_of(player.cancel(ticket_id))).reason == "NOT_FOUND"
    assert (await refusal_of(player.end_of(ticket_id))).reason == "NOT_FOUND"


async def test_br_090_a_cancel_after_the_match_comes_too_late_and_there_is_one_game(hall: Hall) -> None:
    players = hall.players(3)
    table_id = await seated(*players)
    for _ in range(2):
        refused = await refusal_of(players[0].cancel(f"{players[0].id}-1"))
        assert (refused.reason, refused.data["table_id"]) == ("TOO_LATE", table_id)
    assert list(hall.tables.tables) == [table_id]


async def test_br_093_leaving_at_the_instant_of_the_start_is_in_time_or_too_late(hall: Hall) -> None:
    """A cancel races the match a hundred times: whoever was told "cancelled" is at no table, else he is at one."""
    dice = random.Random(93)

    async def one() -> bool:
        players = hall.players(3)
        began = time.perf_counter()
        tickets = [await player.join() for player in players[:2]]
        as_long_s = (time.perf_counter() - began) / 2  # as a join takes here
        joining = asyncio.create_task(players[2].join())
        await asyncio.sleep(dice.random() * 2 * as_long_s)
        cancel = matchmaking_pb2.CancelRequest(ticket_id=tickets[0].ticket_id)
        answer = await asyncio.gather(
            hall.stub.Cancel(cancel, metadata=identity.metadata(players[0].player)), return_exceptions=True
        )
        await joining
        cancelled = isinstance(answer[0], matchmaking_pb2.CancelResponse)
        if cancelled:
            assert hall.tables_of(players[0].id) == []
            others = hall.players(1)
            await seated(players[1], players[2], *others)
        else:
            await until(lambda: has_table(hall, players[0].id))
        return cancelled

    answers = [await one() for _ in range(100)]
    assert len(set(answers)) == 2
    seats = list(itertools.chain.from_iterable(hall.tables.seats.values()))
    assert len(seats) == len(set(seats))


async def has_table(hall: Hall, player_id: str) -> bool:
    return bool(hall.tables_of(player_id))
