"""What is typed at a table: every legal play can be said, and nothing typed is worse than not understood."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from ddz.table.v1.events_pb2 import Clock, SeatCards, SeatView, Snapshot
from ddzclient.cli import door
from ddzclient.cli.asks import spoken
from ddzclient.cli.keyboard import LONGEST, Editor, start_reading
from ddzclient.cli.typed import Unclear, Watch, Wish, Word, read
from ddzclient.policy import to_wire
from ddzclient.table import Action
from deploy.local.folders import ROOT
from doudizhu import legal_actions
from doudizhu.cards import rank_of
from doudizhu.hand import Pass, Phase, Play
from tests.rules.strategies import WholeHand, whole_hands

PHASES = sorted(events_pb2.Phase.values())


def at(phase: events_pb2.Phase.ValueType, cards: list[int] | None = None, *, observing: bool = False) -> Snapshot:
    """A table in a phase; the viewer on seat 0 holds the cards."""
    seats = [SeatView(seat=seat) for seat in range(3)]
    seats[0].cards.CopyFrom(SeatCards(cards=cards or [], count=len(cards or [])))
    state = Snapshot(clock=Clock(phase=phase, seat=0), seats=seats, you=0, observing=observing)
    state.terms.base_min_chips, state.terms.base_max_chips = 5, 20
    return state


PLAY, BID = events_pb2.PHASE_PLAY, events_pb2.PHASE_BID


@pytest.mark.parametrize(
    ("text", "phase", "wish"),
    [
        ("", PLAY, Word.TAKE),
        ("  ", PLAY, Word.TAKE),
        ("hint", PLAY, Word.HINT),
        ("提示", PLAY, Word.HINT),
        ("？", PLAY, Word.HELP),
        ("LEAVE", BID, Word.LEAVE),
        ("退出", BID, Word.QUIT),
        ("2", BID, hand_pb2.Bid(level=2)),
        ("２", BID, hand_pb2.Bid(level=2)),
        ("bid 3", BID, hand_pb2.Bid(level=3)),
        ("pass", BID, hand_pb2.Bid(level=0)),
        ("不叫", BID, hand_pb2.Bid(level=0)),
        ("pass", PLAY, hand_pb2.Pass()),
        ("不要", PLAY, hand_pb2.Pass()),
        ("yes", events_pb2.PHASE_CALL, hand_pb2.Call(call=True)),
        ("叫", events_pb2.PHASE_CALL, hand_pb2.Call(call=True)),
        ("pass", events_pb2.PHASE_CALL, hand_pb2.Call(call=False)),
        ("抢", events_pb2.PHASE_ROB, hand_pb2.Rob(rob=True)),
        ("no", events_pb2.PHASE_ROB, hand_pb2.Rob(rob=False)),
        ("摊打", events_pb2.PHASE_SHOW, hand_pb2.Show(show=True)),
        ("no", events_pb2.PHASE_SHOW, hand_pb2.Show(show=False)),
        ("10", events_pb2.PHASE_BASE, table_pb2.SetBase(base_chips=10)),
        ("底分 20", events_pb2.PHASE_BASE, table_pb2.SetBase(base_chips=20)),
        ("同意", events_pb2.PHASE_AGREE, table_pb2.AnswerBase(agree=True)),
        ("n", events_pb2.PHASE_AGREE, table_pb2.AnswerBase(agree=False)),
        ("ready", events_pb2.PHASE_READY, table_pb2.Ready(ready=True)),
        ("取消准备", events_pb2.PHASE_READY, table_pb2.Ready(ready=False)),
        ("trustee", PLAY, table_pb2.Trustee(on=True)),
        ("收回", PLAY, table_pb2.Trustee(on=False)),
        ("allow", PLAY, table_pb2.AllowObservers(allow=True)),
        ("不许看牌", PLAY, table_pb2.AllowObservers(allow=False)),
        ("3 3 3 4 4", PLAY, hand_pb2.PlayCards(cards=[0, 1, 2, 4, 5])),
        ("33344", PLAY, hand_pb2.PlayCards(cards=[0, 1, 2, 4, 5])),
        ("10 t j", PLAY, hand_pb2.PlayCards(cards=[28, 29, 32])),
        ("王炸", PLAY, hand_pb2.PlayCards(cards=[52, 53])),
        ("x", PLAY, hand_pb2.PlayCards(cards=[52])),
        ("大王", PLAY, hand_pb2.PlayCards(cards=[53])),
        ("♠3", PLAY, hand_pb2.PlayCards(cards=[0])),
        ("333 as trio", PLAY, hand_pb2.PlayCards(cards=[0, 1, 2], type="trio")),
        ("333 as trio 3", PLAY, hand_pb2.PlayCards(cards=[0, 1, 2], type="trio", rank="3")),
    ],
)
def test_what_is_typed_is_understood(text: str, phase: events_pb2.Phase.ValueType, wish: Wish) -> None:
    assert read(text, at(phase, [0, 1, 2, 4, 5, 28, 29, 32, 52, 53])) == wish


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("3333", PLAY), ("1", PLAY), ("what", PLAY), ("hint 3", PLAY), ("bid", BID), ("4", BID),
        ("99", events_pb2.PHASE_BASE), ("base -1", events_pb2.PHASE_BASE), ("yes", PLAY), ("33", BID),
        ("trustee perhaps", PLAY), ("as", PLAY), ("33 as", PLAY), ("33 as nonsense", PLAY), ("33 as pair 3 3", PLAY),
        ("33 as pair 33", PLAY),
        ("ready set go", PLAY),
    ],
)  # fmt: skip
def test_what_means_nothing_is_told(text: str, phase: events_pb2.Phase.ValueType) -> None:
    with pytest.raises(Unclear, match=r"[A-Za-z]"):
        read(text, at(phase, [0, 1, 2]))


def test_an_observer_only_moves_and_leaves() -> None:
    state = at(PLAY, [0], observing=True)
    assert read("2", state) == Watch(2)
    assert read("leave", state) == Word.LEAVE
    for text in ("3", "pass", "ready", "allow"):
        with pytest.raises(Unclear):
            read(text, state)


WORDS = [
    "hint",
    "bid",
    "base",
    "as",
    "trustee",
    "pass",
    "yes",
    "33",
    "X",
    "10",
    "as trio",
    "提示",
    "不要",
    "-1",
    "²",
    "٣",
]


@given(
    text=st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=5).map(" ".join),
    phase=st.sampled_from(PHASES),
    cards=st.lists(st.integers(0, 53), unique=True, max_size=20),
    observing=st.booleans(),
)
def test_anything_typed_is_a_wish_or_unclear(
    text: str, phase: events_pb2.Phase.ValueType, cards: list[int], observing: bool
) -> None:
    try:
        wish = read(text, at(phase, cards, observing=observing))
    except Unclear:
        return
    if isinstance(wish, hand_pb2.PlayCards):
        assert set(wish.cards) <= set(cards)
        assert len(set(wish.cards)) == len(wish.cards)


@given(whole_hands())
def test_every_legal_play_can_be_typed(hand: WholeHand) -> None:
    for state in hand.states:
        if state.phase is not Phase.PLAY or state.turn is None:
            continue
        seen = at(PLAY, list(state.held(state.turn)))
        for action in legal_actions(state, state.turn)[:5]:
            if isinstance(action, Play | Pass):
                said = spoken(to_wire(action)).removeprefix("不要 ")
                assert put(read(said, seen)) == put(to_wire(action)), said


def put(action: Wish) -> object:
    """A play by its ranks and its reading: suits do not matter."""
    if not isinstance(action, hand_pb2.PlayCards):
        return action
    return sorted(map(rank_of, action.cards)), action.type, action.rank


@pytest.mark.parametrize(
    "action",
    [
        hand_pb2.Bid(level=2), hand_pb2.Call(call=True), hand_pb2.Rob(rob=True), hand_pb2.Show(show=True),
        hand_pb2.Pass(),
        table_pb2.SetBase(base_chips=5), table_pb2.AnswerBase(agree=True), table_pb2.Ready(ready=True),
        table_pb2.Trustee(on=False),
    ],
)  # fmt: skip
def test_a_hint_says_what_can_be_typed(action: Action) -> None:
    phases = {"Bid": BID, "SetBase": events_pb2.PHASE_BASE}
    said = spoken(action).split(" ", 1)[-1]  # without the 中文 before it
    assert read(said, at(phases.get(action.DESCRIPTOR.name, PLAY))) == action


# ---- keys ---------------------------------------------------------------------------------------------------------


def test_a_line_is_edited() -> None:
    editor = Editor()
    assert editor.feed(b"33x\x7f") == []
    assert editor.text == "33"
    assert editor.feed(b"\x1b[A\x1b[1;5D\x1bOP\x1bx4") == []
    assert editor.text == "334"
    assert editor.feed(b"\r\n") == ["334"]
    assert editor.feed(b"\n") == [""]
    assert editor.feed("不".encode()[:2]) == []
    assert editor.feed("不".encode()[2:] + b"\x15ok\n") == ["ok"]
    assert editor.feed(b"a" * 1000 + b"\n") == ["a" * LONGEST]
    assert not editor.ended
    editor.feed(b"\x04")
    assert editor.ended


@given(st.lists(st.binary(max_size=12), max_size=12))
def test_no_key_breaks_the_editor(chunks: list[bytes]) -> None:
    editor = Editor()
    for chunk in chunks:
        for line in editor.feed(chunk):
            assert len(line) <= LONGEST
            assert all(sign.isprintable() or sign == "\t" for sign in line)


async def test_keys_come_from_whatever_there_is(tmp_path: Path) -> None:
    file = tmp_path / "typed"
    file.write_bytes(b"hint\n")
    descriptor = os.open(file, os.O_RDONLY)
    keys: asyncio.Queue[bytes] = asyncio.Queue()
    start_reading(descriptor, keys)
    async with asyncio.timeout(10):
        assert (await keys.get(), await keys.get()) == (b"hint\n", b"")
    os.close(descriptor)


# ---- the key of this device's guest -------------------------------------------------------------------------------


def test_a_device_has_one_key_for_each_server_and_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = door.device_key("one:1", "me")
    assert len(key) == 64
    assert door.device_key("one:1", "me") == key
    assert len({key, door.device_key("two:1", "me"), door.device_key("one:1", "other")}) == 3
    path = tmp_path / "ddz" / "one_1.me.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    assert door.device_key("one:1", "me") == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    with pytest.raises(door.NoDoor, match="it is no key"):
        door.device_key("one:1", "me")
    assert [one.name for one in path.parent.iterdir() if not one.name.endswith(".key")] == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["play", "--hands", "3"], 2, "ddz play: --hands goes with --auto.\n"),
        (["play", "--ca", "/no/such"], 2, "ddz play: /no/such: No such file or directory\n"),
        (["play", "--ca", "README.md"], 2, "ddz play: README.md: it holds no certificate in PEM\n"),
        (["watch", "m1", "--ca", "/no/such"], 2, "ddz watch: /no/such: No such file or directory\n"),
        (["replay", "/no/such"], 2, "ddz replay: /no/such: No such file or directory\n"),
    ],
)
def test_what_cannot_be_begun_is_one_sentence(tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    command = [sys.executable, "-m", "ddzclient.cli", *arguments]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stderr, done.stdout) == (status, said, "")
