"""RULES.md section 4, sentence by sentence: clocks, the trustee, tables that nobody comes back to."""

from __future__ import annotations

import pytest

from doudizhu.hand import Bid, BidMade, Pass, Passed, Play, Played, Rob, Show
from doudizhu.hand import Phase as HandPhase
from services.table import commands, events
from services.table.clocks import clock, resume_at_ms
from services.table.commands import Connect, Disconnect, Leave, SetTrustee
from services.table.table import Phase, Stage, Trustee
from tests.services.table.sim import Sim, classic_table, happy_table, person, refusal, rob_match, terms
from tests.services.table.test_rules_4_hands import SEEDS, names, opening_match, to_play, towards_play

# ---- "Every wait has a clock" ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "wait_ms"),
    [(Phase.BID, 10_000), (Phase.ROB, 10_000), (Phase.SHOW, 5_000), (Phase.PLAY, 30_000)],
)
def test_the_default_clocks(phase: Phase, wait_ms: int) -> None:
    sim = classic_table(1, 2, 3)
    while sim.table.phase is not phase:
        hand = sim.table.hand
        assert hand is not None
        assert hand.turn is not None
        sim.act(hand.turn, towards_play(hand.phase, hand.turn))
    assert clock(sim.table).deadline_ms - sim.now_ms == wait_ms


def test_a_follow_has_20_seconds() -> None:
    sim = happy_table(1, 2, 3)
    seat = to_play(sim)
    sim.act(seat, next(one for one in sim.legal() if isinstance(one, Play)))
    assert clock(sim.table).deadline_ms - sim.now_ms == 20_000


def test_the_show_window_is_3_seconds_and_a_show_does_not_prolong_it() -> None:
    sim = rob_match()
    ends = clock(sim.table).deadline_ms
    assert ends - sim.now_ms == 3_000
    sim.wait(1_000)
    sim.act(1, Show(1, True))
    assert clock(sim.table).deadline_ms == ends


def test_on_time_out_bid_call_and_rob_are_a_pass() -> None:
    sim = classic_table(1, 2, 3)
    first = sim.table.hand.turn  # type: ignore[union-attr]
    (bid, *_) = sim.wait(10_000)
    assert isinstance(bid, events.Move)
    assert (bid.event.seat, bid.event.level, bid.by_trustee) == (first, 0, True)  # type: ignore[union-attr]


def test_on_time_out_show_is_no_follow_is_pass_and_lead_is_the_trustees_choice() -> None:
    sim = classic_table(1, 2, 3)
    while sim.table.phase is not Phase.SHOW:
        hand = sim.table.hand
        assert hand is not None
        assert hand.turn is not None
        sim.act(hand.turn, Bid(hand.turn, 3) if hand.phase is HandPhase.BID else Rob(hand.turn, False))
    assert names(sim.wait(5_000)) == ["ShowDeclined"]
    lead = sim.wait_for_clock()
    assert isinstance(lead[0], events.Move)
    assert isinstance(lead[0].event, Played)
    follow = sim.wait_for_clock()
    assert isinstance(follow[0], events.Move)
    assert isinstance(follow[0].event, Passed)


def test_two_time_outs_in_a_row_turn_the_trustee_on_until_the_player_turns_it_off() -> None:
    sim = happy_table(1, 2, 3)
    seat = to_play(sim)
    other = (seat + 1) % 3
    for _ in range(2):
        sim.act(seat, next(one for one in sim.legal() if isinstance(one, Play)))
        sim.wait_for_clock()
        sim.wait_for_clock()
    assert sim.table.seats[other].trustee is Trustee.MISSES
    sim.act(seat, next(one for one in sim.legal() if isinstance(one, Play)))
    assert clock(sim.table).deadline_ms - sim.now_ms == 1_000
    sim.act(other, SetTrustee(False))
    assert sim.table.seats[other].trustee is None
    assert clock(sim.table).deadline_ms - sim.now_ms == 20_000
    sim.wait_for_clock()
    assert (sim.table.seats[other].trustee, sim.table.seats[other].misses) == (None, 1), "one is not two in a row"


def test_a_missed_turn_an_own_one_and_a_missed_one_are_not_two_in_a_row() -> None:
    sim = happy_table(1, 2, 3)
    seat = to_play(sim)
    other = (seat + 1) % 3
    for own in (False, True, False):
        sim.act(seat, next(one for one in sim.legal() if isinstance(one, Play)))
        if own:
            sim.act(other, Pass(other))
        else:
            sim.wait_for_clock()
        sim.act((seat + 2) % 3, Pass((seat + 2) % 3))
    assert sim.table.seats[other].trustee is None
    assert sim.table.seats[other].misses == 1


def test_a_reconnect_resets_the_misses() -> None:
    sim = happy_table(1, 2, 3)
    turn = sim.table.hand.turn  # type: ignore[union-attr]
    assert turn is not None
    sim.wait_for_clock()
    assert sim.table.seats[turn].misses == 1
    sim.do(Connect(f"p{turn + 1}", "again"))
    assert sim.table.seats[turn].misses == 0


def test_a_trustee_seat_acts_after_one_second() -> None:
    sim = happy_table(1, 2, 3)
    seat = to_play(sim)
    sim.act(seat, SetTrustee(True))
    assert sim.wait(999) == []
    assert names(sim.wait(1)) == ["Played"]


def test_the_trustee_stays_over_hands_while_the_player_is_there() -> None:
    sim = happy_table(1, 2, 3)
    sim.act(0, SetTrustee(True))
    sim.play_hand()
    sim.wait(7_000)
    assert sim.table.seats[0].trustee is Trustee.CHOICE


def test_nobody_is_taken_into_a_further_hand_while_he_is_away() -> None:
    sim = happy_table(1, 2, 3)
    sim.do(Disconnect("p1", "c0"))
    to_play(sim, but=0)
    while sim.table.phase is not Phase.COUNTDOWN:
        sim.wait_for_clock()
    found = sim.wait(7_000)
    assert names(found)[0] == "SeatLeft"
    assert 0 not in sim.table.seated


def test_hands_do_not_go_on_for_ever_without_people() -> None:
    for sim in (happy_table(1, 2, 3), rob_match(), classic_table(1, 2, 3)):
        for seat in range(3):
            sim.do(Disconnect(f"p{seat + 1}", f"c{seat}"))
        sim.wait(3_600_000)
        assert sim.table.stage is Stage.CLOSED
        assert len(sim.log) < 1_000
        assert sum(sim.balances.values()) <= 90_000


# ---- clocks when nobody was there to see them -----------------------------------------------------------------------


def test_after_an_outage_whoever_is_waited_for_gets_ten_seconds_more() -> None:
    sim = happy_table(1, 2, 3)
    sim.now_ms = clock(sim.table).deadline_ms + 5_001
    assert names(sim.do(commands.Tick())) == ["ClockExtended"]
    assert clock(sim.table).deadline_ms == sim.now_ms + 10_000
    assert names(sim.wait(10_000)) == ["BidMade"]


@pytest.mark.parametrize("phase", [Phase.SEED, Phase.SHOW_WINDOW, Phase.COUNTDOWN])
@pytest.mark.parametrize("dead", [True, False])
def test_after_an_outage_what_waits_for_no_seat_gets_its_own_time_again(phase: Phase, dead: bool) -> None:
    sim = happy_table(1, 2, 3, clocks=SEEDS) if phase is Phase.SEED else rob_match()
    if phase is Phase.COUNTDOWN:
        sim = happy_table(1, 2, 3)
        sim.play_hand()
    assert sim.table.phase is phase
    clocks = sim.table.terms.clocks
    own_ms = {Phase.SEED: clocks.seed_ms, Phase.SHOW_WINDOW: clocks.show_window_ms, Phase.COUNTDOWN: 7_000}[phase]
    assert 0 < own_ms < 10_000
    sim.now_ms = clock(sim.table).deadline_ms + (-1 if dead else 5_001)
    lost = tuple((f"p{number}", f"c{number - 1}") for number in (1, 2, 3))
    assert names(sim.do(commands.Resume(lost) if dead else commands.Tick()))[-1] == "ClockExtended"
    assert clock(sim.table).deadline_ms == sim.now_ms + own_ms
    sim.wait(own_ms)
    assert sim.table.phase is not phase


def test_a_tick_that_comes_too_early_or_twice_does_nothing() -> None:
    sim = happy_table(1, 2, 3)
    assert sim.do(commands.Tick()) == []
    sim.wait_for_clock()
    assert sim.do(commands.Tick()) == []


@pytest.mark.parametrize(
    ("waited_ms", "then_ms"), [(0, 2_000), (900, 2_000), (1_500, 3_000), (5_000, 10_000), (60_000, 120_000)]
)
def test_a_table_that_waits_for_the_ledger_is_looked_at_ever_more_seldom(waited_ms: int, then_ms: int) -> None:
    _, table = opening_match()
    assert table.stage is Stage.OPENING
    assert resume_at_ms(table, None, table.since_ms + waited_ms) == table.since_ms + then_ms


# ---- empty tables ---------------------------------------------------------------------------------------------------


def test_an_empty_table_is_closed_after_a_while() -> None:
    sim = Sim.open(terms("happy"), idle_ms=5_000)
    sim.sit(1)
    sim.do(Leave("p1"))
    assert names(sim.wait(4_999)) == []
    assert names(sim.wait(1)) == ["Closed"]
    assert refusal(sim, commands.Sit(person(2))).reason == "TABLE_CLOSED"


def test_who_sits_down_and_never_comes_loses_the_seat() -> None:
    sim = Sim.open(terms("happy"), idle_ms=5_000)
    sim.sit(1)
    (left, *_) = sim.wait(5_000)
    assert isinstance(left, events.SeatLeft)
    assert left.reason == "TIMED_OUT"


def test_an_observer_who_is_gone_is_forgotten() -> None:
    sim = happy_table(1, 2, 3)
    sim.do(commands.Observe(person(4), 0))
    sim.do(Connect("p4", "o1"))
    sim.do(Disconnect("p4", "o1"))
    sim.wait(60_000)
    assert sim.table.observers == ()


def test_a_late_answer_of_the_ledger_changes_nothing() -> None:
    sim = happy_table(1, 2, 3)
    zero = (0, 0, 0)
    for answer in (
        commands.LedgerOpened("t1-1", (1, 2, 3)),
        commands.LedgerRefused("t1-1", "BELOW_MINIMUM", "p1"),
        commands.LedgerVoided("t1-1"),
        commands.LedgerSettled("t1-1", zero, zero, zero, zero, zero, 0),
        commands.Commit("t1-1", bytes(32)),
    ):
        assert sim.do(answer) == []


def test_a_hand_that_an_operator_voided_goes_on_after_a_countdown() -> None:
    sim = happy_table(1, 2, 3)
    to_play(sim)
    sim.decide(Leave("p1"), 0)
    assert sim.table.phase is Phase.SETTLING
    sim.do(commands.LedgerVoided("t1-1"))
    assert sim.table.phase is Phase.COUNTDOWN  # type: ignore[comparison-overlap]
    assert refusal(sim, commands.Act(1, Pass(1))).reason == "WRONG_PHASE"


def test_a_trustee_plays_with_sense_and_never_raises_the_stakes() -> None:
    sim = happy_table(1, 2, 3)
    to_play(sim)
    for seat in range(3):
        sim.act(seat, SetTrustee(True))
    followed, last = 0, None
    while sim.table.phase is Phase.PLAY:
        for event in (one.event for one in sim.wait_for_clock() if isinstance(one, events.Move)):
            if isinstance(event, Played):
                followed += last is not None
                last = event.seat
            elif isinstance(event, Passed) and sim.table.hand is not None and sim.table.hand.on_table is None:
                last = None
    assert followed > 5


def test_a_trustee_passes_the_auction() -> None:
    sim = classic_table(1, 2, 3)
    for seat in range(3):
        sim.act(seat, SetTrustee(True))
    bids = [one.event for _ in range(3) for one in sim.wait_for_clock() if isinstance(one, events.Move)]
    assert [bid.level for bid in bids if isinstance(bid, BidMade)] == [0, 0, 0]
