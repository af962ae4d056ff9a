"""How many streams one caller may hold open: each costs memory for as long as he likes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from doudizhu.refusal import Refusal
from servicekit import identity
from servicekit.errors import Trouble


class Crowd:
    """Counts the open streams of each address and of each player; 0 = any number of them.

    Calls that did not come by the gateway have neither, and are not counted.
    """

    def __init__(self, per_address: int = 0, per_player: int = 0) -> None:
        self._limits = {"address": per_address, "player": per_player}
        self._open: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def one_more(self, context: Any) -> Iterator[None]:
        """Holds a place for the stream; raises Refusal LIMIT_REACHED when its caller has as many as he may."""
        held = []
        try:
            for kind, who in (("address", identity.address(context)), ("player", identity.player_id_or_none(context))):
                if not who or not self._limits[kind]:
                    continue
                if self._open[kind, who] >= self._limits[kind]:
                    raise Refusal(Trouble.LIMIT_REACHED, f"This {kind} has too many streams open.", of=kind)
                self._open[kind, who] += 1
                held.append((kind, who))
            yield
        finally:
            for key in held:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]
