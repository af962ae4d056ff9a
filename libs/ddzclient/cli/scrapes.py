"""Two looks at the metrics of many processes, and what they say together. Pure computation on the text of /metrics."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

_WANTED: Final = ("ddz_", "process_", "envoy_http_")

Labels = frozenset[tuple[str, str]]
Samples = Mapping[tuple[str, Labels], float]


def parse(text: str) -> Samples:
    """The samples of one process, of the metrics that `ddz top` shows. Raises ValueError for what is no such text."""
    lines = [line for line in text.split("\n") if line.startswith(_WANTED)]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families("\n".join(lines) + "\n")
        for sample in family.samples
    }


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the processes told at one time, by process; who did not answer is left out. `at_s` of any steady clock."""

    at_s: float
    processes: Mapping[str, Samples]


@dataclass(frozen=True, slots=True)
class Pair:
    """What has happened between two scrapes. Metrics are named as in the text, labels are given as keywords."""

    before: Scrape
    after: Scrape

    @property
    def seconds(self) -> float:
        """The time between them."""
        return max(self.after.at_s - self.before.at_s, 1e-9)

    def of(self, process: str) -> Pair:
        """The same of one process alone."""
        one = [
            Scrape(scrape.at_s, {name: samples for name, samples in scrape.processes.items() if name == process})
            for scrape in (self.before, self.after)
        ]
        return Pair(*one)

    def rates(self, metric: str, by: str, /, **where: str) -> dict[str, float]:
        """How much a counter rises in a second, by a label's value; a process that has restarted began at 0."""
        found: dict[str, float] = defaultdict(float)
        for process, samples in self.after.processes.items():
            if process not in self.before.processes:
                continue  # what it counted before it was seen belongs to no time
            earlier = self.before.processes[process]
            for key, value in _matching(samples, metric, where):
                rise = value - earlier.get(key, 0.0)
                found[dict(key[1]).get(by, "")] += (rise if rise >= 0 else value) / self.seconds
        return dict(found)

    def rate(self, metric: str, /, **where: str) -> float:
        """How much a counter rises in a second, over everything."""
        return sum(self.rates(metric, "", **where).values())

    def levels(
        self, metric: str, by: str, how: Callable[[Iterable[float]], float] = sum, /, **where: str
    ) -> dict[str, float]:
        """A gauge as it is now, by a label's value; `how` puts several processes together: sum, max or min."""
        found: dict[str, list[float]] = defaultdict(list)
        for samples in self.after.processes.values():
            for key, value in _matching(samples, metric, where):
                found[dict(key[1]).get(by, "")].append(value)
        return {label: how(values) for label, values in found.items()}

    def level(self, metric: str, how: Callable[[Iterable[float]], float] = sum, /, **where: str) -> float:
        """A gauge as it is now; 0 when nobody tells it."""
        return how(self.levels(metric, "", how, **where).values() or (0.0,))

    def quantile(self, metric: str, share: float, /, **where: str) -> float:
        """A quantile of what a histogram took in, as Prometheus computes it; NaN when it took in nothing."""
        buckets = {float(bound): rise for bound, rise in self.rates(f"{metric}_bucket", "le", **where).items()}
        bounds = sorted(buckets)
        if not bounds or buckets[bounds[-1]] <= 0:
            return math.nan
        rank = share * buckets[bounds[-1]]
        lower, below = 0.0, 0.0
        for bound in bounds:
            if buckets[bound] >= rank:
                if math.isinf(bound):
                    return lower
                return lower + (bound - lower) * (rank - below) / max(buckets[bound] - below, 1e-12)
            lower, below = bound, buckets[bound]
        return lower

    def mean(self, metric: str, /, **where: str) -> float:
        """The mean of what a histogram took in; NaN when it took in nothing."""
        count = self.rate(f"{metric}_count", **where)
        return self.rate(f"{metric}_sum", **where) / count if count else math.nan


def _matching(samples: Samples, metric: str, where: Mapping[str, str]) -> Iterable[tuple[tuple[str, Labels], float]]:
    wanted = frozenset(where.items())
    return [(key, value) for key, value in samples.items() if key[0] == metric and wanted <= key[1]]
