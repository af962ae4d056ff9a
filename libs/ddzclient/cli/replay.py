"""`ddz replay`: a recorded hand step by step with all cards open, and at its end whether deal and play are proved."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Group, RenderableType
from rich.text import Text

from ddz.ledger.v1.ledger_pb2 import GetHandResponse
from ddzclient.cli import records
from ddzclient.cli.door import NoDoor
from ddzclient.cli.frames import Frame, frames
from ddzclient.cli.look import Look, table_view
from ddzclient.cli.records import Unreadable
from ddzclient.cli.terminal import Terminal, terminal
from ddzclient.cli.words import sorry
from ddzclient.errors import ClientError
from ddzclient.verify import verify
from doudizhu.refusal import Refusal

_KEYS = "回车 Enter 下一步 next · b 上一步 back · 步号 a step's number · end 最后 the last · quit 退出"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("hand", help="a hand's id, or the JSON file of a record (- for standard input)")
    records.configure(parser)
    parser.add_argument("--plain", action="store_true", help="print all steps at once instead of holding the screen")


def run(arguments: argparse.Namespace) -> int:
    """0 when the hand agrees with its record, 1 when it does not, 2 when it could not be read."""
    try:
        return asyncio.run(_replay(arguments))
    except (OSError, Unreadable, NoDoor, Refusal, ClientError) as unread:
        why = unread.strerror if isinstance(unread, OSError) else sorry(unread)
        print(f"ddz replay: {arguments.hand}: {why}", file=sys.stderr)
        return 2


async def _replay(arguments: argparse.Namespace) -> int:
    recorded = await records.load(arguments.hand, arguments)
    found = frames(recorded)
    settlement = recorded.settlement if recorded.HasField("settlement") else None
    faults = verify(recorded.record, settlement)
    screen = terminal(plain=arguments.plain or arguments.hand == "-")
    if screen.plain or not found:
        for frame in found:
            screen.say(frame.said)
        if found:
            screen.console.print(_view(found, len(found) - 1))
    else:
        await _steps(found, verdict(recorded, faults), screen)
    screen.console.print(verdict(recorded, faults))
    return 1 if faults else 0


async def _steps(found: list[Frame], end: RenderableType, screen: Terminal) -> None:
    """One step for each Enter, until the person has seen the end or wants no more."""
    at = 0
    last = len(found) - 1

    def view() -> RenderableType:
        return Group(_view(found, at), *([end] if at == last else []), Text(_KEYS, "dim"))

    async with screen.working():
        screen.view = view
        screen.draw()
        while (line := await screen.line()) is not None and (step := step_to(line, at, last)) is not None:
            at = step
            screen.draw()


def step_to(line: str, at: int, last: int) -> int | None:
    """The step (from 0) that a line leads to; None when it ends the replay, as Enter does at the last step."""
    match line.strip().lower():
        case "quit" | "exit" | "退出":
            return None
        case "" | "n":
            return at + 1 if at < last else None
        case "b":
            return max(at - 1, 0)
        case "end":
            return last
        case number if number.isascii() and number.isdecimal():
            return min(max(int(number[:9]) - 1, 0), last)
    return at


def verdict(recorded: GetHandResponse, faults: list[str]) -> RenderableType:
    """What the verification found: the deal, every action, the result, and the settlement if there is one."""
    if faults:
        return Text("\n".join(f"✗ {words}" for words in faults), "bold red")
    deals = sum(action.HasField("deal") for action in recorded.record.actions)
    lines = [
        f"✓ 种子与事先的承诺相符 the seed is the one that was committed to ({deals})",
        "✓ 每张牌都能由种子算出 every card follows from the seeds",
        f"✓ 每一步都合规则 every action was legal ({len(recorded.record.actions)})",
        "✓ 胜负与倍数一致 winner and multiplier are right",
    ]
    if recorded.HasField("settlement"):
        lines.append("✓ 结算一致 the settlement is right")
    return Text("\n".join(lines), "green")


def _view(found: list[Frame], at: int) -> RenderableType:
    frame = found[at]
    return table_view(frame.state, Look(lasts=frame.lasts, notes=(f"{at + 1} / {len(found)}", frame.said)))
