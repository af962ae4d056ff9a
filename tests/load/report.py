"""What a run comes to: one JSON object, and a page with plots."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.load.meter import Meter
from tests.load.plan import Plan
from tests.load.thresholds import Verdict

_OPERATIONS: Final = {
    "act": "a command, until it is durable and its player sees it 出牌等指令",
    "enter": "entering a table, until its snapshot 进桌",
    "match": "from queueing to a table 匹配",
    "log_in": "logging in as a guest 登录",
    "look": "rooms and balance 大厅",
    "list_tables": "a room's tables 桌列表",
}
_WIDTH, _HEIGHT, _LEFT, _FOOT = 640, 160, 56, 22


@dataclass(slots=True)
class Run:
    """All that was told: one meter for each second, and what they add up to."""

    seconds: list[Meter]
    total: Meter
    processes: int

    def summary(self, plan: Plan) -> dict[str, Any]:
        """The figures (docs/load.md)."""
        total = self.total
        refused, errors = total.of("refused"), total.of("error")
        acts = total.times["act"].count if "act" in total.times else 0
        # Ramp and end are not the load that was asked for.
        held = self.seconds[math.ceil(plan.ramp_s) : math.ceil(plan.ramp_s + plan.hold_s)]
        held_acts = sum(meter.times["act"].count for meter in held if "act" in meter.times)
        found: dict[str, Any] = {"people": plan.people, "processes": self.processes, "seconds": len(self.seconds)}
        found |= {"pace": plan.pace, "seed": plan.seed, "actions": acts}
        found["actions_per_s"] = round(held_acts / max(len(held), 1), 1)
        for name in _OPERATIONS:
            found |= {f"{name}_p50_ms": total.quantile_ms(name, 0.5), f"{name}_p99_ms": total.quantile_ms(name, 0.99)}
        found["hands"] = total.counts["seat_hands"] // 3
        for name in ("reconnects", "streams_made_anew", "flees", "slept_hands", "observed", "lobby_news", "cut"):
            found[name] = total.counts[name]
        attempts = acts + sum(refused.values()) + sum(errors.values())
        found |= {"refused": refused, "errors": errors}
        found["error_ratio"] = round(sum(errors.values()) / max(attempts, 1), 6)
        return found


def page(run: Run, plan: Plan, summary: dict[str, Any], verdicts: Sequence[Verdict]) -> str:
    """The report as one HTML file that needs nothing else."""
    told = (
        f"{plan.people} people, {run.processes} processes, pace {plan.pace}, seed {plan.seed}, against {plan.address}: "
        f"{plan.ramp_s:g} s up, {plan.hold_s:g} s held, {plan.down_s:g} s down."
    )
    plots = [
        _plot("people online 在线", run.seconds, {"online": lambda meter: meter.online}),
        _plot("actions a second 每秒操作", run.seconds, {"actions": _acts}),
        _plot(
            "a command's time, ms 操作耗时",
            run.seconds,
            {"p50": lambda meter: meter.quantile_ms("act", 0.5), "p99": lambda meter: meter.quantile_ms("act", 0.99)},
        ),
        _plot("errors a second 每秒错误", run.seconds, {"errors": lambda meter: sum(meter.of("error").values())}),
    ]
    operations = [
        (what, run.total.times[name].count, summary[f"{name}_p50_ms"], summary[f"{name}_p99_ms"])
        for name, what in _OPERATIONS.items()
        if name in run.total.times
    ]
    counts = [(name, count) for name, count in sorted(run.total.counts.items())]
    held = [(one.name, one.wanted, one.value, "held ✓" if one.ok else "broken ✗") for one in verdicts]
    return _PAGE.format(
        told=html.escape(told),
        verdicts=_table(("figure", "wanted", "seen", ""), held),
        plots="".join(plots),
        operations=_table(("what", "times", "p50 ms", "p99 ms"), operations),
        counts=_table(("counted", "times"), counts),
    )


def _acts(meter: Meter) -> float:
    return meter.times["act"].count if "act" in meter.times else 0


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["".join(f"<th scope=col>{html.escape(word)}</th>" for word in head)]
    lines += ["".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _plot(title: str, seconds: Sequence[Meter], lines: dict[str, Callable[[Meter], float]]) -> str:
    """Lines over the seconds of a run, as SVG, from 0 to the greatest value."""
    values = {name: [line(meter) for meter in seconds] for name, line in lines.items()}
    top = max((max(line, default=0) for line in values.values()), default=0) or 1
    across = (_WIDTH - _LEFT) / max(len(seconds) - 1, 1)
    drawn = []
    for number, (name, line) in enumerate(values.items()):
        points = " ".join(
            f"{_LEFT + second * across:.1f},{_HEIGHT * (1 - value / top):.1f}" for second, value in enumerate(line)
        )
        drawn.append(f'<polyline class="line{number}" points="{points}"><title>{name}</title></polyline>')
        drawn.append(f'<text class="name{number}" x="{_LEFT + 8 + 60 * number}" y="14">{name}</text>')
    axes = (
        f'<path class="axes" d="M{_LEFT},0V{_HEIGHT}H{_WIDTH}"/><text x="0" y="12">{top:g}</text>'
        f'<text x="0" y="{_HEIGHT}">0</text><text x="{_LEFT}" y="{_HEIGHT + 18}">0 s</text>'
        f'<text x="{_WIDTH - 40}" y="{_HEIGHT + 18}">{len(seconds)} s</text>'
    )
    box = f"-4 -4 {_WIDTH + 8} {_HEIGHT + _FOOT + 8}"
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="{box}" role="img">{axes}{"".join(drawn)}</svg></figure>'
    )


_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Load 压测</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0 }} td, th {{ border-bottom: 1px solid #ddd; padding: .2rem .8rem;
text-align: left }} figure {{ margin: 1.5rem 0 }} figcaption {{ font-weight: 600 }} svg {{ width: 100%; height: auto }}
svg text {{ font-size: 12px; fill: #444 }} polyline {{ fill: none; stroke-width: 1.6 }}
.axes {{ fill: none; stroke: #999 }}
.line0 {{ stroke: #1f6fb4 }} .line1 {{ stroke: #c0392b }} svg .name0 {{ fill: #1f6fb4 }} svg .name1 {{ fill: #c0392b }}
</style>
<h1>Load 压测</h1>
<p>{told}</p>
<h2>Thresholds 门槛</h2>{verdicts}
<h2>Over time 随时间</h2>{plots}
<h2>What people did 操作</h2>{operations}
<h2>Counts 计数</h2>{counts}
</html>
"""
