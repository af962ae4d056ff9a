"""`python -m deploy.local.measured`: docs/metrics.md, every metric as the code declares it; --check compares."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from deploy.local.folders import ROOT
from deploy.local.ports import SERVICES

DOCUMENT: Final = ROOT / "docs" / "metrics.md"

_KINDS: Final = {"Counter": "counter", "CounterMetric": "counter", "Gauge": "gauge", "Histogram": "histogram"}
_HEAD: Final = """# Metrics

Made by `python -m deploy.local.measured` from the code that counts; `make check` compares. Names are those of
prometheus-client: a counter ends in `_total`, a histogram has `_bucket`, `_sum` and `_count`, times are in seconds.
`instance` and `job` come from Prometheus. No label holds a player, a table, a hand or an address.
"""


class Metric(NamedTuple):
    """A row; `name` as Prometheus has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    what: str


def metrics(folder: Path) -> list[Metric]:
    """The metrics that the modules of a folder declare, by name."""
    return sorted(one for path in folder.glob("*.py") for one in _of(ast.parse(path.read_text(encoding="utf-8"))))


def _of(module: ast.Module) -> Iterator[Metric]:
    for statement in module.body:
        call = statement.value if isinstance(statement, ast.AnnAssign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _KINDS:
            continue
        name, what, *rest = (ast.literal_eval(argument) for argument in call.args)
        kind = _KINDS[call.func.id]
        yield Metric(name + "_total" * (kind == "counter"), kind, tuple(rest[0]) if rest else (), what)


def document() -> str:
    """The whole of docs/metrics.md."""
    parts = [_HEAD]
    places = {"Every process": ROOT / "libs" / "servicekit"}
    places |= {f"`{service}`": ROOT / "services" / service for service in SERVICES}
    for title, folder in places.items():
        parts += [f"\n## {title}\n", "| metric | kind | labels | what |", "|---|---|---|---|"]
        for row in metrics(folder):
            labels = ", ".join(f"`{label}`" for label in row.labels)
            parts.append(f"| `{row.name}` | {row.kind} | {labels} | {row.what} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Writes the document, or checks it."""
    text = document()
    if "--check" not in sys.argv[1:]:
        DOCUMENT.write_text(text, encoding="utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != text:
        sys.exit("docs/metrics.md does not list the metrics as the code has them: run python -m deploy.local.measured.")


if __name__ == "__main__":
    main()
