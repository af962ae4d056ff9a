"""The ids of what is being done: every line of the log bears them, and every span (traces.py).

They live in the context of OpenTelemetry, which goes along from task to task beside the current span.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import Span, get_current_span

_KEY: Final = contexts.create_key("ddz-ids")
_NONE: Final[Mapping[str, str]] = {}


def known() -> dict[str, str]:
    """`trace` and `span` (hex, 32 and 16 digits), and what was bound of `table`, `hand` and `player`."""
    here = contexts.get_current()
    span = get_current_span(here).get_span_context()
    bound = _told(of(here))
    if not span.is_valid:
        return bound
    return {"trace": f"{span.trace_id:032x}", "span": f"{span.span_id:016x}", **bound}


def bind(**found: str) -> None:
    """Sets ids for the rest of this task, and for the current span; an empty one is none."""
    here = contexts.get_current()
    contexts.attach(add(here, found))
    describe(get_current_span(here), found)


def of(context: Context) -> Mapping[str, str]:
    """The ids bound in a context."""
    bound: Any = context.get(_KEY, _NONE)
    assert isinstance(bound, Mapping)
    return bound


def add(context: Context, found: Mapping[str, str]) -> Context:
    """The context with these ids in the place of its own."""
    return contexts.set_value(_KEY, {**of(context), **found}, context)


def describe(span: Span, found: Mapping[str, str]) -> None:
    """Makes ids attributes of a span."""
    if span.is_recording():
        span.set_attributes({f"ddz.{name}_id": value for name, value in _told(found).items()})


def _told(found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if value}
