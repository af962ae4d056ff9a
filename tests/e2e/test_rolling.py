"""A release while people play: all first processes of the services are restarted at once, then all second ones.

`make chaos-rolling` does it for longer, one process after the other besides, and counts.
"""

from __future__ import annotations

import pytest

from deploy.local import folders
from deploy.local.leash import Leash
from tests.chaos import chaos_rolling

# However busy the machine is: what is played by a clock or a trustee counts as wrong.
PATIENT = dict.fromkeys(("trustee_ms", "auction_ms", "show_ms", "play_ms", "base_ms", "agree_ms"), 60_000)


@pytest.mark.timeout(180)
async def test_nobody_loses_a_hand_or_meets_an_error_while_everything_is_restarted(leash: Leash) -> None:
    with chaos_rolling.system(leash, folders.scratch(), **PATIENT) as running:
        result = await chaos_rolling.run(running, players=9, pace_s=0.1, rounds=1, one_by_one=False, pause_s=0.5)
    assert result["restarts"] == 2
    assert result["hands_settled"] >= 3
    assert {name: result[name] for name in ("wrong", "errors", "hands_open")} == dict.fromkeys(
        ("wrong", "errors", "hands_open"), 0
    )
