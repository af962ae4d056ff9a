"""How much one stream may ask: a bucket of tokens that fills again with time. No clock of its own."""

from __future__ import annotations


class Budget:
    """`burst` commands at once, `per_s` a second on the average: nobody makes a log grow without bound."""

    def __init__(self, per_s: float = 20.0, burst: int = 60) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at_s = 0.0

    def take(self, now_s: float) -> bool:
        """Takes one command out, if there is one. `now_s`: of a clock that never goes back."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait_s(self) -> float:
        """How many seconds after the last `take` there is one to take."""
        return max(0.0, (1 - self._left) / self._per_s)
