"""`make scaling`: the arithmetic of docs/scaling.md. Reads its table of figures, writes its computed tables.

With `--check` it exits 1 when what is written is not what the figures come to.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).with_name("scaling.md")
ONLINE: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)

_FIGURE: Final = re.compile(r"^\| `([a-z0-9_]+)` \| ([0-9.,]+) \|", re.MULTILINE)
_PART: Final = re.compile(r"(<!-- (computed|breaks): [^\n]* -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_DAY_S: Final = 86_400
_MONTH_S: Final = 30 * _DAY_S
_GB: Final = 1e9

Row = tuple[str, Callable[["Size"], str]]


class Figures:
    """The table of figures: `figures.move_us`."""

    def __init__(self, text: str) -> None:
        self._values = {name: float(value.replace(",", "")) for name, value in _FIGURE.findall(text)}

    def __getattr__(self, name: str) -> float:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"docs/scaling.md has no figure {name}") from None


class Size:
    """What so many people online come to. Rates are a second, CPU is in cores that are busy, sizes in bytes."""

    def __init__(self, online: float, f: Figures) -> None:
        self.online = online
        self.f = f
        self.seated = online * f.seated_share
        self.tables = self.seated / 3
        self.hands = self.tables / f.hand_s
        self.moves = self.hands * f.moves_per_hand
        self.heartbeats = online / f.heartbeat_s
        self.joins = self.hands * 3 / f.hands_per_ticket
        self.frames = 4 * self.moves + self.heartbeats  # through the gateway: one up, three down
        self.calls = online * f.calls_per_player_min / 60

    def cores(self) -> dict[str, float]:
        """Busy cores by part."""
        f = self.f
        busy_us = {
            "table": self.moves * f.move_us + self.heartbeats * f.push_us,
            "gateway": self.frames * f.gateway_frame_us + (self.calls + 2 * self.hands) * f.gateway_call_us,
            "lobby": self.calls * f.call_us,
            "matchmaking": self.joins * f.match_us,
            "ledger": 2 * self.hands * f.call_us + self.hands * f.settle_us,
            "Postgres": self.hands * f.postgres_us,
            "Redis": self.moves * f.redis_us + self.joins * f.redis_match_us,
            "NATS": self.moves * f.nats_us,
        }
        return {part: us / 1e6 for part, us in busy_us.items()}

    def provisioned(self) -> dict[str, int]:
        """Cores to pay for: at the load that is aimed at, and two of everything at least."""
        return {part: max(2, math.ceil(cores / self.f.aim)) for part, cores in self.cores().items()}

    def memory(self) -> dict[str, float]:
        """Bytes by part."""
        f = self.f
        return {
            "table": self.online * f.stream_kb * 1e3 + self.tables * f.table_kb * 1e3,
            "gateway": self.online * f.connection_kb * 1e3,
            "Redis": self.tables * f.redis_table_kb * 1e3,
        }

    @property
    def egress(self) -> float:
        """Bytes a second to players."""
        return (3 * self.moves + self.heartbeats) * self.f.frame_bytes

    @property
    def wal(self) -> float:
        return self.hands * self.f.wal_bytes

    @property
    def stored_a_day(self) -> float:
        return self.hands * self.f.stored_bytes * _DAY_S * self.f.mean_to_peak

    def dollars(self) -> dict[str, float]:
        """A month by kind."""
        f = self.f
        stored = self.stored_a_day * f.records_kept_days
        return {
            "cores": sum(self.provisioned().values()) * f.core_dollars,
            "memory": sum(self.memory().values()) / self.f.aim / _GB * f.gb_memory_dollars,
            "disk": 3 * stored / _GB * f.gb_disk_dollars,
            "egress": self.egress * f.mean_to_peak * _MONTH_S / _GB * f.gb_egress_dollars,
        }


def number(value: float) -> str:
    """Three digits that matter, with a comma at the thousands."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Bytes as people say them."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= least:
            return f"{number(value / least)} {unit}"
    return f"{number(value / 1e3)} KB"


def _rows() -> Iterator[Row]:
    yield "tables in play", lambda s: number(s.tables)
    yield "moves a second", lambda s: number(s.moves)
    yield "settlements a second", lambda s: number(s.hands)
    yield "players matched a second", lambda s: number(s.joins)
    for part in ("table", "gateway", "lobby", "matchmaking", "ledger", "Postgres", "Redis", "NATS"):
        yield f"cores: {part}", lambda s, part=part: number(s.provisioned()[part])  # type: ignore[misc]
    for part in ("table", "gateway", "Redis"):
        yield f"memory: {part}", lambda s, part=part: size(s.memory()[part])  # type: ignore[misc]
    yield "to players a second", lambda s: size(s.egress)
    yield "write-ahead log a second", lambda s: size(s.wal)
    yield "records and transfers a day", lambda s: size(s.stored_a_day)
    yield "**dollars a month**", lambda s: f"**{number(sum(s.dollars().values()))}**"
    yield "of which cores, memory, disk, egress", lambda s: ", ".join(number(part) for part in s.dollars().values())
    yield (
        "**dollars a month for 1,000 online**",
        lambda s: f"**{number(sum(s.dollars().values()) / s.online * 1_000)}**",
    )


def computed(f: Figures) -> str:
    """The table of sizes."""
    sizes = [Size(online, f) for online in ONLINE]
    head = ["| players online |" + "".join(f" {online:,} |" for online in ONLINE), "|---|" + "--:|" * len(ONLINE)]
    return (
        "\n".join([*head, *(f"| {name} |" + "".join(f" {cell(s)} |" for s in sizes) for name, cell in _rows())]) + "\n"
    )


def limits(f: Figures) -> list[tuple[float, str, str]]:
    """At how many players online each part that is one has no more to give, lowest first, and what comes next."""
    one = Size(1.0, f)
    cores, aim = one.cores(), f.aim
    found = [
        (aim / cores["table"], "one table process (a core)", "more processes: `TABLE_NODES`, or the autoscaler"),
        (aim / cores["gateway"], "one core of a gateway", "Envoy uses all it gets; then several behind a balancer"),
        (aim / cores["lobby"], "one lobby", "more processes; they share nothing but Redis and Postgres"),
        (aim / cores["matchmaking"], "one matchmaking process", "more processes; scripts in Redis decide"),
        (aim / cores["ledger"], "one ledger process", "more processes; the database decides"),
        (aim / cores["Redis"], "one Redis primary (a core)", "a second Redis for matchmaking, then cells (below)"),
        (f.postgres_settlements_per_s * aim / one.hands, "one Postgres primary", "cells"),
        (f.gb_disk_practical * _GB / (one.stored_a_day * f.records_kept_days), "records on one Postgres disk",
         "records older than a week to an object store, the rest partitioned by day"),
        (f.jetstream_per_s * aim / (4 * one.hands), "one JetStream stream", "a stream for each subject, then cells"),
    ]  # fmt: skip
    return sorted(found)


def breaks(f: Figures) -> str:
    """The table of limits."""
    head = ["| at about | what has no more to give | next |", "|--:|---|---|"]
    rounded = ((round(online, 1 - len(str(int(online)))), what, then) for online, what, then in limits(f))
    return "\n".join([*head, *(f"| {online:,.0f} | {what} | {then} |" for online, what, then in rounded)]) + "\n"


def written(text: str) -> str:
    """The document as it should be; raises ValueError when a mark is missing."""
    figures = Figures(text)
    parts = {"computed": computed(figures), "breaks": breaks(figures)}
    text, count = _PART.subn(lambda found: found[1] + "\n" + parts[found[2]] + "\n" + found[4], text)
    if count != len(parts):
        raise ValueError("docs/scaling.md has no place for what is computed")
    return text


def main() -> None:
    """Writes the tables, or checks them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 when the document is not what the figures say")
    check = parser.parse_args().check
    before = DOCUMENT.read_text(encoding="utf-8")
    after = written(before)
    if not check:
        DOCUMENT.write_text(after, encoding="utf-8")
    elif after != before:
        sys.exit("docs/scaling.md is not what its figures come to: run `make scaling`.")


if __name__ == "__main__":
    main()
