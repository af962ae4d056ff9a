"""What a run is told: whom to bring, where to, how fast and for how long."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import yaml


class Kind(StrEnum):
    """Who comes."""

    PLAYER = "player"  # queues, plays some hands, queues again
    RECONNECTOR = "reconnector"  # plays, and loses his connection again and again
    FLEER = "fleer"  # plays, and leaves live hands
    OBSERVER = "observer"  # watches seats of tables
    SLEEPER = "sleeper"  # queues and sits down, and lets the clock act for him in every hand
    IDLE = "idle"  # looks at the lobby


class Pace(StrEnum):
    """How long people think."""

    HUMAN = "human"
    FLAT_OUT = "flat-out"


class PlanError(Exception):
    """A plan that cannot be run, in one sentence."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights of kinds of people and of rooms, and how long people think: median, and the longest, in seconds."""

    people: dict[str, float]
    rooms: dict[str, float]
    think_median_s: float
    think_longest_s: float

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a mix from YAML; raises PlanError that names the file and the field."""
        found = fields_of(path)
        people = _weights(path, found, "people")
        if strangers := sorted(set(people) - set(Kind)):
            raise PlanError(f"{path}: people names {strangers[0]!r}; there are {', '.join(Kind)}.")
        rooms = _weights(path, found, "rooms")
        return cls(people, rooms, *(number_of(path, found, name) for name in ("think_median_s", "think_longest_s")))


@dataclass(frozen=True, slots=True)
class Plan:
    """One process's share of a run; times in seconds. `first`: the number of its first person among all."""

    address: str
    certificate: str  # the gateway's authority as PEM; empty = the system's
    tls: bool
    people: int
    first: int
    ramp_s: float
    hold_s: float
    down_s: float
    pace: str
    mix: Mix
    seed: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The inverse of `to_json`."""
        found = json.loads(line)
        return cls(**found | {"mix": Mix(**found["mix"])})


def check_address(address: str, *, mine: bool) -> None:
    """Raises PlanError when the address is none, or is not this machine's and nobody has said that it is his."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise PlanError(f"--at is host:port, not {address!r}.")
    try:
        found = {ipaddress.ip_address(entry[4][0]) for entry in socket.getaddrinfo(host.strip("[]"), int(port))}
    except OSError as error:
        raise PlanError(f"{host} cannot be found: {error}.") from None
    if not mine and not all(ip.is_loopback for ip in found):
        raise PlanError(f"{host} is not this machine. If you may load it, say so: --i-own-this.")


def fields_of(path: Path) -> Mapping[str, Any]:
    """The fields of a YAML file; raises PlanError that names it."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise PlanError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise PlanError(f"{path}: a list of fields is wanted.")
    return found


def number_of(path: Path, found: Mapping[str, Any], name: str) -> float:
    """A field that is a number from 0 on; raises PlanError that names it."""
    value = found.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise PlanError(f"{path}: {name} is a number from 0 on, not {value!r}.")
    return float(value)


def _weights(path: Path, found: Mapping[str, Any], name: str) -> dict[str, float]:
    entries = found.get(name)
    if not isinstance(entries, dict) or not entries:
        raise PlanError(f"{path}: {name} gives a weight for each name.")
    weights = {str(key): number_of(path, entries, key) for key in entries}
    if not sum(weights.values()):
        raise PlanError(f"{path}: the weights of {name} are all 0.")
    return weights
