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


def due(state: Snapshot, player_id: str) -> bool:
    """Whether the table's last hand is settled, and is one that this person has played or looks on at."""
    looks_on = state.observing or state.you < 0
    is_last = state.last_result.hand_id and state.last_result.hand_id == state.hand_id
    return bool(is_last and state.players) and (looks_on or _own(state, player_id) is not None)


def result(state: Snapshot, player_id: str) -> RenderableType:
    """The points of the table's last hand, which is settled, by seat and by factor; `player_id`: who reads it."""
    settled, outcome, own = state.last_result, state.last_outcome, _own(state, player_id)
    parts: list[RenderableType] = [Text(_headline(state, outcome, own), "bold"), _points(state, settled, own)]
    if state.base_chips:  # it is reset when who set it has left
        parts.append(Text(_formula(state.base_chips, outcome)))
    parts += [Text(f"  {name} ×{product:,}") for name, product in words.multiplied(outcome.factors)]
    if settled.system_chips:
        parts.append(Text(f"系统回收 to the system {settled.system_chips:,}"))
    return Panel(Group(*parts), title="结果 Result", box=box.ROUNDED)


def _own(state: Snapshot, player_id: str) -> int | None:
    """The seat on which this person has played; None for who has sat down since, too."""
    return next((seat for seat, player in enumerate(state.players) if player.player_id == player_id != ""), None)


def _headline(state: Snapshot, outcome: Outcome, own: int | None) -> str:
    if outcome.HasField("fled"):
        return f"{plain(state.players[outcome.fled].display_name) or outcome.fled} 逃跑了 fled"
    winner = "地主胜 The landlord wins" if outcome.winner == hand_pb2.SIDE_LANDLORD else "农民胜 The farmers win"
    if own is None:
        return winner
    chips = state.last_result.chips[own]
    mine = "你赢了 You win!" if chips > 0 else "你输了 You lose." if chips < 0 else "不输不赢 Nothing won or lost."
    return f"{winner} · {mine}"


def _points(state: Snapshot, settled: HandSettled, own: int | None) -> Table:
    rated = any(settled.rating)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("座 seat", "玩家 player", "身份 role"):
        table.add_column(heading)
    for heading in ("得失 chips", *(["积分 rating"] if rated else []), "余额 balance"):
        table.add_column(heading, justify="right")
    for seat, player in enumerate(state.players):
        outcome = state.last_outcome
        role = (
            "" if not outcome.HasField("landlord") else "地主 landlord" if outcome.landlord == seat else "农民 farmer"
        )
        mine = "（你 you）" if seat == own else ""
        row = [str(seat), plain(player.display_name) + mine, role, f"{settled.chips[seat]:+,}"]
        row += [f"{settled.rating[seat]:+,}"] if rated else []
        table.add_row(*map(Text, [*row, f"{settled.balances_chips[seat]:,}"]))
    return table


def _formula(base_chips: int, outcome: Outcome) -> str:
    """What one farmer's share is (RULES.md section 10), before anybody is short of it."""
    level = max(outcome.level, 1)
    multiplier = outcome.flee_multiplier if outcome.HasField("fled") else outcome.multiplier
    unit = base_chips * level * multiplier
    return f"底分 base {base_chips:,} × 档 level {level} × 倍数 multiplier {multiplier:,} = {unit:,}"
