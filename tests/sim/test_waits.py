"""The auditor's own reckoning of waits."""

from __future__ import annotations

import doudizhu
from doudizhu import book_of
from doudizhu.hand import LandlordSet, RobMade
from services.table import events
from services.table.table import Trustee
from tests.sim.system.waits import Waits

HAND = doudizhu.start(book_of("rob"))


def test_a_trustee_comes_after_two_time_outs_whatever_follows_on_them() -> None:
    waits = Waits()
    trustee = events.Stamped(9, 0, events.TrusteeSet(1, Trustee.MISSES))
    timed_out = events.Move(RobMade(1, False, 1, 1), by_trustee=True)
    assert "after 0 time-outs" in waits.early(trustee, HAND)
    waits.take(events.Stamped(1, 0, timed_out), HAND, HAND)
    assert "after 1 time-outs" in waits.early(trustee, HAND)
    waits.take(events.Stamped(2, 0, events.Move(LandlordSet(1, 0, ()))), HAND, HAND)
    waits.take(events.Stamped(3, 0, timed_out), HAND, HAND)
    assert waits.early(trustee, HAND) == ""
    waits.take(events.Stamped(4, 0, events.Move(RobMade(1, False, 1, 1))), HAND, HAND)
    assert "after 0 time-outs" in waits.early(trustee, HAND), "his own act is the end of it"
