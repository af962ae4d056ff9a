"""The one source of chance of a run, the counts of what was done to the system, and the trace of what happened.

The trace is hashed as it grows: two runs of a seed are the same run when their digests are. The last of it is kept to
be shown when a run fails.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from typing import Final

_KEPT: Final = 80


class Trace:
    """What happened, in order: (virtual seconds, what, details)."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._last: deque[tuple[float, str, object]] = deque(maxlen=_KEPT)
        self.count = 0

    def add(self, at_s: float, what: str, detail: str | bytes = "") -> None:
        """One event. `detail` bytes are hashed whole and shown by their length."""
        self.count += 1
        raw = detail if isinstance(detail, bytes) else detail.encode()
        self._hash.update(b"%r|%b|%b\n" % (at_s, what.encode(), raw))
        self._last.append((at_s, what, detail))

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        return self._hash.hexdigest()

    def last(self) -> list[str]:
        """The last events, one a line."""
        return [
            f"{at_s:12.6f} {what} {f'{len(detail)} bytes' if isinstance(detail, bytes) else detail}"
            for at_s, what, detail in self._last
        ]


class Chance:
    """A seeded random.Random, how much is done to the system, and what has been."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.level = 1.0  # 0: nothing is done to the system any more

    def strikes(self, kind: str, probability: float) -> bool:
        """Whether this fault happens now; counted when it does."""
        if self.level and self.rng.random() < probability * self.level:
            self.faults[kind] += 1
            return True
        return False

    def delay_s(self) -> float:
        """How long a message is on its way: mostly a millisecond, now and then so long that others overtake it."""
        drawn = self.rng.random()
        if drawn < 0.98 or not self.level:
            return 0.0003 + 0.002 * drawn
        self.faults["delayed"] += 1
        return 0.4 * self.rng.random()
