"""Configuration from the environment: one frozen dataclass a process, every field documented where it is declared.

    @dataclass(frozen=True, slots=True)
    class Config:
        grpc_address: str = setting("DDZ_GRPC_ADDRESS", "host:port to listen on", "127.0.0.1:0")

`load(Config, os.environ)` reads it; `describe(Config)` lists it for the documentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")

_PARSERS: dict[type, Any] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"1": True, "true": True, "0": False, "false": False}[text.lower()],
}


class ConfigError(Exception):
    """A setting is missing or unreadable; the message is one sentence that names it."""


def setting(name: str, doc: str, default: str | int | float | bool | None = None) -> Any:
    """Declares a field read from the variable `name`; without a default it is required."""
    metadata = {"name": name, "doc": doc}
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
    return cls(**values)


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
