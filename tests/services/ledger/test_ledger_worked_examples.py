"""RULES.md section 11 through the whole service: balances in, settlement and balances out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ddz.ledger.v1 import ledger_pb2
from tests.services.ledger.harness import Ledger
from tests.services.ledger.records import record

ROB = {"book": "rob"}
WON = {"winner": "landlord", "landlord": 0}
LOST = {"winner": "farmers", "landlord": 0}

CASES: dict[str, tuple[dict[str, Any], list[int], list[int] | None, list[int], int, list[int] | None]] = {
    "S4's own": (
        {**ROB, **WON, "base": 8, "multiplier": 16}, [1000] * 3, [16] * 3, [256, -128, -128], 0, [16, -16, -16]
    ),
    "rake": ({**ROB, **WON, "base": 8, "multiplier": 16, "rake": 5}, [1000] * 3, None, [251, -133, -133], 15, None),
    "farmer short": (
        {**ROB, **WON, "base": 10, "multiplier": 12, "rake": 3}, [500, 50, 900], None, [167, -50, -123], 6, None
    ),
    "winner bounded": (
        {**ROB, **WON, "base": 10, "multiplier": 12, "rake": 3}, [100, 500, 300], None, [97, -53, -53], 9, None
    ),
    "landlord short": (
        {**ROB, **LOST, "base": 10, "multiplier": 12, "rake": 3}, [101, 500, 40], None, [-101, 72, 22], 7, None
    ),
    "less than the rake": (
        {**ROB, "winner": "landlord", "landlord": 1, "base": 1, "multiplier": 3, "rake": 5},
        [2, 100, 9], None, [-2, 0, -8], 10, None,
    ),
    "farmer flees": (
        {**ROB, "landlord": 0, "fled": 1, "base": 10, "multiplier": 6, "flee_multiplier": 24, "rake": 3},
        [900, 1000, 500], [10, 30, 5], [477, -723, 237], 9, [15, -30, 15],
    ),
    "flees before a landlord": (
        {**ROB, "fled": 2, "base": 10, "multiplier": 2, "flee_multiplier": 2, "rake": 3},
        [900, 1000, 500], [10, 30, 5], [17, 17, -43], 9, [2, 2, -4],
    ),
    "landlord wins, classic": (
        {"book": "classic", "winner": "landlord", "landlord": 2, "level": 2, "multiplier": 8},
        [1000] * 3, None, [-160, -160, 320], 0, None,
    ),
    "landlord short, classic": (
        {"book": "classic", **LOST, "level": 3, "multiplier": 4}, [201, 100, 100], None, [-200, 100, 100], 0, None
    ),
    "farmer short, classic": (
        {"book": "classic", **WON, "level": 3, "multiplier": 4}, [400, 35, 500], None, [155, -35, -120], 0, None
    ),
    "farmer flees, classic": (
        {"book": "classic", "landlord": 0, "fled": 1, "level": 3, "multiplier": 8, "flee_multiplier": 2},
        [400, 500, 500], None, [120, -180, 60], 0, None,
    ),
    "farmer flees and is short, classic": (
        {"book": "classic", "landlord": 0, "fled": 1, "level": 3, "multiplier": 8, "flee_multiplier": 2},
        [400, 100, 500], None, [66, -99, 33], 0, None,
    ),
    "spring and a bomb": (
        {"book": "happy", "winner": "landlord", "landlord": 1, "base": 5, "level": 2, "multiplier": 4},
        [100, 100, 30], None, [-40, 70, -30], 0, None,
    ),
    "flees at 59 s": (
        {"book": "happy", "landlord": 1, "fled": 0, "base": 5, "level": 2, "multiplier": 2, "flee_multiplier": 2,
         "elapsed_s": 59},
        [100] * 3, None, [-60, 0, 0], 60, None,
    ),
    "flees at 61 s": (
        {"book": "happy", "landlord": 1, "fled": 0, "base": 5, "level": 2, "multiplier": 2, "flee_multiplier": 2,
         "elapsed_s": 61},
        [100] * 3, None, [-60, 40, 20], 0, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_settles_the_worked_example(case: str, ledger: Ledger, fresh: Callable[[str], str]) -> None:
    facts, balances, ratings, chips, system, rating = CASES[case]
    players = [fresh("p") for _ in range(3)]
    for player_id, amount in zip(players, balances, strict=True):
        await ledger.internal.Grant(
            ledger_pb2.GrantRequest(key=fresh("signup:"), player_id=player_id, chips=amount, kind="signup")
        )
    for player_id, points in zip(players, ratings or [0] * 3, strict=True):
        await ledger.root.execute("UPDATE ledger.account SET rating = $2 WHERE player_id = $1", player_id, points)
    hand_id = fresh("hand")
    opened = await ledger.internal.OpenHand(
        ledger_pb2.OpenHandRequest(hand_id=hand_id, player_ids=players, table_id="table")
    )
    assert list(opened.carried_chips) == balances
    settled = await ledger.internal.Settle(ledger_pb2.SettleRequest(record=record(hand_id, players, **facts)))
    assert settled.result == ledger_pb2.RESULT_APPLIED
    settlement = settled.settlement
    assert [seat.chips for seat in settlement.seats] == chips
    assert settlement.system_chips == system
    assert rating is None or [seat.rating for seat in settlement.seats] == rating
    after = await ledger.internal.ListBalances(ledger_pb2.ListBalancesRequest(player_ids=players))
    assert [each.chips for each in after.balances] == [seat.balance_after_chips for seat in settlement.seats]
    assert [each.rating for each in after.balances] == [seat.rating_after for seat in settlement.seats]
