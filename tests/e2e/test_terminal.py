"""The terminal client on the whole system: a hand played by keys, looked on at, played by a bot, and replayed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

import pytest

from ddz.table.v1.table_pb2 import AllowObservers
from ddzclient import Gateway, Player, Session, find_table
from ddzclient.verify import steps
from deploy.local.folders import ROOT
from deploy.local.stack import Stack
from tests.client.test_terminal_view import cards_on
from tests.e2e.proxy import proxy

ROWS, COLUMNS = 50, 160
PATIENCE_S = 60.0
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOME = "\x1b[H"
_END = re.compile(r"\x1b\[\?1049l")


class AtTerminal:
    """`ddz` on a terminal of its own: what stands on its screen, and what is typed."""

    def __init__(self, home: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = [sys.executable, "-m", "ddzclient.cli", *words]
        environment = os.environ | {"XDG_CONFIG_HOME": str(home), "TERM": "xterm-256color"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._bytes = b""
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._master, self._hear)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _hear(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the other end is closed
            data = b""
        self._bytes += data
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self._changed.set()

    @property
    def frames(self) -> list[str]:
        """Everything that the screen has shown, one text for each time that it was drawn."""
        text = self._bytes.decode(errors="replace")
        return [_STYLE.sub("", frame) for frame in _END.split(text)[0].split(_HOME)]

    @property
    def afterwards(self) -> str:
        """What was printed when the screen had been given back."""
        return _STYLE.sub("", _END.split(self._bytes.decode(errors="replace"))[-1])

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    async def see(self, condition: Callable[[str], bool]) -> str:
        """Waits until the screen fulfils a condition; returns it."""
        ends_at = time.monotonic() + PATIENCE_S
        while not condition(self.frames[-1]):
            self._changed.clear()
            left_s = ends_at - time.monotonic()
            assert left_s > 0, f"in vain; on the screen stands:\n{self.frames[-1]}"
            assert self._process.poll() is None, self._bytes.decode(errors="replace")[-3000:]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, 1.0)):
                    await self._changed.wait()
        return self.frames[-1]

    async def ended(self) -> int:
        """The exit status."""
        return await asyncio.to_thread(self._process.wait, PATIENCE_S)


@contextlib.asynccontextmanager
async def two_bots(address: str) -> AsyncIterator[list[Session]]:
    async with Gateway(address) as gateway:
        yield [await Session.guest(gateway, f"terminal-{uuid.uuid4()}") for _ in range(2)]


async def bot_plays(session: Session, room_id: str) -> str:
    """One hand; returns its id."""
    async with session.table(await find_table(session, room_id)) as table:
        [hand_id] = await Player().play(table, 1)
    return hand_id


async def ddz(home: Path, *words: str) -> tuple[int, str, str]:
    """The command without a terminal and without input: status, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ddzclient.cli", *words, cwd=ROOT, env=os.environ | {"XDG_CONFIG_HOME": str(home)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def play_by_hints(person: AtTerminal, cut: Callable[[], int]) -> None:
    """Takes every hint when it is his turn, until the result; the network is cut after his third answer."""
    answered: set[str] = set()
    while "结果 Result" not in (screen := await person.see(lambda text: "轮到你" in text or "结果 Result" in text)):
        found = re.search(r"#(\d+)", screen)
        assert found
        seq = found[1]
        if seq not in answered:
            answered.add(seq)
            person.type("hint\r\r")
            if len(answered) == 3:
                assert cut() > 0
        await person.see(lambda text: f"#{seq} " not in text or "结果 Result" in text)  # noqa: B023


async def test_a_whole_hand_is_played_by_keys_over_a_cut_connection(stack: Stack, tmp_path: Path) -> None:
    room = "happy-beginner"
    async with two_bots(stack.address) as bots, proxy(stack.address) as passing, asyncio.TaskGroup() as group:
        with AtTerminal(tmp_path, "play", "--server", passing.address) as person:
            menu = await person.see(lambda text: "房间号" in text)
            number = re.search(r"(\d+) +欢乐斗地主 初级场", menu)
            assert number
            person.type(f"{number[1]}\r")
            await person.see(lambda text: "预计 estimate" in text or "轮到你" in text)
            playing = [group.create_task(bot_plays(bot, room)) for bot in bots]
            await play_by_hints(person, passing.cut)
            shown = person.frames
            person.type("leave\r")
            await person.see(lambda text: "房间号" in text)
            person.type("quit\r")
            assert await person.ended() == 0
            assert "结果 Result" in person.afterwards
            assert "You have left the table" in person.afterwards
            hand_id = await playing[0]
        hand = await bots[0].hand(hand_id)
    mine = next(
        seat for seat, player in enumerate(hand.record.players) if player.player_id not in {b.player_id for b in bots}
    )
    _, dealt = next(iter(steps(hand.record)))
    bidding = [frame for frame in shown if "叫牌 bidding" in frame]
    assert any("你的牌 your cards (" in frame for frame in shown)
    assert all(cards_on(frame) <= set(dealt.held(mine)) for frame in bidding)
    assert any(action.seat == mine and not action.by_trustee for action in hand.record.actions)
    # A frame may have been read in the middle of being drawn; what stays on the screen afterwards is whole.
    assert f"{hand.settlement.seats[mine].chips:+,}" in "".join(shown) + person.afterwards
    await replayed(stack, tmp_path, hand_id)


async def replayed(stack: Stack, home: Path, hand_id: str) -> None:
    """The hand once more, step by step on a terminal, and as lines."""
    status, out, err = await ddz(home, "replay", hand_id, "--server", stack.address)
    assert (status, err) == (0, "")
    assert "✓ 结算一致 the settlement is right" in out
    assert "地主 landlord" in out
    with AtTerminal(home, "replay", hand_id, "--server", stack.address) as person:
        await person.see(lambda text: "1. 发牌 the deal" in text)
        person.type("\r")
        await person.see(lambda text: re.search(r"\b2\. ", text) is not None)
        person.type("end\r")
        await person.see(lambda text: "✓ 结算一致 the settlement is right" in text)
        person.type("\r")
        assert await person.ended() == 0
        assert "every card follows from the seeds" in person.afterwards


async def test_a_bot_answers_over_tls_while_somebody_watches(stack: Stack, tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.write_bytes(stack.certificate)
    at = ("--server", stack.tls_address, "--ca", str(certificate))
    async with two_bots(stack.address) as bots, contextlib.AsyncExitStack() as held:
        auto = asyncio.create_task(ddz(tmp_path, "play", *at, "--auto", "--hands", "1", "--quick", "happy"))
        found = await asyncio.gather(*(find_table(bot, "happy-beginner") for bot in bots))
        tables = [await held.enter_async_context(bot.table(found[0])) for bot in bots]
        seat = tables[0].state.you
        await tables[0].act(AllowObservers(allow=True))
        words = ("watch", found[0], "--server", stack.address, "--guest", "onlooker", "--seat", str(seat))
        watcher = held.enter_context(AtTerminal(tmp_path, *words))
        await watcher.see(lambda text: watches(text, seat))
        watcher.type(f"{tables[1].state.you}\r")
        await watcher.see(lambda text: watches(text, tables[1].state.you))
        watcher.type(f"{seat}\r")
        await watcher.see(lambda text: watches(text, seat))
        hands = await asyncio.gather(*(Player().play(table, 1) for table in tables))
        status, out, err = await auto
        assert (status, err) == (0, "")
        assert "结果 Result" in out
        assert "1 hands played" in out
        [hand_id] = hands[0]
        await watcher.see(lambda text: "结果 Result" in text or "已散" in text)
        shown = "".join(watcher.frames)
        name = bots[0].player.display_name
        assert f"{name}: " in shown
        watcher.type("leave\r")
        assert await watcher.ended() == 0
    assert hand_id in shown


def watches(screen: str, seat: int) -> bool:
    """Whether the screen says that this person observes the seat."""
    return re.search(rf"^\W*{seat} .*旁观 watched by you", screen, re.MULTILINE) is not None


async def test_an_interrupt_gives_the_screen_back(stack: Stack, tmp_path: Path) -> None:
    with AtTerminal(tmp_path, "play", "--server", stack.address) as person:
        await person.see(lambda text: "房间号" in text)
        person.interrupt()
        assert await person.ended() == 130
        assert "Traceback" not in person.afterwards
        assert "房间号" not in person.afterwards


async def test_waiting_is_given_up_and_a_seat_is_played_in_one_place(stack: Stack, tmp_path: Path) -> None:
    at = ("--server", stack.address)
    with AtTerminal(tmp_path, "play", *at, "--room", "rob-beginner") as person:
        await person.see(lambda text: "预计 estimate" in text)
        person.type("leave\r")
        assert await person.ended() == 0
    async with two_bots(stack.address) as bots:
        with AtTerminal(tmp_path, "play", *at, "--room", "happy-beginner") as first:
            await asyncio.gather(*(find_table(bot, "happy-beginner") for bot in bots))
            await first.see(lambda text: "准备 ready" in text)
            with AtTerminal(tmp_path, "play", *at) as second:
                await second.see(lambda text: "准备 ready" in text)  # no rooms: he still has a seat
                assert await first.ended() == 0
                assert "open elsewhere" in first.afterwards
                second.type("quit\r")
                assert await second.ended() == 0
                assert "Your seat stays" in second.afterwards


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("watch", "m0"), 1, "找不到"),
        (("play", "--table", "m0"), 1, "找不到"),
        (("play", "--room", "nowhere"), 1, "找不到"),
        (("play", "--room", "rob-master"), 1, "积分不足"),
        (("play", "--quick", "nobook"), 1, "找不到"),
        (("replay", "m0-1"), 2, "找不到"),
    ],
)
async def test_what_is_not_there_is_one_sentence(
    stack: Stack, tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    done, out, err = await ddz(tmp_path, *words, "--server", stack.address)
    assert (done, out) == (status, "")
    assert said in err
    assert err.count("\n") == 1
