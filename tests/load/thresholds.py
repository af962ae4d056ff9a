"""Whether a run was good enough, by a file of thresholds."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.load.plan import PlanError, fields_of, number_of

_BOUNDS: Final = {"at_most": operator.le, "at_least": operator.ge}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one threshold says of a run."""

    name: str
    wanted: str
    value: float
    ok: bool


def verdicts(path: Path, summary: Mapping[str, Any]) -> list[Verdict]:
    """Holds a run's figures against the thresholds of a file; raises PlanError that names what cannot be held."""
    found = []
    for name, bounds in fields_of(path).items():
        value = summary.get(name)
        if not isinstance(value, int | float):
            known = ", ".join(sorted(key for key, figure in summary.items() if isinstance(figure, int | float)))
            raise PlanError(f"{path}: there is no figure {name!r}; there are {known}.")
        if not isinstance(bounds, dict) or not bounds or set(bounds) - set(_BOUNDS):
            raise PlanError(f"{path}: {name} has at_most or at_least.")
        for kind in bounds:
            bound = number_of(path, bounds, kind)
            found.append(Verdict(name, f"{kind.replace('_', ' ')} {bound:g}", value, _BOUNDS[kind](value, bound)))
    return found
