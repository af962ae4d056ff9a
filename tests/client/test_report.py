"""The demo ends well only if the books are right: each way in which they can be wrong is a fault of its own."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1.ledger_pb2 import AuditResponse, GetHandResponse, SeatResult, Settlement
from ddzclient import report

BEFORE = AuditResponse(hands_settled=7)
AFTER = AuditResponse(hands_settled=8)


def hand(*chips: int, system: int = 0) -> GetHandResponse:
    found = GetHandResponse(settlement=Settlement(hand_id="t-1", system_chips=system))
    found.settlement.seats.extend(SeatResult(chips=won, rake_chips=system // 3) for won in chips)
    found.record.terms.book = "rob"
    found.record.base_chips = 10
    outcome = found.record.outcome
    outcome.landlord, outcome.level, outcome.multiplier, outcome.winner = 0, 1, 12, hand_pb2.SIDE_LANDLORD
    outcome.factors.add(factor=hand_pb2.FACTOR_INITIAL, product=1)
    outcome.factors.add(factor=hand_pb2.FACTOR_SHOW, product=3)
    outcome.factors.add(factor=hand_pb2.FACTOR_BOMB, product=4)
    return found


def test_right_books_have_no_fault() -> None:
    assert report.faults([hand(237, -123, -123, system=9)], 1, BEFORE, AFTER) == []


@pytest.mark.parametrize(
    ("hands", "after", "words"),
    [
        ([], BEFORE, "Hands to be played: 1; in the ledger: 0"),
        ([hand(20, -10, -10)], BEFORE, "Hands played: 1; settled by the ledger: 0"),
        ([hand(20, -10, -9)], AFTER, "t-1 does not sum to 0"),
        ([hand(20, -10, -10)], AuditResponse(hands_settled=8, hands_open=1), "Hands still open: 1"),
        ([hand(20, -10, -10)], AuditResponse(hands_settled=8, chips_sum=1), "sum to 1 chips"),
        ([hand(20, -10, -10)], AuditResponse(hands_settled=8, rating_sum=-2), "-2 rating"),
        ([hand(20, -10, -10)], AuditResponse(hands_settled=8, negative_balances=3), "Accounts below 0: 3"),
        ([hand(20, -10, -10)], AuditResponse(hands_settled=8, faults=["the ledger says so"]), "the ledger says so"),
    ],
)
def test_every_wrong_is_a_fault(hands: list[GetHandResponse], after: AuditResponse, words: str) -> None:
    (fault,) = report.faults(hands, 1, BEFORE, after)
    assert words in fault


def test_a_row_tells_the_multiplier_by_factor_and_fits_into_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    report.show(console, [hand(237, -123, -123, system=9)], "0123456789abcdef", BEFORE, AFTER, ["a fault [/]"])
    printed = out.getvalue().replace("\u00a0", " ")
    assert "12 = show 3 ×" in printed
    assert "bomb 4" in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if "seat" in line)
    assert "deals 0123456789abcdef" in printed
    assert "audit: 1 hand played = 1 hand settled, sum over all accounts 0, no negative balance" in printed
    assert "wrong: a fault [/]" in printed
