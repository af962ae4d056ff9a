"""The rooms file: what passes, and what is refused with file, line, room and field."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddz.lobby.v1 import lobby_pb2
from doudizhu import rulebook
from doudizhu.refusal import Refusal
from servicekit import rooms
from servicekit.rooms import Rooms, RoomsError

DEPLOY = Path(__file__).parents[3] / "deploy"

GOOD = """\
clocks: {play_ms: 20000, auction_ms: 10000}
rooms:
- room_id: one
  name_zh: 一
  name_en: One
  seating: matched
  terms:
    book: rob
    base_chips: 10
    initial_multiplier: 1
    rake_chips: 5
    minimum_chips: 100
- room_id: two
  name_zh: 二
  name_en: Two
  seating: by_choice
  terms:
    book: classic
    base_min_chips: 5
    base_max_chips: 20
    initial_multiplier: 1
    minimum_chips: 10
    clocks: {play_ms: 1}
"""


def written(folder: Path, text: str, name: str = "rooms.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_default_file_has_beginner_middle_and_master_rooms_of_all_books() -> None:
    found = rooms.load(DEPLOY / "rooms.yaml")
    ids = {f"{book}-{tier}" for book in rulebook.BOOKS for tier in ("beginner", "middle", "master")}
    assert {room.room_id for room in found} == ids
    for room in found:
        assert room.name_zh
        assert room.name_en
        assert (room.seating == lobby_pb2.SEATING_MATCHED) == (room.terms.book == "rob") == room.terms.matched
        clocks = room.terms.clocks
        assert (clocks.base_ms, clocks.agree_ms, clocks.auction_ms, clocks.show_ms) == (30_000, 15_000, 10_000, 5_000)
        assert (clocks.first_lead_ms, clocks.play_ms, clocks.trustee_ms) == (30_000, 20_000, 1_000)
        assert (clocks.countdown_ms, clocks.show_window_ms, clocks.away_ms) == (7_000, 3_000, 0)


def test_the_fast_file_differs_in_its_clocks_alone() -> None:
    slow, fast = rooms.load(DEPLOY / "rooms.yaml"), rooms.load(DEPLOY / "rooms.fast.yaml")
    for one, other in zip(slow, fast, strict=True):
        assert other.terms.clocks.countdown_ms == 200
        assert other.terms.clocks.trustee_ms == 50
        other.terms.clocks.CopyFrom(one.terms.clocks)
        assert one == other


def test_short_forms_and_default_clocks(tmp_path: Path) -> None:
    one, two = rooms.load(written(tmp_path, GOOD))
    assert (one.terms.room_id, one.terms.matched, two.terms.matched) == ("one", True, False)
    assert (one.terms.base_min_chips, one.terms.base_max_chips) == (10, 10)
    assert (one.terms.clocks.play_ms, two.terms.clocks.play_ms, two.terms.clocks.auction_ms) == (20_000, 1, 10_000)


@pytest.mark.parametrize(
    ("change", "to", "line", "words"),
    [
        ("  seating: matched", "  seating: sometimes", 6, "room one: seating must be matched or by_choice"),
        ("    base_chips: 10", "    base_chips: ten", 9, "room one: terms.base_chips must be a whole number"),
        ("    base_chips: 10", "    base_chips: 0", 9, "room one: terms.base_chips"),
        ("    rake_chips: 5", "    rake_chips: -5", 11, "room one: terms.rake_chips"),
        ("    rake_chips: 5", "    rake: 5", 11, "room one: terms.rake is not a field of Terms"),
        ("    rake_chips: 5", "    rake_chips: true", 11, "terms.rake_chips must be a whole number"),
        ("    rake_chips: 5", "    rake_chips: 1.5", 11, "terms.rake_chips must be a whole number"),
        ("    book: rob", "    book: bridge", 8, "room one: terms.book"),
        ("    base_max_chips: 20", "    base_max_chips: 4", 20, "room two: terms.base_max_chips must not be below"),
        ("    minimum_chips: 10\n", "    minimum_chips: 10\n    maximum_chips: 9\n", 23, "terms.maximum_chips"),
        ("    minimum_chips: 10\n", "    minimum_chips: 10\n    maximum_chips: 14\n", 23, "must not be below 15"),
        ("- room_id: two", "- room_id: one", 13, "room one: room_id is used twice"),
        ("- room_id: two", "- room_id: Two!", 13, "room Two!: room_id"),
        ("    clocks: {play_ms: 1}", "    clocks: {play_ms: -1}", 23, "room two: terms.clocks.play_ms"),
        ("    clocks: {play_ms: 1}", "    clocks: {chess_ms: 1}", 23, "terms.clocks.chess_ms is not a field of Clocks"),
        ("  name_zh: 一", "  name_zh: ''", 4, "room one: name_zh"),
        ("    minimum_chips: 10\n", "    minimum_chips: 10\n    matched: true\n", 23, "terms.matched follows from"),
        ("    book: rob", "    book: rob\n    book_fields: {rob_factor: 0}", 9, "terms.book_fields : rob_factor"),
        (
            "    book: rob",
            "    book: rob\n    book_fields: {1: 2, a: 3}",
            9,
            "room one: terms.book_fields.1 is not the",
        ),
        (
            "    book: rob",
            "    book: rob\n    book_fields: {bomb_factor: 2024-01-01}",
            9,
            "terms.book_fields.bomb_factor",
        ),
        ("    book: rob", "    book: rob\n    book_fields: {four_kickers: [!!set {a}]}", 9, "book_fields.four_kickers"),
        (
            "    book: classic",
            "    book: classic\n    book_fields: {bomb_allowance: [1, 2]}",
            19,
            "room two: terms.book_fields : bomb_allowance must be four",
        ),
        ("    book: rob", "    book: rob\n    book_fields: [1]", 9, "room one: terms.book_fields must be a mapping"),
        ("  name_en: One", '  name_en: "\\ud800"', 5, "room one: name_en must be a text"),
        ("    rake_chips: 5", "    rake_chips: 2024-01-01", 11, "room one: terms.rake_chips must be a whole number"),
        ("rooms:", "tables:", 2, "tables is not a key"),
    ],
)
def test_a_bad_file_names_line_room_and_field(tmp_path: Path, change: str, to: str, line: int, words: str) -> None:
    assert GOOD.count(change) == 1
    path = written(tmp_path, GOOD.replace(change, to))
    with pytest.raises(RoomsError) as refused:
        rooms.load(path)
    assert str(refused.value).startswith(f"{path}:{line}: "), refused.value
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "rooms: []",
        "rooms: 5",
        "rooms: [5]",
        "clocks: {}",
        "a: b: c",
        "\t- x",
        "rooms: 2024-02-30",
        "[" * 1000,
    ],
)
def test_what_is_no_rooms_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RoomsError):
        rooms.load(written(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RoomsError, match="cannot be read"):
        rooms.load(tmp_path / "none.yaml")


def test_a_room_that_could_overflow_is_refused(tmp_path: Path) -> None:
    """RULES.md section 9: base x level x multiplier x 3 fits 64 bits."""
    greatest = (2**63 - 1) // (3 * rulebook.greatest_multiplier(rulebook.ROB, 1))
    fits = GOOD.replace("base_chips: 10", f"base_chips: {greatest}")
    assert rooms.load(written(tmp_path, fits))[0].terms.base_max_chips == greatest
    too_much = GOOD.replace("base_chips: 10", f"base_chips: {greatest + 1}")
    with pytest.raises(RoomsError, match=r"room one: terms\.base_chips .* overflow"):
        rooms.load(written(tmp_path, too_much))


def test_a_base_of_negotiation_needs_a_book_that_negotiates(tmp_path: Path) -> None:
    text = GOOD.replace("base_chips: 10", "base_min_chips: 5\n    base_max_chips: 10")
    with pytest.raises(RoomsError, match=r"terms\.base_max_chips must be base_min_chips in rob"):
        rooms.load(written(tmp_path, text))


def test_a_room_can_change_fields_of_its_book(tmp_path: Path) -> None:
    text = GOOD.replace("book: rob", "book: rob\n    book_fields: {show_factor: 4}")
    room = rooms.load(written(tmp_path, text))[0]
    assert rooms.book_of(room.terms) == rulebook.override(rulebook.ROB, {"show_factor": 4})


def test_a_room_sets_its_bomb_allowance_and_its_cap_of_redeals(tmp_path: Path) -> None:
    fields = "{bomb_allowance: [null, 0, 1, 2], max_redeals: 3}"
    room = rooms.load(written(tmp_path, GOOD.replace("book: classic", f"book: classic\n    book_fields: {fields}")))[1]
    book = rooms.book_of(room.terms)
    assert (book.bomb_allowance, book.max_redeals) == ((None, 0, 1, 2), 3)


def test_a_room_can_bring_a_fourth_book(tmp_path: Path) -> None:
    """All fields, validated; the table and the ledger get it whole."""
    fields: dict[str, Any] = {**rulebook.dump(rulebook.HAPPY), "bomb_factor": 3}
    del fields["id"]
    text = GOOD.replace("book: rob", f"book: mine\n    book_fields: {json.dumps(fields)}")
    room = rooms.load(written(tmp_path, text))[0]
    assert rulebook.load(room.terms.book_fields_json) == rooms.book_of(room.terms)
    assert rooms.book_of(room.terms).id == "mine"
    del fields["bomb_factor"]
    text = GOOD.replace("book: rob", f"book: mine\n    book_fields: {json.dumps(fields)}")
    with pytest.raises(RoomsError, match="bomb_factor is missing"):
        rooms.load(written(tmp_path, text))


def test_a_file_lays_other_clocks_over_the_rooms_of_another(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    one, two = rooms.load(written(tmp_path, "extends: rooms.yaml\nclocks: {play_ms: 7}\n", "fast.yaml"))
    assert (one.terms.clocks.play_ms, two.terms.clocks.play_ms, one.terms.clocks.auction_ms) == (7, 7, 10_000)


def test_a_clock_that_is_laid_over_is_checked_like_any_other(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    path = written(tmp_path, "extends: rooms.yaml\nclocks:\n  auction_ms: 5\n  play_ms: -7\n", "fast.yaml")
    with pytest.raises(RoomsError, match=r"fast\.yaml:4: clocks\.play_ms must be"):
        rooms.load(path)


def test_the_greatest_of_a_room_may_be_just_what_a_player_needs(tmp_path: Path) -> None:
    """`classic` asks for three times the base, here at least 15, whatever minimum_chips says."""
    text = GOOD.replace("    minimum_chips: 10\n", "    minimum_chips: 10\n    maximum_chips: 15\n")
    _, two = rooms.load(written(tmp_path, text))
    rooms.admit(two, 15)
    for chips, reason in ((14, "BELOW_MINIMUM"), (16, "ABOVE_MAXIMUM")):
        with pytest.raises(Refusal) as refused:
            rooms.admit(two, chips)
        assert refused.value.reason == reason


@pytest.mark.parametrize("name", ["mine.json", "mine.yml", "mine"])
def test_a_change_of_the_rule_book_is_taken_in_whatever_its_file_is_called(tmp_path: Path, name: str) -> None:
    fields = rulebook.dump(rulebook.HAPPY) | {"id": "mine"}
    written(tmp_path, json.dumps(fields), name)
    known = Rooms(written(tmp_path, GOOD.replace("book: rob", f"book_file: {name}")))
    assert not known.reload()
    written(tmp_path, json.dumps(fields | {"bomb_factor": 3}), name)
    assert known.reload()
    assert json.loads(known.get("one").terms.book_fields_json)["bomb_factor"] == 3


def test_what_an_editor_or_a_folder_does_beside_the_file_is_no_change(tmp_path: Path) -> None:
    known = Rooms(written(tmp_path, GOOD))
    written(tmp_path, "5", ".rooms.yaml.swp")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert not known.reload()


@pytest.mark.parametrize(
    "text",
    [
        "extends: fast.yaml\n",
        "extends: chain.yaml\n",
        "extends: rooms.yaml\nrooms: []\n",
        "extends: rooms.yaml\nclocks: {chess_ms: 1}\n",
        "extends: none.yaml\n",
        "extends: number.yaml\n",
        'extends: "\\0"\n',
    ],
)
def test_what_cannot_be_extended_is_refused(tmp_path: Path, text: str) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, "extends: rooms.yaml\n", "chain.yaml")
    written(tmp_path, "5\n", "number.yaml")
    with pytest.raises(RoomsError):
        rooms.load(written(tmp_path, text, "fast.yaml"))


def test_a_change_is_taken_in_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    known = Rooms(path)
    assert not known.reload()
    written(tmp_path, GOOD.replace("name_en: One", "name_en: First room"))
    assert known.reload()
    assert known.get("one").name_en == "First room"
    written(tmp_path, GOOD.replace("book: rob", "book: bridge"))
    with pytest.raises(RoomsError):
        known.reload()
    assert known.get("one").name_en == "First room"
    assert not known.reload()


async def test_the_file_is_followed_whatever_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_POLL_S", 0.001)
    known, changes = Rooms(written(tmp_path, GOOD)), asyncio.Queue[None]()
    task = asyncio.create_task(known.follow(lambda: changes.put_nowait(None)))

    def refused() -> float:
        return float(rooms.RELOADS.labels("refused")._value.get())

    async def write_bad(text: str) -> None:
        before = refused()
        written(tmp_path, text)
        async with asyncio.timeout(10):
            while refused() == before:  # noqa: ASYNC110, a file is polled for
                await asyncio.sleep(0.001)

    try:
        await write_bad(GOOD.replace("book: rob", "book: rob\n    book_fields: {1: 2, a: 3}"))
        with monkeypatch.context() as broken:
            broken.setattr(rooms, "load", lambda path: {}[path])
            await write_bad(GOOD + "# a fault of ours\n")
        written(tmp_path, GOOD.replace("name_en: One", "name_en: First room"))
        async with asyncio.timeout(10):
            await changes.get()
        assert known.get("one").name_en == "First room"
    finally:
        task.cancel()


@pytest.mark.parametrize(("chips", "reason"), [(99, "BELOW_MINIMUM"), (100, ""), (1_000, ""), (1_001, "ABOVE_MAXIMUM")])
def test_a_room_takes_chips_within_its_bounds(chips: int, reason: str) -> None:
    room = lobby_pb2.Room(room_id="r")
    room.terms.book, room.terms.minimum_chips, room.terms.maximum_chips = "rob", 100, 1_000
    if not reason:
        rooms.admit(room, chips)
        return
    with pytest.raises(Refusal) as refused:
        rooms.admit(room, chips)
    assert refused.value.reason == reason


def test_classic_asks_for_three_times_the_base() -> None:
    """RULES.md section 4."""
    room = lobby_pb2.Room(room_id="r")
    room.terms.book, room.terms.base_min_chips, room.terms.minimum_chips = "classic", 10, 5
    assert rooms.least_chips(room) == 30


def test_the_file_is_plain_yaml() -> None:
    assert set(yaml.safe_load((DEPLOY / "rooms.yaml").read_text())) == {"clocks", "rooms"}
