"""Rooms, the table browser and its stream, fed by reports as table nodes send them."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import yaml
from nats.aio.msg import Msg
from prometheus_client import REGISTRY

from ddz.admin.v1 import orders_pb2
from ddz.common.v1.common_pb2 import Notice
from ddz.lobby.v1 import lobby_pb2
from servicekit.orders import Orders, nothing
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from services.lobby.board import Board
from services.lobby.presence import Presence
from services.lobby.servicer import LobbyServicer
from services.lobby.tables import Tables
from tests.services.lobby.conftest import ROOMS_FILE, Person, Settle, Town, refusal_of

ROOM = "happy-beginner"
_numbers = itertools.count(1)


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110, what is waited for comes over the network
            await asyncio.sleep(0.01)


def new_table(prefix: str = "t") -> str:
    return f"{prefix}board{next(_numbers)}"


async def report(
    town: Town, table_id: str, *players: str, room_id: str = ROOM, seq: int = 1, phase: str = "seating"
) -> None:
    summary = lobby_pb2.TableSummary(table_id=table_id, room_id=room_id, phase=phase, seq=seq)
    for player in (*players, "", "", "")[:3]:
        summary.players.add(player_id=player)
    await town.bus.publish("ddz.lobby.table", summary.SerializeToString())
    await town.bus.flush()


async def tables_of(town: Town, room_id: str = ROOM) -> dict[str, lobby_pb2.TableSummary]:
    found: dict[str, lobby_pb2.TableSummary] = {}
    token = ""
    while True:
        request = lobby_pb2.ListTablesRequest(room_id=room_id, page_size=2, page_token=token)
        answer = await town.stub.ListTables(request)
        found |= {table.table_id: table for table in answer.tables}
        token = answer.next_page_token
        if not token:
            return found


async def listed(town: Town, table_id: str, seq: int = 1) -> bool:
    table = (await tables_of(town)).get(table_id)
    return table is not None and table.seq >= seq


async def room_of(town: Town, room_id: str = ROOM) -> lobby_pb2.Room:
    answer = await town.stub.ListRooms(lobby_pb2.ListRoomsRequest())
    return next(room for room in answer.rooms if room.room_id == room_id)


class Lobby:
    """What a client knows from its stream."""

    def __init__(self, person: Person, room_id: str = "") -> None:
        request = lobby_pb2.WatchLobbyRequest(room_id=room_id)
        self.stream: Any = person.town.stub.WatchLobby(request, metadata=person.headers)
        self.rooms: dict[str, lobby_pb2.Room] = {}
        self.tables: dict[str, lobby_pb2.TableSummary] = {}
        self.frames: list[lobby_pb2.WatchLobbyResponse] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self.stream:
            self.frames.append(frame)
            if frame.snapshot:
                self.rooms, self.tables = {}, {}
            self.rooms |= {room.room_id: room for room in frame.rooms}
            self.tables |= {table.table_id: table for table in frame.tables}
            for gone in frame.gone_table_ids:
                self.tables.pop(gone, None)

    async def knows(self, table_id: str) -> bool:
        return table_id in self.tables

    async def close(self) -> None:
        self.stream.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_the_rooms_are_those_of_the_file(town: Town) -> None:
    answer = await town.stub.ListRooms(lobby_pb2.ListRoomsRequest())
    assert len(answer.rooms) == 9
    room = next(room for room in answer.rooms if room.room_id == "rob-beginner")
    assert (room.name_zh, room.name_en, room.seating) == ("抢地主 初级场", "Rob, beginners", lobby_pb2.SEATING_MATCHED)


async def test_the_rooms_come_with_what_operators_tell_to_all(town: Town) -> None:
    orders = Orders(nothing)
    board = Board(Rooms(ROOMS_FILE), Tables(town.redis), Presence(town.redis), Seats(None), orders, town.bus)  # type: ignore[arg-type]
    absent: Any = None
    servicer = LobbyServicer(absent, absent, board, absent)
    for message in ("back at noon", ""):
        orders.take(orders_pb2.Orders(maintenance=message or None))
        answer = await servicer.ListRooms(lobby_pb2.ListRoomsRequest(), None)
        assert answer.notice == Notice(maintenance=bool(message), message=message)


async def test_tables_are_listed_as_they_report_themselves(town: Town) -> None:
    table_id = new_table()
    await report(town, table_id, "p1", "p2")
    await until(lambda: listed(town, table_id))
    before = await room_of(town)
    await report(town, table_id, "p1", "p2", "p3", seq=5, phase="play")
    await until(lambda: listed(town, table_id, 5))
    table = (await tables_of(town))[table_id]
    assert [player.player_id for player in table.players] == ["p1", "p2", "p3"]
    assert table.phase == "play"
    after = await room_of(town)
    assert (after.tables, after.players) == (before.tables, before.players + 1)
    await report(town, table_id, seq=6, phase="closed")

    async def gone() -> bool:
        return table_id not in await tables_of(town)

    await until(gone)
    final = await room_of(town)
    assert (final.tables, final.players) == (before.tables - 1, before.players - 2)


async def test_all_streams_share_the_rooms_until_counts_change(town: Town) -> None:
    board = Board(Rooms(ROOMS_FILE), Tables(town.redis), Presence(town.redis), Seats(None), Orders(nothing), town.bus)  # type: ignore[arg-type]
    first = board.rooms()
    assert all(one is other for one, other in zip(first, board.rooms(), strict=True))
    summary = lobby_pb2.TableSummary(table_id=new_table(), room_id=ROOM, seq=1)
    await board._on_message(Msg(town.bus, data=summary.SerializeToString()))
    changed = next(room for room in board.rooms() if room.room_id == ROOM)
    assert changed.tables == 1
    assert next(room for room in first if room.room_id == ROOM).tables == 0


async def test_tables_of_no_room_are_refused_and_junk_is_ignored(town: Town) -> None:
    assert (await refusal_of(tables_of(town, "no-room"))).reason == "NOT_FOUND"
    await town.bus.publish("ddz.lobby.table", b"\xff\xff junk")
    table_id = new_table()
    await report(town, table_id)
    await until(lambda: listed(town, table_id))


async def test_a_stream_begins_with_everything_and_goes_on_with_changes(town: Town) -> None:
    old, new, private = new_table(), new_table(), new_table("x")
    await report(town, old, "p1")
    await until(lambda: listed(town, old))
    lobby = Lobby(await town.player())
    await until(lambda: lobby.knows(old))
    assert lobby.frames[0].snapshot
    assert len(lobby.rooms) == 9
    await report(town, private, "p9")
    await report(town, new, "p2", "p3")
    await until(lambda: lobby.knows(new))
    assert private not in lobby.tables
    assert lobby.rooms[ROOM].tables == len(await tables_of(town))
    await report(town, new, seq=2, phase="closed")

    async def gone() -> bool:
        return new not in lobby.tables

    await until(gone)
    assert [frame.snapshot for frame in lobby.frames] == [True] + [False] * (len(lobby.frames) - 1)
    await lobby.close()


async def test_a_stream_of_one_room_tells_that_room_alone(town: Town) -> None:
    lobby = Lobby(await town.player(), ROOM)
    here, there = new_table(), new_table()
    await report(town, there, room_id="happy-master")
    await report(town, here)
    await until(lambda: lobby.knows(here))
    assert set(lobby.rooms) == {ROOM}
    assert {table.room_id for table in lobby.tables.values()} == {ROOM}
    await lobby.close()


async def test_what_changes_while_a_slow_reader_takes_everything_is_told_next(town: Town) -> None:
    board = Board(Rooms(ROOMS_FILE), Tables(town.redis), Presence(town.redis), Seats(None), Orders(nothing), town.bus)  # type: ignore[arg-type]
    stream = board.watch("p1", ROOM)
    came: list[str] = []
    for number in range(3):  # the first frame is everything, the others are changes
        frame = await anext(stream)
        assert frame.snapshot is (number == 0)
        assert [table.table_id for table in frame.tables] == came[-1:]
        came.append(new_table())
        summary = lobby_pb2.TableSummary(table_id=came[-1], room_id=ROOM, seq=1)
        await board._on_message(Msg(town.bus, data=summary.SerializeToString()))
    await stream.aclose()


async def test_every_snapshot_of_a_stream_tells_of_maintenance(town: Town) -> None:
    orders = Orders(nothing)
    orders.take(orders_pb2.Orders(maintenance="back at noon"))
    board = Board(Rooms(ROOMS_FILE), Tables(town.redis), Presence(town.redis), Seats(None), orders, town.bus)  # type: ignore[arg-type]
    stream = board.watch("p1", ROOM)
    for _ in range(2):
        frame = await anext(stream)
        assert (frame.snapshot, frame.notice.message) == (True, "back at noon")
        board.rooms_changed()
    await stream.aclose()


async def test_many_changes_come_in_few_frames(town: Town) -> None:
    """A slow reader is told the newest state, not every one."""
    lobby = Lobby(await town.player())
    table_id = new_table()
    for seq in range(1, 200):
        await report(town, table_id, "p1", seq=seq)

    async def newest() -> bool:
        return table_id in lobby.tables and lobby.tables[table_id].seq == 199

    await until(newest)
    assert len(lobby.frames) < 100
    await lobby.close()


async def test_a_player_has_so_many_streams_and_no_more(town: Town) -> None:
    person = await town.player()
    lobbies = [Lobby(person) for _ in range(8)]
    for lobby in lobbies:
        await until(lambda: begun(lobby))  # noqa: B023
    refused = await refusal_of(one_frame(person))
    assert refused.reason == "LIMIT_REACHED"
    await lobbies[0].close()

    async def free() -> bool:
        try:
            await one_frame(person)
        except Exception:
            return False
        return True

    await until(free)
    for lobby in lobbies:
        await lobby.close()


async def begun(lobby: Lobby) -> bool:
    return bool(lobby.frames)


async def test_a_stream_ends_in_good_order_with_the_token_that_opened_it(town: Town) -> None:
    person = await town.player()
    until_s = ("x-player-until", str(time.time() + 1.0))
    stream = town.stub.WatchLobby(lobby_pb2.WatchLobbyRequest(), metadata=[*person.headers, until_s])
    first, *_ = [frame async for frame in stream]
    assert first.snapshot
    assert await stream.code() is grpc.StatusCode.OK
    late = town.stub.WatchLobby(lobby_pb2.WatchLobbyRequest(), metadata=[*person.headers, ("x-player-until", "1")])
    assert (await refusal_of(late.read())).reason == "UNAUTHENTICATED"


async def one_frame(person: Person) -> lobby_pb2.WatchLobbyResponse:
    stream = person.town.stub.WatchLobby(lobby_pb2.WatchLobbyRequest(), metadata=person.headers)
    frame = await stream.read()
    stream.cancel()
    assert isinstance(frame, lobby_pb2.WatchLobbyResponse)
    return frame


async def test_presence_follows_the_stream_and_the_seat(town: Town) -> None:
    person, friend = await town.player(), await town.player()
    request = lobby_pb2.GetProfileRequest(player_id=friend.id)
    assert not (await person.call("GetProfile", request)).profile.online
    lobby = Lobby(friend)
    await until(lambda: begun(lobby))
    assert (await person.call("GetProfile", request)).profile.online
    await lobby.close()
    sitting = await town.player()
    table_id = new_table()
    await report(town, table_id, sitting.id)
    await until(lambda: listed(town, table_id))
    own = (await sitting.call("GetProfile", lobby_pb2.GetProfileRequest())).profile
    assert (own.online, own.table_id) == (True, table_id)
    seen = (await person.call("GetProfile", lobby_pb2.GetProfileRequest(player_id=sitting.id))).profile
    assert (seen.online, seen.table_id) == (True, "")


async def test_everybody_is_counted_as_present_once(found: Settle) -> None:
    """Two who watch, one of them at a table with a third who does not."""
    async with found() as town:
        await town.redis.delete("lobby:online")
        watching, both, sitting = [await town.player() for _ in range(3)]
        table_id = new_table()
        await report(town, table_id, both.id, sitting.id)
        await until(lambda: listed(town, table_id))
        first, second = Lobby(watching), Lobby(both)
        counts: list[int] = []

        async def three() -> bool:
            await report(town, table_id, both.id, sitting.id)  # as tables do, lest their lease end
            counts.append((await one_frame(watching)).online)
            return counts[-1] == 3

        await until(three)
        assert max(counts) == 3
        await first.close()
        await second.close()


async def test_rooms_change_without_a_restart(found: Settle, tmp_path: Path) -> None:
    file = tmp_path / "rooms.yaml"
    content = yaml.safe_load(ROOMS_FILE.read_text())
    file.write_text(json.dumps(content))
    async with found(rooms_file=str(file)) as town:
        lobby = Lobby(await town.player())
        await until(lambda: begun(lobby))
        content["rooms"] = [room for room in content["rooms"] if room["room_id"] != ROOM]
        file.write_text(json.dumps(content))

        async def gone() -> bool:
            return len(lobby.rooms) == 8 and ROOM not in lobby.rooms

        await until(gone)
        refused = {"result": "refused"}
        before = REGISTRY.get_sample_value("ddz_rooms_reloads_total", refused) or 0

        async def noticed() -> bool:
            return (REGISTRY.get_sample_value("ddz_rooms_reloads_total", refused) or 0) > before

        content["rooms"][0]["terms"]["book"] = "bridge"
        file.write_text(json.dumps(content))
        await until(noticed)
        assert len((await town.stub.ListRooms(lobby_pb2.ListRoomsRequest())).rooms) == 8
        await lobby.close()


async def test_a_room_that_left_the_file_is_measured_until_its_tables_have_gone(town: Town, tmp_path: Path) -> None:
    file = tmp_path / "rooms.yaml"
    content = yaml.safe_load(ROOMS_FILE.read_text())
    content["rooms"][0]["room_id"] = room_id = "leaves"
    file.write_text(json.dumps(content))
    rooms = Rooms(file)
    board = Board(rooms, Tables(town.redis), Presence(town.redis), Seats(None), Orders(nothing), town.bus)  # type: ignore[arg-type]

    def measured() -> list[float | None]:
        board._measure()
        names = ("ddz_lobby_tables", "ddz_lobby_seated")
        return [REGISTRY.get_sample_value(name, {"room": room_id}) for name in names]

    async def report(seq: int, phase: str) -> None:
        summary = lobby_pb2.TableSummary(table_id="tleaves", room_id=room_id, seq=seq, phase=phase)
        summary.players.add(player_id="p1")
        await board._on_message(Msg(town.bus, data=summary.SerializeToString()))

    await report(1, "seating")
    assert measured() == [1, 1]
    del content["rooms"][0]
    file.write_text(json.dumps(content))
    rooms.reread()
    assert measured() == [1, 1]
    await report(2, "closed")
    assert measured() == [0, 0]
