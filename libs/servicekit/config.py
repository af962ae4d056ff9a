"""Configuration from the environment: one frozen dataclass a process, every field documented where it is declared.

    @dataclass(frozen=True, slots=True)
    class Config:
        grpc_address: str = setting("DDZ_GRPC_ADDRESS", "host:port to listen on", "127.0.0.1:0")

`load(Config, os.environ)` reads it; `describe(Config)` lists it for the documentation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_PARSERS: dict[type, Any] = {
    str: str,
    int: int,
    float: _finite,
    bool: lambda text: {"1": True, "true": True, "0": False, "false": False}[text.lower()],
}


class ConfigError(Exception):
    """A setting is missing or cannot be used; the message is one sentence that names it."""


def setting(
    name: str,
    doc: str,
    default: str | int | float | bool | None = None,
    *,
    least: float | None = None,
    choices: Sequence[str] = (),
    form: tuple[Callable[[str], bool], str] | None = None,
) -> Any:
    """Declares a field read from the variable `name`; without a default it is required.

    What is read must be at least `least`, one of `choices`, and pass the test in `form`, which says its wish in words.
    """
    metadata = {"name": name, "doc": doc, "least": least, "choices": choices, "form": form}
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def load(cls: type[T], environ: Mapping[str, str]) -> T:
    """Builds `cls` from the environment; raises ConfigError that names the variable at fault."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = field.metadata["name"]
        text = environ.get(name)
        if text is None:
            if field.default is dataclasses.MISSING:
                raise ConfigError(f"{name} is not set ({field.metadata['doc']}).")
            continue
        try:
            values[field.name] = _PARSERS[hints[field.name]](text)
        except (ValueError, KeyError):
            raise ConfigError(f"{name} must be a {hints[field.name].__name__}, not {text!r}.") from None
        if wish := _wish(field.metadata, text, values[field.name]):
            raise ConfigError(f"{name} must be {wish}, not {text!r}.")
    return cls(**values)


def is_address(text: str) -> bool:
    """Whether a text is host:port."""
    _, colon, port = text.rpartition(":")
    return bool(colon) and port.isdecimal() and int(port) < 65_536


def _wish(metadata: Mapping[str, Any], text: str, value: Any) -> str:
    """What the value should be instead; empty when it may be as it is."""
    least, choices, form = metadata["least"], metadata["choices"], metadata["form"]
    if least is not None and value < least:
        return f"at least {least}"
    if choices and value not in choices:
        return f"one of {', '.join(choices)}"
    if form is not None and not form[0](text):
        return str(form[1])
    return ""


def describe(cls: type) -> list[tuple[str, str, str, str]]:
    """Rows of (variable, type, default or "required", what it is)."""
    hints = get_type_hints(cls)
    return [
        (
            field.metadata["name"],
            hints[field.name].__name__,
            "required" if field.default is dataclasses.MISSING else str(field.default),
            field.metadata["doc"],
        )
        for field in dataclasses.fields(cls)
    ]
