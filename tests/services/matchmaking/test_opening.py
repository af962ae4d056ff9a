"""From three tickets to one table, whatever the table service, the bus or an instance does meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2
from deploy.local import ports, servers
from deploy.local.leash import Leash
from doudizhu.refusal import Refusal
from servicekit import clients, metrics, stream
from services.matchmaking import counts, matcher, opening
from services.matchmaking.store import Claim
from tests.services.lobby.doubles import TableHouse
from tests.services.matchmaking.conftest import MATCHED, ROOM, WAITING, Hall, Open, Person, failing, rooms_file, until


async def joined(players: list[Person], hall: Hall | None = None) -> list[matchmaking_pb2.Ticket]:
    return await asyncio.gather(*(player.join(hall=hall) for player in players))


async def ends(
    players: list[Person], tickets: list[matchmaking_pb2.Ticket], hall: Hall | None = None
) -> list[matchmaking_pb2.Ticket]:
    return await asyncio.gather(*(p.end_of(t.ticket_id, hall) for p, t in zip(players, tickets, strict=True)))


@pytest.mark.parametrize("reason", ["PLAYER_IN_HAND", "INVALID"])
async def test_a_refused_table_gives_all_tickets_back_with_their_waiting_time(hall: Hall, reason: str) -> None:
    refused = [True]

    def refuse(table_id: str) -> None:
        if refused[0]:
            raise Refusal(reason, "not this one")

    hall.tables.fault = refuse
    players = hall.players(3)
    tickets = await joined(players)
    ended = asyncio.create_task(ends(players, tickets))
    await until(lambda: tried(hall, 2))
    assert hall.tables.seats == {}
    refused[0] = False
    found = await ended
    assert {end.state for end in found} == {MATCHED}
    assert all(end.waited_ms >= 1_000 for end in found)
    assert {end.ticket_id for end in found} == {f"{player.id}-1" for player in players}


async def tried(hall: Hall, count: int) -> bool:
    return len(hall.tables.opens) >= count


async def test_tickets_that_are_back_can_be_cancelled_and_matched_with_others(hall: Hall) -> None:
    first = hall.players(3)

    def refuse(table_id: str) -> None:
        raise Refusal("INVALID", "no table")

    hall.tables.fault = refuse
    tickets = await joined(first)

    async def back() -> bool:
        return (await first[0].join()).state == WAITING and await tried(hall, 1)

    await until(back)
    await until(lambda: cancelled(first[0], tickets[0].ticket_id))
    hall.tables.fault = lambda table_id: None
    other = hall.player()
    tickets = [*tickets[1:], await other.join()]
    assert {end.state for end in await ends([*first[1:], other], tickets)} == {MATCHED}
    assert hall.tables_of(first[0].id) == []


async def cancelled(player: Person, ticket_id: str) -> bool:
    """Tries until it is not too late; a claim that comes back lets it through."""
    try:
        await player.cancel(ticket_id)
    except Exception:
        return False
    return True


async def test_an_opening_without_an_answer_is_asked_again_for_the_same_table(hall: Hall) -> None:
    """The table was opened, the answer lost: nobody gets a second one."""
    hall.tables.after = failing(3, RuntimeError("planted: the answer is lost"))
    players = hall.players(3)
    found = await ends(players, await joined(players))
    assert {end.state for end in found} == {MATCHED}
    assert len(hall.tables.tables) == 1
    assert Counter(hall.tables.opens) == {found[0].table_id: 4}


async def test_a_refusal_after_a_lost_answer_gives_nobody_a_second_table(hall: Hall) -> None:
    """It says nothing of the attempt before it, by which the three sit already."""

    def refuse_the_second(table_id: str) -> None:
        if hall.tables.opens.count(table_id) == 2:
            raise Refusal("INVALID", "planted")

    hall.tables.fault = refuse_the_second
    hall.tables.after = failing(1, RuntimeError("planted: the answer is lost"))
    back = counts.CLAIMS.labels(ROOM, "back")._value.get()
    players = hall.players(3)
    found = await ends(players, await joined(players))
    assert {end.state for end in found} == {MATCHED}
    assert list(hall.tables.tables) == [found[0].table_id]
    assert counts.CLAIMS.labels(ROOM, "back")._value.get() == back  # where they could be matched with others


@pytest.mark.parametrize("reason", ["DRAINING", "OVERLOADED", "UNAVAILABLE"])
async def test_a_busy_or_leaving_node_is_asked_again(hall: Hall, reason: str) -> None:
    hall.tables.fault = failing(2, Refusal(reason, "not now"))
    players = hall.players(3)
    found = await ends(players, await joined(players))
    assert {end.state for end in found} == {MATCHED}
    assert len(set(hall.tables.opens)) == 1


async def test_while_the_table_service_is_silent_the_others_stay_free(opened: Open) -> None:
    """A few claims are in doubt; whoever joins now can still cancel, and all get tables when it is back."""
    async with opened() as hall:
        silent = [True]

        def hang(table_id: str) -> None:
            if silent[0]:
                raise RuntimeError("planted: silence")

        hall.tables.fault = hang
        first = hall.players(3)
        first_tickets = await joined(first)
        await until(lambda: tried(hall, 3))
        later = hall.players(4)
        later_tickets = await joined(later)
        assert {ticket.state for ticket in later_tickets} == {WAITING}
        await later[0].cancel(later_tickets[0].ticket_id)
        silent[0] = False
        found = await ends([*first, *later[1:]], [*first_tickets, *later_tickets[1:]])
        assert {end.state for end in found} == {MATCHED}
        assert len(hall.tables.tables) == 2


async def test_after_long_silence_the_tickets_are_back(opened: Open) -> None:
    async with opened(open_patience_s=0.2) as hall:
        hall.tables.fault = failing(10, RuntimeError("planted: silence"))
        players = hall.players(3)
        tickets = await joined(players)
        found = await ends(players, tickets)
        assert {end.state for end in found} == {MATCHED}
        assert len(hall.tables.tables) == 1


async def test_the_claim_of_a_dead_instance_is_taken_over(opened: Open) -> None:
    async with opened(claim_s=0.5) as hall:
        blocked = [True]

        def block(table_id: str) -> None:
            if blocked[0]:
                raise RuntimeError("planted: the first instance never gets through")

        hall.tables.fault = block
        players = hall.players(3)
        async with opened(beside=hall) as doomed:
            # Only the doomed instance looks: the other one is told to wait by a claim that is in doubt.
            tickets = await joined(players, doomed)
            await until(lambda: tried(hall, 1))
        blocked[0] = False
        found = await ends(players, tickets)
        assert {end.state for end in found} == {MATCHED}
        assert len(hall.tables.tables) == 1


async def test_no_claim_waits_for_a_place_and_a_slow_table_is_asked_for_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Four threes wait, there are two places, and opening takes longer than the lease of a claim."""
    monkeypatch.setattr(matcher, "_OPENING_AT_ONCE", 2)
    monkeypatch.setattr(opening, "_TIMEOUT_S", 60.0)
    go_on, plain = asyncio.Event(), TableHouse.Open

    async def slow(house: TableHouse, request: table_pb2.OpenRequest, context: Any) -> table_pb2.OpenResponse:
        answer = await plain(house, request, context)
        await go_on.wait()
        return answer

    monkeypatch.setattr(TableHouse, "Open", slow)
    async with opened(claim_s=0.3) as hall:

        async def leases() -> dict[bytes, float]:
            found: Any = await hall.redis.zrange(f"mm:{{{ROOM}}}:claims", 0, -1, withscores=True)
            return dict(found)

        try:
            players = hall.players(12)
            tickets = await joined(players)
            await until(lambda: tried(hall, 2))
            first = await leases()
            for _ in range(2):
                await until(lambda: renewed(leases, first))  # noqa: B023
                first = await leases()
            assert len(first) == 2
            assert await hall.redis.zcard(f"mm:{{{ROOM}}}:lease") == 6  # the others wait, and can still cancel
        finally:
            go_on.set()
        found = await ends(players, tickets)
        assert {end.state for end in found} == {MATCHED}
        assert set(Counter(hall.tables.opens).values()) == {1}
        assert "claim taken over" not in caplog.text


async def renewed(leases: Callable[[], Awaitable[dict[bytes, float]]], before: dict[bytes, float]) -> bool:
    now = await leases()
    return all(lease > before[claim] for claim, lease in now.items() if claim in before)


async def test_a_claim_that_was_lost_while_it_waited_for_its_place_is_not_opened() -> None:
    asked: list[str] = []
    faults = metrics.FAULTS.labels("opening")._value.get()

    class Store:
        async def renew(self, room_id: str, claim: Claim, owner: str, now_ms: int) -> bool:
            asked.append(claim.claim_id)
            return False

    nobody: Any = None  # is asked anything
    opener = opening.Opener(cast("Any", {ROOM}), cast("Any", Store()), nobody, nobody, nobody, nobody, "me", 1.0)
    await opener.open(ROOM, Claim("a-1,b-1,c-1", "e", (b"", b"", b""), (1, 2, 3), inherited=True))
    assert asked == ["a-1,b-1,c-1"]
    assert metrics.FAULTS.labels("opening")._value.get() == faults


async def test_a_match_that_was_opened_before_the_matcher_died_is_found_again(opened: Open) -> None:
    """The table is open, one of its players has left it already: the heir learns that, and opens no other."""
    async with opened(claim_s=0.5) as hall:
        players = hall.players(3)

        def conflict(table_id: str) -> None:
            if hall.tables.opens.count(table_id) > 1:
                raise Refusal("KEY_CONFLICT", "opened for others")

        hall.tables.fault = conflict
        hall.tables.after = failing(1, RuntimeError("planted: the answer is lost"))
        found = await ends(players, await joined(players))
        assert {end.state for end in found} == {MATCHED}
        assert len(hall.tables.tables) == 1


async def test_matches_are_told_once_on_jetstream(hall: Hall) -> None:
    async with clients.nats_bus(hall.config.nats_url, name="test") as bus:
        players = hall.players(3)
        found = await ends(players, await joined(players))
        await stream.ensure(bus.jetstream())
        subscription = await bus.jetstream().subscribe("ddz.match.made", ordered_consumer=True)
        told: list[matchmaking_pb2.MatchMade] = []
        while not told or told[-1].match_id != found[0].table_id:
            message = await subscription.next_msg(timeout=10)
            told.append(matchmaking_pb2.MatchMade.FromString(message.data))
            assert (message.headers or {})["Nats-Msg-Id"] == told[-1].match_id
        assert told[-1].room_id == ROOM
        assert sorted(told[-1].player_ids) == sorted(player.id for player in players)
        assert len(told[-1].waited_ms) == 3
        assert len({match.match_id for match in told}) == len(told)


async def test_tickets_survive_a_kill_of_redis(opened: Open, leash: Leash, scratch: Path) -> None:
    folder, port = scratch / "valkey-of-matchmaking", ports.free(1)[0]
    with servers.valkey(leash, folder, port, appendfsync="always") as first:
        async with opened(redis_url=first.url) as hall:
            players = hall.players(3)
            tickets = await joined(players[:2])
            first.process.popen.kill()
            first.process.popen.wait()
            assert isinstance(first.process.popen.args, list)
            again = servers.run(leash, "Valkey", [str(part) for part in first.process.popen.args[-2:]], folder)
            try:
                found = await ends(players, [*tickets, await joined_in_the_end(players[2])])
            finally:
                again.stop()
    assert {end.state for end in found} == {MATCHED}
    assert len({end.table_id for end in found}) == 1


async def joined_in_the_end(player: Person) -> matchmaking_pb2.Ticket:
    """Joins when the store is back."""
    while True:
        try:
            return await player.join()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise


async def test_without_the_bus_people_are_matched_and_the_news_wait(opened: Open, leash: Leash, scratch: Path) -> None:
    port, folder = ports.free(1)[0], scratch / "nats-of-matchmaking"
    with servers.nats(leash, folder, port) as bus:
        async with opened(nats_url=bus.url) as hall:
            bus.process.stop()
            players = hall.players(3)
            found = await ends(players, await joined(players))
            assert {end.state for end in found} == {MATCHED}
            assert await hall.redis.hlen(f"mm:{{{ROOM}}}:made") == 1


async def test_matches_of_a_room_that_is_gone_from_the_file_are_told_too(
    opened: Open, leash: Leash, scratch: Path, nats: str, tmp_path: Path
) -> None:
    without = rooms_file(tmp_path / "rooms.yaml", without=ROOM)
    port, folder = ports.free(1)[0], scratch / "nats-of-a-room-that-goes"
    with servers.nats(leash, folder, port) as bus:
        async with opened(nats_url=bus.url) as hall:
            bus.process.stop()
            players = hall.players(3)
            await ends(players, await joined(players))
            waiting = f"mm:{{{ROOM}}}:made"
            assert await hall.redis.hlen(waiting) == 1

            async def told() -> bool:
                return not await hall.redis.exists(waiting)

            async with opened(beside=hall, nats_url=nats, rooms_file=without):
                await until(told)


async def test_a_drain_finishes_what_is_being_opened(opened: Open, hall: Hall) -> None:
    async with opened(beside=hall) as leaving:
        hall.tables.fault = failing(2, Refusal("OVERLOADED", "not now"))
        players = hall.players(3)
        tickets = await joined(players, leaving)
        await until(lambda: tried(hall, 1))
    found = await ends(players, tickets)
    assert {end.state for end in found} == {MATCHED}
    assert len(hall.tables.tables) == 1


# ---- bots -----------------------------------------------------------------------------------------------------------


async def test_bots_fill_a_table_only_after_a_wait(opened: Open) -> None:
    async with opened(bot_fill_s=0.4) as hall:
        bots = [hall.player(bot=True) for _ in range(3)]
        await joined(bots)
        player = hall.player()
        (end,) = await ends([player], await joined([player]))
        assert end.state == MATCHED
        assert end.waited_ms >= 400
        seats = hall.tables.tables[end.table_id].players
        assert Counter(seat.bot for seat in seats) == {True: 2, False: 1}


async def test_people_go_before_bots(opened: Open) -> None:
    async with opened(bot_fill_s=3.0) as hall:  # nobody who joins at once is so late
        await joined([hall.player(bot=True) for _ in range(2)])
        players = hall.players(2)
        found = await ends(players, await joined(players))
        assert len({end.table_id for end in found}) == 1
        seats = hall.tables.tables[found[0].table_id].players
        assert Counter(seat.bot for seat in seats) == {True: 1, False: 2}


async def test_bots_alone_make_no_table_when_they_only_fill(opened: Open) -> None:
    async with opened(bot_fill_s=0.1) as hall:
        await joined([hall.player(bot=True) for _ in range(4)])
        players = hall.players(3)
        await ends(players, await joined(players))
        tables = [request.players for request in hall.tables.tables.values()]
        assert all(not all(seat.bot for seat in seats) for seats in tables)
        assert sum(not seat.bot for seats in tables for seat in seats) == 3


async def test_where_bots_do_not_fill_they_wait_like_people(hall: Hall) -> None:
    bots = [hall.player(bot=True) for _ in range(3)]
    found = await ends(bots, await joined(bots))
    assert all(seat.bot for seat in hall.tables.tables[found[0].table_id].players)
