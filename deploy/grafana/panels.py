"""What a dashboard is made of, and the JSON that Grafana reads of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_COLUMNS: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4
_SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}


@dataclass(frozen=True, slots=True)
class Line:
    """One expression of a panel; `legend` as Grafana writes it: {{label}} stands for a label's value."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph, or with `stat` one number. `unit` is a name of Grafana's: s, ops, reqps, short, bytes, percentunit."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    stat: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: rows of panels, each row by its title."""

    uid: str
    title: str
    rows: Mapping[str, Sequence[Panel]]

    def expressions(self) -> list[tuple[str, str]]:
        """Every panel's title and expression."""
        return [(panel.title, line.expression) for row in self.rows.values() for panel in row for line in panel.lines]


def graph(title: str, unit: str, *lines: Line) -> Panel:
    """A graph over time."""
    return Panel(title, unit, lines)


def stat(title: str, unit: str, expression: str) -> Panel:
    """One number, as it is now."""
    return Panel(title, unit, (Line(expression, title),), stat=True)


def rate(metric: str, by: str = "", where: str = "") -> Line:
    """How often something happens in a second, summed over all processes but for the label `by`."""
    summed = f"sum by ({by})" if by else "sum"
    legend = " ".join(f"{{{{{name}}}}}" for name in by.replace(",", " ").split())
    return Line(f"{summed} (rate({metric}{_selector(where)}[$__rate_interval]))", legend or metric)


def level(metric: str, by: str = "", where: str = "", how: str = "sum") -> Line:
    """How much of something there is now."""
    summed = f"{how} by ({by})" if by else how
    legend = " ".join(f"{{{{{name}}}}}" for name in by.replace(",", " ").split())
    return Line(f"{summed} ({metric}{_selector(where)})", legend or metric)


def quantiles(metric: str, *shares: float, by: str = "", where: str = "") -> tuple[Line, ...]:
    """Quantiles of a histogram, such as 0.5 and 0.99; `metric` without _bucket."""
    legend = "".join(f" {{{{{name}}}}}" for name in by.replace(",", " ").split())
    labels = f"le, {by}" if by else "le"
    inner = f"sum by ({labels}) (rate({metric}_bucket{_selector(where)}[$__rate_interval]))"
    return tuple(Line(f"histogram_quantile({share}, {inner})", f"p{share * 100:g}{legend}") for share in shares)


def named(line: Line, legend: str) -> Line:
    """The same line under another name."""
    return Line(line.expression, legend)


def _selector(where: str) -> str:
    return f"{{{where}}}" if where else ""


def dashboard(board: Board) -> dict[str, Any]:
    """What Grafana reads."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in board.rows.items():
        panels.append(_row(title, y))
        y += 1
        height, most = (_STAT_HEIGHT, 6) if row[0].stat else (_HEIGHT, 4 if len(row) == 4 else 3)
        a_line = min(len(row), most)
        width = _COLUMNS // a_line
        for number, panel in enumerate(row):
            below, beside = divmod(number, a_line)
            place = {"h": height, "w": width, "x": beside * width, "y": y + below * height}
            panels.append(_panel(panel, place))
        y += height * -(-len(row) // a_line)
    for number, made in enumerate(panels, 1):
        made["id"] = number
    return {
        "uid": f"ddz-{board.uid}",
        "title": board.title,
        "tags": ["ddz"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [{"type": "dashboards", "tags": ["ddz"], "title": "Dou Dizhu", "asDropdown": True, "keepTime": True}],
        "panels": panels,
    }


def _row(title: str, y: int) -> dict[str, Any]:
    return {"type": "row", "title": title, "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": y}, "panels": []}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {}
        if panel.stat
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": line.expression,
                "legendFormat": line.legend,
            }
            for number, line in enumerate(panel.lines)
        ],
    }
