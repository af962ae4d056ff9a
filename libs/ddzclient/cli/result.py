"""How a hand ended, and what each seat got for it."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ddz.common.v1 import hand_pb2
from ddz.common.v1.hand_pb2 import Outcome
from ddz.table.v1.events_pb2 import HandSettled, Snapshot
from ddzclient.cli import words
from ddzclient.cli.words import plain


def result(state: Snapshot, names: tuple[str, str, str]) -> RenderableType:
    """The points of the last settled hand by seat and by factor; `names`: who played it, also who has left since."""
    settled, outcome = state.last_result, state.last_outcome
    parts: list[RenderableType] = [Text(_headline(state, outcome, names), "bold"), _points(state, settled, names)]
    if state.base_chips:  # it is reset when who set it has left
        parts.append(Text(_formula(state.base_chips, outcome)))
    parts += [Text(f"  {name} ×{product:,}") for name, product in words.multiplied(outcome.factors)]
    if settled.system_chips:
        parts.append(Text(f"系统回收 to the system {settled.system_chips:,}"))
    return Panel(Group(*parts), title="结果 Result", box=box.ROUNDED)


def _headline(state: Snapshot, outcome: Outcome, names: tuple[str, str, str]) -> str:
    if outcome.HasField("fled"):
        return f"{plain(names[outcome.fled]) or outcome.fled} 逃跑了 fled"
    winner = "地主胜 The landlord wins" if outcome.winner == hand_pb2.SIDE_LANDLORD else "农民胜 The farmers win"
    if state.you < 0 or state.observing:
        return winner
    chips = state.last_result.chips[state.you]
    mine = "你赢了 You win!" if chips > 0 else "你输了 You lose." if chips < 0 else "不输不赢 Nothing won or lost."
    return f"{winner} · {mine}"


def _points(state: Snapshot, settled: HandSettled, names: tuple[str, str, str]) -> Table:
    rated = any(settled.rating)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("座 seat", "玩家 player", "身份 role"):
        table.add_column(heading)
    for heading in ("得失 chips", *(["积分 rating"] if rated else []), "余额 balance"):
        table.add_column(heading, justify="right")
    for seat in range(3):
        outcome = state.last_outcome
        role = (
            "" if not outcome.HasField("landlord") else "地主 landlord" if outcome.landlord == seat else "农民 farmer"
        )
        mine = "（你 you）" if seat == state.you and not state.observing else ""
        row = [str(seat), plain(names[seat]) + mine, role, f"{settled.chips[seat]:+,}"]
        row += [f"{settled.rating[seat]:+,}"] if rated else []
        table.add_row(*map(Text, [*row, f"{settled.balances_chips[seat]:,}"]))
    return table


def _formula(base_chips: int, outcome: Outcome) -> str:
    """What one farmer's share is (RULES.md section 10), before anybody is short of it."""
    level = max(outcome.level, 1)
    multiplier = outcome.flee_multiplier if outcome.HasField("fled") else outcome.multiplier
    unit = base_chips * level * multiplier
    return f"底分 base {base_chips:,} × 档 level {level} × 倍数 multiplier {multiplier:,} = {unit:,}"
