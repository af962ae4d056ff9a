"""What a run counts and times, in a form that adds up: over seconds, over people and over processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

_FINEST_MS: Final = 0.05
_GROWTH: Final = 1.05  # so a quantile is at most 5 % too high


@dataclass(slots=True)
class Times:
    """A histogram of durations, with buckets that grow by 5 %."""

    buckets: Counter[int] = field(default_factory=Counter)

    def add(self, ms: float) -> None:
        """One duration in milliseconds."""
        self.buckets[math.ceil(math.log(max(ms, _FINEST_MS) / _FINEST_MS, _GROWTH))] += 1

    def merge(self, other: Times) -> None:
        self.buckets.update(other.buckets)

    @property
    def count(self) -> int:
        return self.buckets.total()

    def quantile_ms(self, share: float) -> float:
        """The duration that `share` (0..1) of all stay below, in milliseconds; 0 when there is none."""
        wanted, seen = share * self.count, 0
        for bucket, count in sorted(self.buckets.items()):
            seen += count
            if seen >= wanted:
                return round(_FINEST_MS * _GROWTH**bucket, 3)
        return 0.0


@dataclass(slots=True)
class Meter:
    """Counts by name and durations by name. `online`: how many people there are now."""

    online: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, Times] = field(default_factory=dict)

    def count(self, name: str, by: int = 1) -> None:
        """Counts something; a kind within it stands behind a colon, as in `refused:NOT_YOUR_TURN`."""
        self.counts[name] += by

    def time(self, name: str, seconds: float) -> None:
        """Notes how long something took."""
        self.times.setdefault(name, Times()).add(seconds * 1000)

    def merge(self, other: Meter) -> None:
        """Adds another's counts and times; who is online is left alone."""
        self.counts.update(other.counts)
        for name, times in other.times.items():
            self.times.setdefault(name, Times()).merge(times)

    def take(self) -> Meter:
        """What came since the last call; the meter begins anew."""
        taken = Meter(self.online, self.counts, self.times)
        self.counts, self.times = Counter(), {}
        return taken

    def of(self, kind: str) -> dict[str, int]:
        """The counts of one kind by what stands behind the colon, the greatest first."""
        found = {name.partition(":")[2]: count for name, count in self.counts.items() if name.startswith(f"{kind}:")}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def quantile_ms(self, name: str, share: float) -> float:
        """As `Times.quantile_ms`; 0 when nothing of that name was timed."""
        return self.times[name].quantile_ms(share) if name in self.times else 0.0

    def to_json(self) -> dict[str, Any]:
        """The form between processes."""
        return {
            "online": self.online,
            "counts": self.counts,
            "times": {name: list(times.buckets.items()) for name, times in self.times.items()},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        times = {name: Times(Counter(dict(map(tuple, pairs)))) for name, pairs in found["times"].items()}
        return cls(found["online"], Counter(found["counts"]), times)
