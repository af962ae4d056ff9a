"""`make variables`: the table of every variable in docs/operations.md, made from the code that reads them.

With `--check` it exits 1 when the table is not what the code says.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from deploy.local.folders import ROOT
from deploy.local.ports import SERVICES
from servicekit.config import describe

DOCUMENT: Final = ROOT / "docs" / "operations.md"
EVERYWHERE: Final = "every process"

_PART: Final = re.compile("(<!-- variables: [^\n]* -->\n)(.*?)(<!-- end of variables -->)", re.DOTALL)
# The first that a name ends with.
_UNITS: Final = (
    ("_PER_S", "a second"),
    ("_PER_HOUR", "an hour"),
    ("_PER_DAY", "a day"),
    ("_MS", "ms"),
    ("_S", "s"),
    ("_H", "h"),
    ("_CHIPS", "chips"),
    ("_BYTES", "bytes"),
    ("_PER_ADDRESS", "count"),
    ("_ADDRESS", "host:port"),
    ("_TARGET", "gRPC target"),
    ("_DSN", "postgresql://"),
    ("_NATS_URL", "nats://"),
    ("_REDIS_URL", "redis://"),
    ("_URL", "URL"),
    ("_FILE", "path"),
    ("_CERT", "path"),
    ("_KEY", "path"),
    ("_CA", "path"),
)
_TYPES: Final = {"bool": "true, false", "int": "count", "float": "number", "str": "text"}


class Variable(NamedTuple):
    """One row; `default` is None for a variable that must be given."""

    name: str
    unit: str
    default: str | None
    what: str


def variables() -> dict[str, dict[str, Variable]]:
    """All variables by who reads them (`every process` or a service) and by name."""
    found = {EVERYWHERE: _of_package("servicekit")}
    for service in SERVICES:
        own = _of_package(f"services.{service}")
        found[service] = {name: one for name, one in own.items() if name not in found[EVERYWHERE]}
    return found


def _of_package(package: str) -> dict[str, Variable]:
    folder = importlib.import_module(package)
    names = [package, *(f"{package}.{one.name}" for one in pkgutil.iter_modules(folder.__path__))]
    return {row.name: row for name in names for row in _of_module(importlib.import_module(name))}


def _of_module(module: ModuleType) -> Iterator[Variable]:
    """Rows of the configurations that a module declares."""
    for cls in vars(module).values():
        if not inspect.isclass(cls) or cls.__module__ != module.__name__ or not dataclasses.is_dataclass(cls):
            continue
        if all("name" in field.metadata for field in dataclasses.fields(cls)):
            for name, kind, default, what in describe(cls):
                yield Variable(name, _unit(name, kind), None if default == "required" else default, what)


def _unit(name: str, kind: str) -> str:
    if kind == "bool":
        return _TYPES[kind]
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), _TYPES[kind])


def table() -> str:
    """The part of the document between its marks."""
    parts = []
    for reader, rows in variables().items():
        title = "Every process" if reader == EVERYWHERE else f"`{reader}`, besides"
        parts += [f"\n**{title}**\n", "| variable | unit | default | what |", "|---|---|---|---|"]
        parts += [f"| `{row.name}` | {row.unit} | {_default(row)} | {_cell(row.what)} |" for row in rows.values()]
    return "\n".join(parts) + "\n\n"


def _default(row: Variable) -> str:
    if row.default is None:
        return "**required**"
    return f"`{row.default}`" if row.default else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def written(document: Path) -> str:
    """The document as it should be; raises ValueError when its marks are missing."""
    text, count = _PART.subn(lambda found: found[1] + table() + found[3], document.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{document.name} has no place for the variables")
    return text


def main() -> None:
    """Writes the table, or checks it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 when the document is not what the code says")
    check = parser.parse_args().check
    text = written(DOCUMENT)
    if not check:
        DOCUMENT.write_text(text, encoding="utf-8")
    elif text != DOCUMENT.read_text(encoding="utf-8"):
        sys.exit("docs/operations.md does not list the variables as the code has them: run `make variables`.")


if __name__ == "__main__":
    main()
