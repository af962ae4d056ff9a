"""RULES.md section 4, sentence by sentence: seats, observers, the base, agreement, readiness, the start of a hand."""

from __future__ import annotations

import pytest

from doudizhu import Malformed, Refusal
from services.table import commands, events
from services.table.clocks import clock
from services.table.commands import AnswerBase, Observe, Ready, SetBase, Sit
from services.table.table import Phase, Stage
from services.table.terms import Person
from services.table.views import viewer
from tests.services.table.sim import Sim, classic_table, happy_table, person, refusal, rob_match, terms


def names(found: list[events.Event]) -> list[str]:
    return [type(one).__name__ for one in found]


# ---- "Three seats." -------------------------------------------------------------------------------------------------


def test_three_seats_are_given_in_order_and_the_fourth_person_gets_none() -> None:
    sim = Sim.open(terms("happy"))
    for number in (1, 2, 3):
        sim.sit(number)
    assert [sim.table.seat_of(f"p{number}") for number in (1, 2, 3)] == [0, 1, 2]
    assert refusal(sim, Sit(person(4))).reason == "ROOM_FULL"


def test_a_seat_may_be_chosen_and_a_taken_one_is_refused() -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1, seat=2)
    assert sim.table.seat_of("p1") == 2
    assert refusal(sim, Sit(person(2), 2)).reason == "SEAT_TAKEN"


def test_sitting_twice_is_one_seat() -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1)
    assert sim.sit(1, seat=2) == []
    assert sim.table.seated == (0,)


# ---- "A fourth person joins as an observer of one seat (he picks a player at that table)." --------------------------


def test_a_fourth_person_observes_one_seat() -> None:
    sim = happy_table(1, 2, 3)
    assert names(sim.do(Observe(person(4), 1))) == ["ObserverJoined"]
    assert viewer(sim.table, "p4").seat == 1


def test_he_may_pick_another_seat() -> None:
    sim = happy_table(1, 2, 3)
    sim.do(Observe(person(4), 1))
    sim.do(Observe(person(4), 2))
    assert viewer(sim.table, "p4").seat == 2
    assert len(sim.table.observers) == 1


def test_an_empty_seat_cannot_be_observed_nor_may_a_player_observe() -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1)
    assert refusal(sim, Observe(person(2), 1)).reason == "NOT_FOUND"
    assert refusal(sim, Observe(person(1), 0)).reason == "ALREADY_SEATED"


def test_an_observer_sees_his_seats_cards_only_by_leave_and_the_leave_can_be_taken_back() -> None:
    sim = happy_table(1, 2, 3)
    sim.do(Observe(person(4), 1))
    assert viewer(sim.table, "p4").sees is None
    sim.act(1, commands.AllowObservers(True))
    assert viewer(sim.table, "p4").sees == 1
    sim.act(1, commands.AllowObservers(False))
    assert viewer(sim.table, "p4").sees is None


def test_the_leave_does_not_pass_to_the_next_player_of_the_seat() -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1)
    sim.do(Observe(person(4), 0))
    sim.act(0, commands.AllowObservers(True))
    sim.do(commands.Leave("p1"))
    sim.sit(2, seat=0)
    assert viewer(sim.table, "p4").sees is None


def test_several_observers_may_watch_one_seat() -> None:
    sim = happy_table(1, 2, 3)
    for number in (4, 5, 6):
        sim.do(Observe(person(number), 0))
    assert [observer.seat for observer in sim.table.observers] == [0, 0, 0]


# ---- "classic, base by agreement" -----------------------------------------------------------------------------------


def test_the_first_to_sit_sets_the_base() -> None:
    sim = Sim.open(terms("classic"))
    assert names(sim.sit(1, seat=2)) == ["SeatTaken", "BaseAsked"]
    assert (sim.table.phase, sim.table.base_setter) == (Phase.BASE, 2)
    sim.sit(2)
    assert refusal(sim, commands.Act(0, SetBase(5))).reason == "WRONG_PHASE"


@pytest.mark.parametrize("base", [0, 101])
def test_the_base_keeps_within_the_rooms_bounds(base: int) -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    assert refusal(sim, commands.Act(0, SetBase(base))).reason == "BASE_OUT_OF_BOUNDS"


def test_the_others_seated_and_everyone_who_sits_later_are_asked_to_agree() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.connect_all()
    sim.act(0, SetBase(10))
    assert (sim.table.phase, sim.table.seats[1].agreed) == (Phase.AGREE, False)
    sim.act(1, AnswerBase(True))
    sim.sit(3)
    assert (sim.table.phase, sim.table.seats[2].agreed) == (Phase.AGREE, False)
    sim.act(2, AnswerBase(True))
    assert sim.table.stage is Stage.HAND


def test_who_disagrees_leaves_the_table() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.act(0, SetBase(10))
    found = sim.act(1, AnswerBase(False))
    assert isinstance(found[1], events.SeatLeft)
    assert (found[1].seat, found[1].reason) == (1, "BASE_DISAGREED")
    assert sim.table.seated == (0,)


@pytest.mark.parametrize("draw", range(4))
def test_when_the_setter_leaves_before_setting_one_other_seated_player_at_random_is_asked(draw: int) -> None:
    sim = Sim.open(terms("classic"))
    for number in (1, 2, 3):
        sim.sit(number)
    sim.do(commands.Leave("p1"), draw=draw)
    assert sim.table.base_setter == (1, 2)[draw % 2]


def test_the_base_cannot_change_until_the_setter_leaves_then_it_is_reset_and_another_is_asked() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.act(0, SetBase(10))
    sim.act(1, AnswerBase(True))
    assert refusal(sim, commands.Act(0, SetBase(20))).reason == "WRONG_PHASE"
    assert refusal(sim, commands.Act(1, SetBase(20))).reason == "WRONG_PHASE"
    assert names(sim.do(commands.Leave("p1"))) == ["SeatLeft", "BaseReset", "BaseAsked"]
    assert (sim.table.base, sim.table.base_setter) == (0, 1)
    sim.act(1, SetBase(20))
    assert sim.table.base == 20


def test_the_base_carries_over_from_hand_to_hand() -> None:
    sim = classic_table(1, 2, 3, base=7)
    sim.play_hand()
    sim.wait(7_000)
    assert (sim.table.base, sim.table.hand_number) == (7, 2)


def test_no_answer_in_time_is_a_disagreement() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.connect_all()
    sim.act(0, SetBase(10))
    assert sim.wait(14_999) == []
    (left,) = sim.wait(1)
    assert isinstance(left, events.SeatLeft)
    assert (left.seat, left.reason) == (1, "TIMED_OUT")


def test_each_answer_has_a_clock_of_its_own() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.connect_all()
    sim.act(0, SetBase(10))
    sim.wait(10_000)
    sim.sit(3)
    sim.connect_all()
    assert [left.seat for left in sim.wait(5_000) if isinstance(left, events.SeatLeft)] == [1]
    assert sim.table.seated == (0, 2)


def test_a_setter_who_does_not_set_in_time_loses_the_seat() -> None:
    sim = Sim.open(terms("classic"))
    sim.sit(1)
    sim.sit(2)
    sim.connect_all()
    assert clock(sim.table).deadline_ms == sim.now_ms + 30_000
    found = sim.wait(30_000)
    assert names(found) == ["SeatLeft", "BaseAsked"]
    assert sim.table.base_setter == 1


def test_equal_bounds_need_no_agreement() -> None:
    sim = Sim.open(terms("classic", base_min_chips=5, base_max_chips=5))
    for number in (1, 2, 3):
        sim.sit(number)
    assert (sim.table.stage, sim.table.base) == (Stage.HAND, 5)


# ---- "A hand starts when three are seated, each has at least the room's minimum" ------------------------------------


def test_classic_asks_for_three_bases() -> None:
    sim = classic_table(1, 2, base=100)
    sim.balances["p3"] = 299
    sim.sit(3)
    sim.act(2, AnswerBase(True))
    left = next(one.event for one in sim.log if isinstance(one.event, events.SeatLeft))
    assert (left.reason, left.minimum_chips, left.balance_chips) == ("BELOW_MINIMUM", 300, 299)
    assert sim.table.seated == (0, 1)


def test_three_bases_are_enough() -> None:
    sim = classic_table(1, 2, base=100)
    sim.balances["p3"] = 300
    sim.sit(3)
    sim.act(2, AnswerBase(True))
    assert sim.table.stage is Stage.HAND


def test_classic_starts_when_all_have_agreed() -> None:
    assert classic_table(1, 2, 3).table.stage is Stage.HAND


def test_happy_starts_when_all_three_are_ready() -> None:
    sim = Sim.open(terms("happy"))
    for number in (1, 2, 3):
        sim.sit(number)
    assert sim.table.phase is Phase.READY
    for seat in (0, 1):
        sim.act(seat, Ready(True))
    assert sim.table.phase is Phase.READY
    sim.act(2, Ready(True))
    assert sim.table.stage is Stage.HAND


def test_ready_can_be_taken_back_and_belongs_to_the_person() -> None:
    sim = Sim.open(terms("happy"))
    for number in (1, 2, 3):
        sim.sit(number)
    sim.act(0, Ready(True))
    sim.act(0, Ready(False))
    sim.act(1, Ready(True))
    sim.do(commands.Leave("p2"))
    sim.sit(4)
    assert [seat.ready for seat in sim.table.seats] == [False, False, False]


def test_nobody_is_asked_to_be_ready_where_hands_start_by_themselves() -> None:
    sim = classic_table(1, 2)
    assert refusal(sim, commands.Act(0, Ready(True))).reason == "WRONG_PHASE"


def test_in_rob_matched_players_are_seated_and_the_hand_starts_by_itself() -> None:
    sim = rob_match()
    assert (sim.table.seated, sim.table.stage) == ((0, 1, 2), Stage.HAND)


def test_a_match_takes_three_different_players_and_nobody_else() -> None:
    for persons in ((person(1), person(2)), (person(1), person(1), person(2))):
        with pytest.raises(Malformed):
            Sim.open(terms("rob"), *persons)
    sim = rob_match()
    assert refusal(sim, Sit(person(4))).reason == "ROOM_FULL"


def test_who_is_in_a_hand_elsewhere_is_not_taken_into_this_one() -> None:
    sim = Sim.open(terms("happy"))
    for number in (1, 2, 3):
        sim.sit(number)
    sim.connect_all()
    sim.act(0, Ready(True))
    sim.act(1, Ready(True))
    sim.decide(commands.Act(2, Ready(True)), 0)
    sim.do(commands.LedgerRefused(sim.table.hand_id, "PLAYER_IN_HAND", "p2"))
    left = next(one.event for one in sim.log if isinstance(one.event, events.SeatLeft))
    assert (left.seat, left.reason) == (1, "PLAYER_IN_HAND")
    assert sim.table.phase is Phase.SEATING


@pytest.mark.parametrize("reason", ["LIMIT_REACHED", "HAND_OVER"])
def test_a_refusal_that_is_nobodys_fault_is_tried_again_as_the_next_hand(reason: str) -> None:
    sim = Sim.open(terms("happy"))
    for number in (1, 2, 3):
        sim.sit(number)
    sim.connect_all()
    sim.act(0, Ready(True))
    sim.act(1, Ready(True))
    sim.decide(commands.Act(2, Ready(True)), 0)
    sim.do(commands.LedgerRefused(sim.table.hand_id, reason))
    assert sim.table.stage is Stage.COUNTDOWN
    sim.wait(7_000)
    assert (sim.table.stage, sim.table.hand_number) == (Stage.HAND, 2)


# ---- terms that cannot be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"book_id": "poker"},
        {"base_min_chips": 5, "base_max_chips": 4},
        {"base_max_chips": 2**62},
        {"book_fields_json": '{"spring_factor": 0}'},
        {"book_fields_json": "["},
    ],
)
def test_terms_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Refusal):
        Sim.open(terms("happy", **changes))


def test_a_room_may_override_fields_of_its_book() -> None:
    sim = Sim.open(terms("happy", book_fields_json='{"early_flee_s": 5}'))
    assert sim.table.book.early_flee_s == 5


def test_the_same_account_is_one_person_whatever_he_is_called() -> None:
    sim = Sim.open(terms("happy"))
    sim.sit(1)
    assert sim.do(Sit(Person("p1", "another name"))) == []
