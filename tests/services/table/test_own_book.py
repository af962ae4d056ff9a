"""An operator's rule book, from a file, is played in a room that names it, without code (docs/own-rule-book.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddz.common.v1 import common_pb2
from ddz.ledger.v1 import ledger_pb2
from ddzclient.verify import verify
from doudizhu import HAPPY, dump
from servicekit import rooms
from tests.services.table.bots import begin, play_hands
from tests.services.table.stack import Stack, terms

FIERY = {**dump(HAPPY), "id": "fiery", "bomb_factor": 3, "all_pass": "redeal", "early_flee_s": 0}

ROOM = """
clocks: {trustee_ms: 10}
rooms:
- room_id: fiery-beginner
  name_zh: 火爆场
  name_en: Fiery
  seating: by_choice
  terms: {book_file: fiery.yaml, base_chips: 10, initial_multiplier: 1, minimum_chips: 100}
"""


def load(folder: Path, fields: dict[str, object]) -> common_pb2.Terms:
    (folder / "rooms.yaml").write_text(ROOM, encoding="utf-8")
    # One field a line, as a person would write it: JSON is YAML.
    (folder / "fiery.yaml").write_text(json.dumps(fields, indent=1), encoding="utf-8")
    (room,) = rooms.load(folder / "rooms.yaml")
    return room.terms


async def test_a_room_plays_by_the_book_of_a_file(stack: Stack, tmp_path: Path) -> None:
    own = load(tmp_path, FIERY)
    assert own.book == "fiery"
    own.clocks.CopyFrom(terms("happy").clocks)
    players = await stack.players()
    ids = [player.player_id for player in players]
    table_id = await stack.open(own, players)
    clients = [await stack.client(one, table_id).open() for one in ids]
    await begin(clients, "happy")
    await play_hands(stack.nodes, table_id, ids, hands=2)
    stored = await stack.hands.GetHand(ledger_pb2.GetHandRequest(hand_id=f"{table_id}-1"))
    assert verify(stored.record, stored.settlement) == []
    assert json.loads(stored.record.terms.book_fields_json)["bomb_factor"] == 3
    for client in clients:
        await client.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bomb_factor": 0}, r"fiery\.yaml:\d+: room fiery-beginner: bomb_factor must be a whole number from 1 to 100"),
        ({"auction": "dice"}, r"fiery\.yaml:\d+: .*auction must be one of bid, bid_rob, call_rob"),
        ({"luck": 1}, r"fiery\.yaml:\d+: .*luck is not a field"),
        ({"max_redeals": None}, r"fiery\.yaml:\d+: .*max_redeals must be a whole number"),
        ({"bomb_factor": 100, "spring_factor": 100}, "could overflow 64 bits"),
    ],
)
def test_a_fault_in_the_file_is_named(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(rooms.RoomsError, match=words):
        load(tmp_path, {**FIERY, **changes})


@pytest.mark.parametrize("name", dump(HAPPY))
def test_every_field_must_be_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(rooms.RoomsError, match=f"{name} is missing"):
        load(tmp_path, {field: value for field, value in FIERY.items() if field != name})
