"""`ddz admin` against a running ledger."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from ddz.ledger.v1 import ledger_pb2
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from ddzclient.cli import admin
from tests.services.ledger.harness import Database, Ledger, serve
from tests.services.ledger.records import record
from tests.services.ledger.test_ledger_keys import opened, seated, settle

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
async def target(database: Database, nats: str) -> AsyncIterator[tuple[Ledger, str]]:
    async with serve(database, nats) as ledger:
        yield ledger, ledger.target


async def ddz_admin(target: str, *words: str) -> int:
    parser = argparse.ArgumentParser()
    admin.configure(parser)
    arguments = parser.parse_args(["--ledger", target, *words])
    return await asyncio.to_thread(admin.run, arguments)


async def test_a_ledger_in_order(target: tuple[Ledger, str], fresh: Fresh, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, address = target
    hand_id, _ = await opened(ledger, fresh)
    assert await ddz_admin(address, "audit", "--skip-records", "--open-limit-s", "3600") == 0
    assert "Everything holds." in capsys.readouterr().out
    assert await ddz_admin(address, "void", hand_id, "--reason", "test") == 0
    assert await ddz_admin(address, "void", hand_id, "--reason", "test") == 0
    assert capsys.readouterr().out == f"{hand_id} is void.\n{hand_id} is void (it was already).\n"


async def test_a_fault_is_printed_and_ends_with_1(
    target: tuple[Ledger, str], fresh: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, address = target
    hand_id, players = await opened(ledger, fresh)
    await ledger.internal.Settle(settle(record(hand_id, players, winner="farmers", landlord=0)))
    assert await ddz_admin(address, "audit") == 1  # a record without actions proves nothing
    printed = capsys.readouterr().out
    assert f"FAULT {hand_id}: the record is wrong: its 0 actions leave the hand in the phase await_deal" in printed
    assert "1 faults." in printed


class Tables(table_pb2_grpc.TableServiceServicer):
    """A table service that plays one hand at each table it knows."""

    def __init__(self, hands: dict[str, str]) -> None:
        self.hands = hands

    Act = Play = Watch = None  # type: ignore[assignment]  # nobody calls them

    async def GetTable(self, request: table_pb2.GetTableRequest, context: Any) -> table_pb2.GetTableResponse:
        if request.table_id not in self.hands:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such table")
        snapshot = events_pb2.Snapshot(table_id=request.table_id, hand_id=self.hands[request.table_id])
        return table_pb2.GetTableResponse(snapshot=snapshot)


@contextlib.asynccontextmanager
async def tables(hands: dict[str, str]) -> AsyncIterator[str]:
    house = grpc.aio.server()
    table_pb2_grpc.add_TableServiceServicer_to_server(Tables(hands), house)
    port = house.add_insecure_port("127.0.0.1:0")
    await house.start()
    yield f"127.0.0.1:{port}"
    await house.stop(None)


async def test_an_old_open_hand_is_a_fault_unless_its_table_plays_it(
    target: tuple[Ledger, str], fresh: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, address = target
    players = await seated(ledger, fresh)
    hand_id, table_id = fresh("hand"), fresh("table")
    await ledger.internal.OpenHand(ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players, table_id=table_id))
    words = ("audit", "--skip-records", "--open-limit-s", "0")
    for hands, status in (({table_id: hand_id}, 0), ({table_id: "another"}, 1), ({}, 1)):
        async with tables(hands) as house:
            assert await ddz_admin(address, *words, "--table", house) == status
        fault = f"FAULT {hand_id} is open, and no live table plays it: ddz admin void {hand_id}"
        assert (fault in capsys.readouterr().out) == bool(status)
    await ledger.internal.VoidHand(ledger_pb2.VoidHandRequest(hand_id=hand_id))


async def test_a_reversal_and_a_gift_tell_what_they_did(
    target: tuple[Ledger, str], fresh: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, address = target
    hand_id, players = await opened(ledger, fresh)
    await ledger.internal.Settle(settle(record(hand_id, players, winner="farmers", landlord=0, multiplier=3)))
    assert await ddz_admin(address, "reverse", hand_id, "--operator", "eve", "--reason", "test") == 0
    printed = capsys.readouterr().out
    assert f"  {players[0]}: +60 chips, +0 rating; now 1000 and 0" in printed
    assert f"  {players[1]}: -30 chips, -3 rating; now 1000 and 0" in printed
    assert await ddz_admin(address, "gift", players[0], "5", "--key", fresh("gift")) == 0
    assert f"{players[0]} has 1005 chips.\n" in capsys.readouterr().out


async def test_what_cannot_be_done_ends_with_2(target: tuple[Ledger, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert await ddz_admin(target[1], "void", "nobody-opened-it", "--reason", "test") == 2
    assert "NOT_FOUND" in capsys.readouterr().err
    assert await ddz_admin("127.0.0.1:1", "audit") == 2
