"""Who has sat down at another table while he waits is not matched, and costs nobody else a match."""

from __future__ import annotations

import grpc

from ddz.lobby.v1 import lobby_pb2
from servicekit import clients, seats
from servicekit.errors import from_rpc_error
from tests.services.lobby.conftest import refusal_of
from tests.services.matchmaking.conftest import CANCELLED, MATCHED, Hall, Person, failing, until
from tests.services.matchmaking.test_counts import Counts
from tests.services.matchmaking.test_opening import ends, joined, tried

TABLE = "tchoice"


async def sit(hall: Hall, player: Person) -> None:
    """Seats the player at a table by choice; returns when the service has heard of it."""
    witness = hall.player()
    hall.tables.seats[TABLE] = [player.id, witness.id, ""]
    summary = lobby_pb2.TableSummary(table_id=TABLE, room_id="classic-beginner", phase="seating", seq=1)
    for seated in (player, witness):
        summary.players.add(player_id=seated.id)
    async with clients.nats_bus(hall.config.nats_url, name="test") as bus:
        await bus.publish(seats.SUBJECT, summary.SerializeToString())
        await bus.flush()

    async def heard() -> bool:
        try:
            await witness.cancel((await witness.join("happy-beginner")).ticket_id)
        except grpc.aio.AioRpcError as error:
            refused = from_rpc_error(error)
            assert refused is not None
            return refused.reason == "ALREADY_SEATED"
        return False

    await until(heard)


async def test_who_has_sat_down_elsewhere_is_cancelled_and_the_others_get_a_table(hall: Hall) -> None:
    counts = Counts()
    seated, *others, fresh = hall.players(4)
    tickets = await joined([seated])
    await sit(hall, seated)
    tickets += await joined(others)
    assert [end.state for end in await ends([seated], tickets[:1])] == [CANCELLED]
    assert hall.tables.opens == []
    found = await ends([*others, fresh], [*tickets[1:], *await joined([fresh])])
    assert {(end.state, end.table_id) for end in found} == {(MATCHED, found[0].table_id)}
    assert [end.ticket_id for end in found[:2]] == [ticket.ticket_id for ticket in tickets[1:]]
    assert hall.tables_of(seated.id) == [TABLE]
    refused = await refusal_of(seated.join())
    assert (refused.reason, refused.data["table_id"]) == ("ALREADY_SEATED", TABLE)
    assert counts.of("ddz_match_cancels_total", "seated") == 1


async def test_who_has_left_again_is_matched_though_the_report_is_old(hall: Hall) -> None:
    players = hall.players(3)
    tickets = await joined(players[:1])
    await sit(hall, players[0])
    hall.tables.leave(TABLE, players[0].id)
    tickets += await joined(players[1:])
    assert {end.state for end in await ends(players, tickets)} == {MATCHED}


async def test_while_his_table_is_silent_nobody_is_seated_with_him(hall: Hall) -> None:
    """It is asked again, then the three wait again, then it answers."""
    players = hall.players(3)
    tickets = await joined(players[:1])
    await sit(hall, players[0])
    hall.tables.looking = failing(5, RuntimeError("planted: silence"))
    tickets += await joined(players[1:])
    assert [end.state for end in await ends(players[:1], tickets[:1])] == [CANCELLED]
    assert hall.tables.opens == []


async def test_a_table_that_may_be_open_already_is_asked_for_all_the_same(hall: Hall) -> None:
    silent = [True]

    def hang(table_id: str) -> None:
        if silent[0]:
            raise RuntimeError("planted: silence")

    hall.tables.after = hang
    players = hall.players(3)
    tickets = await joined(players)
    await until(lambda: tried(hall, 1))
    await sit(hall, players[0])
    silent[0] = False
    found = await ends(players, tickets)
    assert {end.state for end in found} == {MATCHED}
    assert set(hall.tables.opens) == {found[0].table_id}
