"""`ddz rules`: JSON lines in, JSON lines out, in order, a bad line among good ones."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from ddzclient.cli import main
from doudizhu import BOOKS
from doudizhu.cards import DECK, RANKS, format_cards
from tests.rules.cases import load

Answer = dict[str, Any]


def ask_raw(monkeypatch: pytest.MonkeyPatch, verb: str, lines: bytes) -> tuple[int, list[Answer]]:
    """The exit status and the answers to these bytes on standard input."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    monkeypatch.setattr(sys, "stdout", written)
    status = main(["rules", verb])
    return status, [json.loads(line) for line in written.getvalue().splitlines()]


def ask(monkeypatch: pytest.MonkeyPatch, verb: str, *rows: object) -> list[Answer]:
    """The answers to good lines."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    status, answers = ask_raw(monkeypatch, verb, lines.encode())
    assert status == 0, answers
    return answers


def refused(monkeypatch: pytest.MonkeyPatch, verb: str, row: object) -> str:
    """The error of a bad line."""
    status, answers = ask_raw(monkeypatch, verb, json.dumps(row).encode())
    assert status == 1
    assert list(answers[0]) == ["error"]
    error: str = answers[0]["error"]
    return error


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_as_a_command() -> None:
    lines = '{"book": "rob", "cards": "33"}\nnull\n{"book": "rob", "cards": "xX"}'
    done = subprocess.run(
        [sys.executable, "-m", "ddzclient.cli", "rules", "readings"], input=lines, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"readings": [["pair", "3", 1]]},
        {"error": "MALFORMED: the line is not a JSON object"},
        {"readings": [["rocket", "X", 1]]},
    ]
    assert done.stderr == ""


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"null", b"5", b'"x"', b"[]", b"{", b"\xff", b"NaN", b"[" * 100_000, b"1" * 10_000],
    ids=lambda line: repr(line[:8]),
)
def test_br_119_a_line_that_is_no_object(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    good = b'{"book": "rob", "cards": "3"}\n'
    status, answers = ask_raw(monkeypatch, "readings", good + line + b"\n" + good)
    assert status == 1
    assert answers[0] == answers[2] == {"readings": [["single", "3", 1]]}
    assert answers[1]["error"].startswith("MALFORMED: the line ")
    assert "column" not in answers[1]["error"]


@pytest.mark.parametrize(
    ("verb", "row", "error"),
    [
        ("readings", {"cards": "3"}, "INVALID: book is missing"),
        ("readings", {"book": "mine", "cards": "3"}, "INVALID: book must be one of classic, happy, rob"),
        ("readings", {"book": None, "cards": "3"}, "INVALID: book must be a string"),
        ("readings", {"book": "rob"}, "INVALID: cards is missing"),
        ("readings", {"book": "rob", "cards": 3}, "INVALID: cards must be a string"),
        ("readings", {"book": "rob", "cards": ["3"]}, "INVALID: cards must be a string"),
        ("readings", {"book": "rob", "cards": "10"}, "MALFORMED: '1' is not a rank"),
        ("readings", {"book": "rob", "cards": "三"}, "INVALID: cards must be ASCII"),
        ("readings", {"book": "rob", "cards": "\ud800"}, "INVALID: cards must be ASCII"),
        ("readings", {"book": "rob", "cards": "3", "fields": None}, "INVALID: fields must be an object"),
        ("readings", {"book": "rob", "cards": "3", "fields": []}, "INVALID: fields must be an object"),
        ("readings", {"book": "rob", "cards": "3", "fields": {"wing": True}}, "INVALID: wing is not a field"),
        ("readings", {"book": "rob", "cards": "3", "fields": {"wings_repeat": 1}}, "INVALID: wings_repeat must be"),
        ("count", {"book": "rob", "fields": {"four_kickers": ["trio"]}}, "INVALID: four_kickers must be"),
        ("count", {"book": "rob", "fields": {"four_kickers": ["single"] * 2}}, "INVALID: four_kickers must be"),
        ("count", {"book": ["x" * 999]}, 'INVALID: book must be a string, not ["' + "x" * 58 + "…"),
        ("moves", {"book": "rob", "hand": "33333", "over": None}, "MALFORMED: hand has more cards of a rank"),
        ("moves", {"book": "rob", "hand": "xx", "over": None}, "MALFORMED: hand has more cards of a rank"),
        ("moves", {"book": "rob", "hand": "3456789TJQKA23456789T", "over": None}, "MALFORMED: a hand has at most 20"),
        ("moves", {"book": "rob", "over": None}, "INVALID: hand is missing"),
        ("moves", {"book": "rob", "hand": "3", "over": "34"}, "ILLEGAL_COMBO: 34 is no combo"),
        ("moves", {"book": "rob", "hand": "3", "over": ""}, "ILLEGAL_COMBO: nothing is no combo"),
        ("moves", {"book": "rob", "hand": "3", "over": "4", "over_type": "one"}, "INVALID: over_type must be one of"),
        ("moves", {"book": "rob", "hand": "3", "over": "4", "over_rank": "45"}, "INVALID: over_rank must be"),
        (
            "beats",
            {"book": "rob", "cards": "3", "over": "4", "over_rank": "5"},
            "AMBIGUOUS_COMBO: 4 has no reading as the combo that was named; it can be single 4",
        ),
        ("beats", {"book": "rob", "cards": "3"}, "INVALID: over is missing"),
        ("replay", {"book": "rob", "hands": ["3", "4"], "landlord": 0, "moves": []}, "INVALID: hands must be a list"),
        ("replay", {"book": "rob", "hands": ["33", "33", "3"], "landlord": 0, "moves": []}, "MALFORMED: hands has"),
        ("replay", {"book": "rob", "hands": ["3", "4", "5"], "landlord": 3, "moves": []}, "INVALID: landlord must"),
        ("replay", {"book": "rob", "hands": ["3", "4", "5"], "landlord": 0, "moves": [[0]]}, "INVALID: moves must"),
        ("replay", {"book": "rob", "hands": ["3", "4", "5"], "landlord": 0, "moves": [[3, ""]]}, "INVALID: a seat of"),
        ("deal", {"book": "rob", "hand_id": "h", "server_seed": "0g", "client_seeds": []}, "INVALID: server_seed"),
        ("deal", {"book": "rob", "hand_id": "h", "server_seed": "00", "client_seeds": []}, "INVALID: a server seed"),
    ],
    ids=str,
)
def test_typed_errors(monkeypatch: pytest.MonkeyPatch, verb: str, row: Answer, error: str) -> None:
    assert refused(monkeypatch, verb, row).startswith(error)


# ---- combos ----------------------------------------------------------------------------------------------------------


def test_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(row, book) for row in load("readings") for book in BOOKS]
    answers = ask(monkeypatch, "readings", *[{"book": book, "cards": row["cards"]} for row, book in rows])
    assert [answer["readings"] for answer in answers] == [row[book] for row, book in rows]


def test_cards_of_no_deck_are_no_combo(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"book": "rob", "cards": cards} for cards in ("444445", "xx", "33333", "3" * 1000, "")]
    assert ask(monkeypatch, "readings", *rows) == [{"readings": []}] * 5


def test_fields_override_the_book(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = load("reports_readings")
    assert [answer["readings"] for answer in ask(monkeypatch, "readings", *rows)] == [row["readings"] for row in rows]


def test_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = load("reports_beats")
    assert [answer["beats"] for answer in ask(monkeypatch, "beats", *rows)] == [row["beats"] for row in rows]
    several = {"book": "rob", "cards": "444555666777"}
    answers = ask(
        monkeypatch,
        "beats",
        {**several, "over": "333444555666"},
        {**several, "over": "333444555666", "over_type": "airplane_singles", "over_rank": "6"},
        {**several, "over": "333444555666", "over_type": "airplane_singles", "over_rank": "5"},
        {**several, "over": "33"},
    )
    assert [answer["as"] for answer in answers] == [
        ["trio_straight", "7", 4],
        ["airplane_singles", "7", 3],
        ["airplane_singles", "7", 3],
        None,
    ]


def test_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = load("moves")
    assert [answer["moves"] for answer in ask(monkeypatch, "moves", *rows)] == [row["moves"] for row in rows]


def test_moves_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, "moves", {"book": "rob", "hand": "", "over": None}) == [{"moves": []}]


def test_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = load("counts")
    for row, answer in zip(rows, ask(monkeypatch, "count", *rows), strict=True):
        assert (answer["readings"], answer["distinct"]) == (row["readings"], row["distinct"])
        assert sum(answer["types"].values()) == row["readings"]


# ---- hands -----------------------------------------------------------------------------------------------------------


def test_replay_of_games_played_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    games = [game for game in load("games") if len(game["hands"]) == 3]
    answers = ask(monkeypatch, "replay", *[{**game, "book": "rob"} for game in games])
    assert [answer["winner"] for answer in answers] == [game["winner_seat"] for game in games]
    assert all(answer["legal"] and answer["first_illegal"] is None for answer in answers)


@pytest.mark.parametrize(
    ("moves", "first_illegal"),
    [
        ([[0, ""]], 0),  # BR-068: who leads must play
        ([[1, "4"]], 0),  # BR-067: not his turn
        ([[0, "3"], [2, "5"]], 1),
        ([[0, "6"]], 0),  # BR-124: not held
        ([[0, "33333"]], 0),
        ([[0, "34"]], 0),  # no combo
        ([[0, "33"], [1, "4"]], 1),  # does not beat
        ([[0, "33"], [1, ""], [2, ""], [0, "3"], [1, "4"], [2, ""]], None),
    ],
    ids=str,
)
def test_replay_stops_at_the_first_illegal_move(
    monkeypatch: pytest.MonkeyPatch, moves: list[Any], first_illegal: int | None
) -> None:
    line = {"book": "rob", "hands": ["33345", "44466", "55577"], "landlord": 0, "moves": moves}
    answer = ask(monkeypatch, "replay", line)[0]
    assert answer == {"legal": first_illegal is None, "first_illegal": first_illegal, "winner": None, "multiplier": 1}


def test_br_016_the_hand_ends_with_the_last_card(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"book": "rob", "hands": ["33344456", "3456", "789"], "landlord": 0, "moves": [[0, "33344456"]]}
    won = {"legal": True, "first_illegal": None, "winner": 0, "multiplier": 2}  # a spring
    assert ask(monkeypatch, "replay", line) == [won]
    after = {**line, "moves": [[0, "33344456"], [1, ""]]}
    assert ask(monkeypatch, "replay", after) == [{**won, "legal": False, "first_illegal": 1}]


@pytest.mark.parametrize(("book", "multiplier"), [("rob", 8), ("happy", 8), ("classic", 1)])
def test_replay_multiplies_bombs_and_springs(monkeypatch: pytest.MonkeyPatch, book: str, multiplier: int) -> None:
    moves = [[0, "3"], [1, "4444"], [2, "xX"], [0, ""], [1, ""], [2, "5"]]
    line = {"book": book, "hands": ["36", "44447", "5xX"], "landlord": 0, "moves": moves}
    assert ask(monkeypatch, "replay", line)[0] == {
        "legal": True,
        "first_illegal": None,
        "winner": 2,
        "multiplier": multiplier,
    }


def test_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = load("settlements")
    lines = [
        {"landlord": None, "winner": None, "fled": None, "level": 1, "elapsed_s": 100, "rake": 0, **row} for row in rows
    ]
    for row, answer in zip(rows, ask(monkeypatch, "settle", *lines), strict=True):
        assert answer["chips"] == row["chips"], row["id"]
        assert answer["system"] == row["system"], row["id"]
        assert answer["rating"] == row.get("rating"), row["id"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"winner": "nobody"}, "INVALID: winner must be"),
        ({"fled": 1}, "INVALID: winner must be"),
        ({"landlord": None}, "INVALID: landlord must be"),
        ({"landlord": 3}, "INVALID: landlord must be a seat, 0, 1 or 2, or null, not 3"),
        ({"landlord": 1.0}, "INVALID: landlord must be"),
        ({"landlord": True}, "INVALID: landlord must be"),
        ({"fled": "0", "winner": None}, "INVALID: fled must be"),
        ({"base": 2**61}, "INVALID: multiplier must be so small"),
        ({"multiplier": 2**59}, "INVALID: multiplier must be so small"),
        ({"flee_multiplier": 2**59}, "INVALID: flee_multiplier must be so small"),
        ({"multiplier": 2**63}, "INVALID: multiplier must be a whole number"),
        ({"balances": [2**63, 0, 0]}, "INVALID: balances must be"),
        ({"rake": 2**63}, "INVALID: rake must be"),
        ({"level": 2}, "INVALID: level must be"),
        ({"book": "happy", "level": 4}, "INVALID: level must be"),
        ({"book": "happy", "level": 0}, "INVALID: level must be"),
        ({"elapsed_s": -1}, "INVALID: elapsed_s must be"),
        ({"elapsed_s": 1.5}, "INVALID: elapsed_s must be"),
        ({"elapsed_s": "soon"}, "INVALID: elapsed_s must be"),
        ({"winner": None, "landlord": None, "level": 0, "elapsed_s": None}, "INVALID: elapsed_s must be"),
        ({"base": 0}, "INVALID: base must be"),
        ({"base": True}, "INVALID: base must be"),
        ({"level": 0}, "INVALID: level must be"),
        ({"multiplier": 1.5}, "INVALID: multiplier must be"),
        ({"balances": [1, 2]}, "INVALID: balances must be"),
        ({"balances": [1, 2, -3]}, "INVALID: balances must be"),
        ({"ratings": [0, 0, "0"]}, "INVALID: ratings must be"),
        ({"winner": None, "fled": 0, "elapsed_s": None}, "INVALID: elapsed_s must be"),
    ],
    ids=str,
)
def test_settle_refuses_what_no_hand_comes_to(monkeypatch: pytest.MonkeyPatch, change: Answer, error: str) -> None:
    line = {
        "book": "rob",
        "base": 10,
        "level": 1,
        "multiplier": 2,
        "landlord": 0,
        "winner": "farmers",
        "fled": None,
        "elapsed_s": 90,
        "balances": [100, 100, 100],
        "rake": 1,
    }
    assert refused(monkeypatch, "settle", {**line, **change}).startswith(error)


@pytest.mark.parametrize("name", ["winner", "elapsed_s", "base", "level", "multiplier", "balances", "rake", "book"])
def test_settle_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    line = {"book": "rob", "base": 10, "level": 1, "multiplier": 2, "landlord": 0, "winner": "farmers", "fled": None}
    line |= {"elapsed_s": 90, "balances": [100, 100, 100], "rake": 1}
    del line[name]
    assert refused(monkeypatch, "settle", line) == f"INVALID: {name} is missing"


def test_settle_pays_the_most_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"book": "happy", "base": 1, "level": 3, "multiplier": (2**63 - 1) // 9, "landlord": 0, "winner": "landlord"}
    line |= {"fled": None, "elapsed_s": 90, "balances": [0, 2**63 - 1, 2**63 - 1], "rake": 0}
    unit = 3 * ((2**63 - 1) // 9)
    assert ask(monkeypatch, "settle", line)[0]["chips"] == [2 * unit, -unit, -unit]


def test_a_void_hand_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    void = {"base": 10, "level": 0, "multiplier": 2, "landlord": None, "winner": None, "fled": None, "rake": 3}
    lines = [{**void, "book": book, "elapsed_s": 9, "balances": [9, 9, 9], "ratings": [1, 2, 3]} for book in BOOKS]
    chips = {"chips": [0, 0, 0], "system": 0}
    assert ask(monkeypatch, "settle", *lines) == [
        {**chips, "rating": None},
        {**chips, "rating": None},
        {**chips, "rating": [0, 0, 0]},
    ]


@pytest.mark.parametrize("book", BOOKS)
def test_deal(monkeypatch: pytest.MonkeyPatch, book: str) -> None:
    seed = bytes(range(32))
    line = {"book": book, "hand_id": "hand-1", "server_seed": seed.hex(), "client_seeds": ["0102", "", "ff"]}
    answer, again, other = ask(monkeypatch, "deal", line, line, {**line, "client_seeds": []})
    assert answer == again
    assert answer["hands"] != other["hands"]
    assert answer["commitment"] == hashlib.sha256(seed).hexdigest()
    assert [len(hand) for hand in answer["hands"]] == [17, 17, 17]
    assert Counter("".join([*answer["hands"], answer["bottom"]])) == Counter(format_cards(DECK))
    assert (answer["marked"] is not None) is (book == "classic")
    assert answer["marked"] is None or any(answer["marked"] in hand for hand in answer["hands"])
    assert all(hand == "".join(sorted(hand, key=RANKS.index)) for hand in answer["hands"])


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["rules", "--help"])
    assert left.value.code == 0
    assert '"over_type"?' in capsys.readouterr().out
