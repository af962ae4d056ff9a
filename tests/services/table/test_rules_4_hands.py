"""RULES.md section 4, sentence by sentence: after a hand, leaving, fleeing, clocks, the trustee, connections."""

from __future__ import annotations

import pytest

from doudizhu.hand import Bid, Call, Fled, Pass, Play, Redealing, Rob, Show
from doudizhu.hand import Phase as HandPhase
from services.table import commands, events, hands, life
from services.table.clocks import clock
from services.table.commands import Connect, Disconnect, Leave, SetTrustee
from services.table.table import Phase, Stage, Trustee
from services.table.terms import Clocks
from tests.services.table.sim import Sim, classic_table, happy_table, pass_all, person, rob_match, terms

SEEDS = Clocks(seed_ms=1_000)


def names(found: list[events.Event]) -> list[str]:
    return [type(one.event).__name__ if isinstance(one, events.Move) else type(one).__name__ for one in found]


def to_play(sim: Sim, *, but: int | None = None) -> int:
    """Moves on to the landlord's lead; his seat. `but`: a seat that does nothing by itself."""
    while sim.table.phase is not Phase.PLAY:
        hand = sim.table.hand
        assert hand is not None
        if hand.turn is None or hand.turn == but:
            sim.wait_for_clock()
        else:
            sim.act(hand.turn, towards_play(hand.phase, hand.turn))
    assert sim.table.hand is not None
    assert sim.table.hand.landlord is not None
    return sim.table.hand.landlord


def towards_play(phase: HandPhase, seat: int) -> commands.HandAction:
    """The highest in the bidding or calling, then neither rob nor show."""
    match phase:
        case HandPhase.BID:
            return Bid(seat, 3)
        case HandPhase.CALL:
            return Call(seat, True)
        case HandPhase.ROB:
            return Rob(seat, False)
        case _:
            return Show(seat, False)


# ---- "After each hand" ----------------------------------------------------------------------------------------------


def test_the_settlement_is_shown_and_a_7_second_countdown_starts() -> None:
    sim = classic_table(1, 2, 3)
    sim.play_hand()
    told = [type(one.event).__name__ for one in sim.log]
    assert told[-2:] == ["HandSettled", "CountdownStarted"]
    assert (sim.table.phase, clock(sim.table).deadline_ms - sim.now_ms) == (Phase.COUNTDOWN, 7_000)


def test_classic_counts_down_after_a_redeal_and_the_next_hand_doubles() -> None:
    sim = classic_table(1, 2, 3)
    pass_all(sim)
    assert (sim.table.phase, sim.table.redeals) == (Phase.COUNTDOWN, 1)
    sim.wait(7_000)
    pass_all(sim)
    sim.wait(7_000)
    assert sim.table.hand is not None
    assert (sim.table.hand_number, sim.table.hand.multiplier % 4) == (3, 0)


def test_happy_deals_the_next_hand_at_once_when_all_pass() -> None:
    sim = happy_table(1, 2, 3)
    pass_all(sim)
    assert (sim.table.stage, sim.table.hand_number) == (Stage.HAND, 2)


def test_rob_deals_anew_within_the_hand_until_someone_calls() -> None:
    sim = rob_match()
    sim.wait_for_clock()
    pass_all(sim)
    sim.wait_for_clock()
    pass_all(sim)
    sim.wait_for_clock()
    assert (sim.table.hand_id, [proof.deal_id for proof in sim.table.proofs]) == ("t1-1", ["t1-1", "t1-1.1", "t1-1.2"])
    assert sum(isinstance(one.event, events.Move) and isinstance(one.event.event, Redealing) for one in sim.log) == 2


@pytest.mark.parametrize(("balance", "stays"), [(29, False), (30, True)])
def test_who_is_below_the_minimum_gets_a_named_event_and_is_unseated(balance: int, stays: bool) -> None:
    sim = classic_table(1, 2, 3, base=10, minimum_chips=0)
    landlord = to_play(sim)
    sim.decide(Leave(f"p{landlord + 1}"), 0)
    assert sim.table.stage is Stage.SETTLING
    after = (balance, 10_000, 10_000)
    zero = (0, 0, 0)
    found = sim.do(commands.LedgerSettled(sim.table.hand_id, zero, zero, after, zero, zero, 0))
    below = [one for one in found if isinstance(one, events.SeatLeft) and one.reason == "BELOW_MINIMUM"]
    assert [(one.player_id, one.minimum_chips, one.balance_chips) for one in below] == (
        [] if stays else [("p1", 30, 29)]
    )


def test_who_is_below_the_minimum_is_told_it_also_when_the_setter_of_the_base_is() -> None:
    sim = classic_table(1, 2, 3, base=10, minimum_chips=0)
    to_play(sim)
    sim.decide(Leave("p2"), 0)
    zero = (0, 0, 0)
    found = sim.do(commands.LedgerSettled(sim.table.hand_id, zero, zero, (29, 10_000, 25), zero, zero, 0))
    below = [one for one in found if isinstance(one, events.SeatLeft) and one.reason == "BELOW_MINIMUM"]
    assert [(one.player_id, one.minimum_chips, one.balance_chips) for one in below] == [("p1", 30, 29), ("p3", 30, 25)]


def test_the_next_hand_starts_when_the_countdown_ends_and_all_are_still_seated() -> None:
    sim = happy_table(1, 2, 3)
    sim.play_hand()
    sim.wait(6_999)
    assert sim.table.stage is Stage.COUNTDOWN
    sim.wait(1)
    assert (sim.table.stage, sim.table.hand_number) == (Stage.HAND, 2)


def test_who_leaves_in_the_countdown_leaves_freely() -> None:
    sim = happy_table(1, 2, 3)
    sim.play_hand()
    before = dict(sim.balances)
    assert names(sim.do(Leave("p1"))) == ["SeatLeft"]
    found = sim.wait(7_000)
    assert names(found) == ["CountdownEnded"]
    assert (sim.balances, sim.table.phase) == (before, Phase.SEATING)


def test_a_match_ends_when_somebody_leaves_after_a_hand() -> None:
    sim = rob_match()
    sim.play_hand()
    before = dict(sim.balances)
    assert names(sim.do(Leave("p1"))) == ["SeatLeft", "Closed"]
    assert sim.balances == before


def test_who_sits_down_in_the_countdown_plays_the_next_hand_when_he_has_agreed() -> None:
    sim = classic_table(1, 2, 3)
    sim.play_hand()
    sim.do(Leave("p3"))
    sim.sit(4)
    sim.connect_all()
    sim.act(2, commands.AnswerBase(True))
    sim.wait(7_000)
    assert [one.player_id for one in sim.table.players] == ["p1", "p2", "p4"]


# ---- "Leaving while a hand is live … is a flee" ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("book", "until"),
    [
        ("classic", Phase.BID),
        ("classic", Phase.ROB),
        ("classic", Phase.SHOW),
        ("classic", Phase.PLAY),
        ("happy", Phase.BID),
        ("happy", Phase.PLAY),
        ("rob", Phase.SHOW_WINDOW),
        ("rob", Phase.CALL),
        ("rob", Phase.ROB),
        ("rob", Phase.SHOW),
        ("rob", Phase.PLAY),
    ],
)
def test_leaving_in_every_phase_of_a_live_hand_is_a_flee(book: str, until: Phase) -> None:
    sim = classic_table(1, 2, 3) if book == "classic" else happy_table(1, 2, 3) if book == "happy" else rob_match()
    while sim.table.phase is not until:
        hand = sim.table.hand
        assert hand is not None
        if hand.turn is None:
            sim.wait_for_clock()
        else:
            sim.act(hand.turn, towards_play(hand.phase, hand.turn))
    before = dict(sim.balances)
    assert names(sim.do(Leave("p2"))) == ["Fled"]
    assert sim.balances["p2"] < before["p2"]
    assert sim.table.seat_of("p2") is None


def test_in_a_match_leaving_is_a_flee_from_the_match_on() -> None:
    sim = Sim.open(terms("rob", clocks=SEEDS), person(1), person(2), person(3))
    assert sim.table.phase is Phase.SEED
    assert names(sim.do(Leave("p3"))) == ["Fled"]
    assert sim.balances["p3"] < 10_000


def test_a_flee_while_the_ledger_opens_a_match_counts_once_it_is_open() -> None:
    stamped, table = opening_match()
    sim = Sim(table, stamped)
    sim.balances = {f"p{number}": 10_000 for number in range(1, 4)}
    assert names(sim.decide(Leave("p1"), 0)) == ["LeaveAsked"]
    sim.settle_pending()
    assert sim.balances["p1"] < 10_000
    assert sim.table.stage is Stage.CLOSED


def test_of_two_who_leave_before_the_ledger_has_answered_the_first_flees() -> None:
    _, table = opening_match()
    for seat in (2, 0):
        player_id = table.players[seat].player_id
        _, table = life.decide(table, Leave(player_id), 10, 1)
    _, table = life.decide(table, commands.LedgerOpened(table.hand_id, (1000, 1000, 1000)), 20, 1)
    assert table.last_outcome is not None
    assert table.last_outcome.fled == 2


def test_a_match_is_dealt_again_until_someone_calls_as_long_as_one_plays_himself() -> None:
    sim = rob_match()
    for _ in range(hands.MAX_DEALS + 5):
        while sim.table.phase is not Phase.CALL:
            sim.wait_for_clock()
        pass_all(sim)
    assert sim.table.hand is not None
    assert (sim.table.hand.deals, sim.table.hand.voided) == (hands.MAX_DEALS + 6, False)
    assert sim.table.hand_number == 1


def test_a_match_in_which_nobody_ever_calls_has_an_end() -> None:
    sim = rob_match()
    while not any(isinstance(one.event, events.HandVoided) for one in sim.log):
        while sim.table.phase is not Phase.CALL:
            sim.wait_for_clock()
        assert sim.table.hand is not None
        assert sim.table.hand.deals <= hands.MOST_DEALS
        pass_all(sim)
    assert sim.table.hand_number == 2  # the match goes on


def test_happy_counts_down_now_and_then_when_nobody_ever_bids() -> None:
    sim = happy_table(1, 2, 3)
    sim.play_hand()
    assert sim.table.last_result is not None  # it is settled, and does not count
    sim.wait(7_000)
    counted = []
    for number in range(1, 2 * hands.HANDS_AT_ONCE + 2):
        pass_all(sim)
        if sim.table.stage is Stage.COUNTDOWN:
            counted.append(number)
            sim.wait(7_000)
    assert counted == [hands.HANDS_AT_ONCE, 2 * hands.HANDS_AT_ONCE]


def test_where_the_trustee_plays_for_all_three_dealing_again_has_an_end() -> None:
    sim = rob_match()
    for number in range(3):
        sim.act(number, SetTrustee(True))
    while not any(isinstance(one.event, events.HandVoided) for one in sim.log):
        sim.wait_for_clock()
        assert sim.table.hand is not None
        assert sim.table.hand.deals <= hands.MAX_DEALS


@pytest.mark.parametrize("late_ms", [-4_000, 1_000])
def test_who_is_waited_for_gets_10_seconds_when_nobody_could_act(late_ms: int) -> None:
    sim = happy_table(1, 2, 3)
    deadline = clock(sim.table).deadline_ms
    sim.now_ms = deadline + late_ms
    dead = (("p1", "c0"), ("p2", "c1"), ("p3", "c2"))
    told = sim.do(commands.Resume(dead))
    assert isinstance(told[-1], events.ClockExtended)
    assert clock(sim.table).deadline_ms == sim.now_ms + 10_000
    assert not any(seat.connection for seat in sim.table.seats)
    assert sim.do(commands.Resume(dead)) == []
    assert sim.do(commands.Tick()) == []


def test_who_has_more_time_left_gets_none() -> None:
    sim = happy_table(1, 2, 3, clocks=Clocks(seed_ms=0, auction_ms=60_000))
    assert sim.do(commands.Resume()) == []


def opening_match() -> life.Decision:
    persons = (person(1), person(2), person(3))
    return life.open_table("t1", terms("rob"), persons, idle_ms=60_000, now_ms=1_000_000, draw=0)


def test_before_the_deal_leaving_is_free_where_seats_are_by_choice() -> None:
    sim = happy_table(1, 2, 3, clocks=SEEDS)
    assert sim.table.phase is Phase.SEED
    assert names(sim.do(Leave("p3"))) == ["LeaveAsked", "HandVoided"]
    assert (sim.balances["p3"], sim.table.seated) == (10_000, (0, 1))


def test_leaving_after_the_last_card_changes_nothing_of_the_result() -> None:
    sim = happy_table(1, 2, 3)
    to_play(sim)
    while sim.table.stage is Stage.HAND:
        hand = sim.table.hand
        assert hand is not None
        assert hand.turn is not None
        legal = [one for one in sim.legal() if isinstance(one, Play)]
        action = max(legal, key=lambda one: len(one.cards)) if legal else Pass(hand.turn)
        sim.decide(commands.Act(hand.turn, action), 0)
    assert sim.table.stage is Stage.SETTLING
    assert sim.table.last_outcome is not None
    assert sim.table.last_outcome.fled is None
    assert names(sim.decide(Leave("p1"), 0)) == ["LeaveAsked"]
    sim.settle_pending()
    assert sim.table.seat_of("p1") is None
    assert sim.table.last_outcome.fled is None


@pytest.mark.parametrize(("after_ms", "elapsed_s"), [(59_999, 59), (60_000, 60)])
def test_a_flee_tells_the_whole_seconds_since_the_deal(after_ms: int, elapsed_s: int) -> None:
    long = Clocks(auction_ms=1_000_000, seed_ms=0)
    sim = happy_table(1, 2, 3, clocks=long)
    sim.now_ms += after_ms
    sim.do(Leave("p1"))
    assert sim.table.last_outcome is not None
    assert sim.table.last_outcome.elapsed_s == elapsed_s


# ---- "Losing the connection is not" ---------------------------------------------------------------------------------


def test_a_lost_connection_gives_the_seat_to_the_trustee_until_the_player_is_back() -> None:
    sim = happy_table(1, 2, 3)
    assert names(sim.do(Disconnect("p1", "c0"))) == ["PresenceSet", "TrusteeSet"]
    assert sim.table.seats[0].trustee is Trustee.AWAY
    assert names(sim.do(Connect("p1", "c9"))) == ["PresenceSet", "TrusteeSet"]
    assert sim.table.seats[0].trustee is None


def test_an_own_action_ends_the_trusteeship_of_the_absent() -> None:
    sim = happy_table(1, 2, 3)
    seat = to_play(sim)
    sim.do(Disconnect(f"p{seat + 1}", f"c{seat}"))
    assert sim.table.seats[seat].trustee is Trustee.AWAY
    sim.act(seat, sim.legal()[0])  # type: ignore[arg-type]
    assert sim.table.seats[seat].trustee is None


def test_the_close_of_a_stale_connection_changes_nothing() -> None:
    sim = happy_table(1, 2, 3)
    sim.do(Connect("p1", "c9"))
    assert sim.do(Disconnect("p1", "c0")) == []
    assert sim.table.seats[0].connection == "c9"


def test_a_room_may_set_a_limit_after_which_it_is_a_flee() -> None:
    sim = happy_table(1, 2, 3, clocks=Clocks(away_ms=5_000, seed_ms=0))
    landlord = to_play(sim)
    away = (landlord + 1) % 3
    sim.do(Disconnect(f"p{away + 1}", f"c{away}"))
    found = sim.wait(5_000)
    assert any(isinstance(one, events.Move) and isinstance(one.event, Fled) for one in found)


def test_without_a_limit_it_is_never_a_flee() -> None:
    sim = happy_table(1, 2, 3)
    for seat in range(3):
        sim.do(Disconnect(f"p{seat + 1}", f"c{seat}"))
    sim.wait(600_000)
    assert not any(isinstance(one.event, events.Move) and isinstance(one.event.event, Fled) for one in sim.log)
