"""Play, springs, bombs, flee and the end of a hand; and what holds for every hand of every book."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given

from doudizhu import (
    BOOKS,
    CLASSIC,
    HAPPY,
    ROB,
    Hand,
    Outcome,
    Phase,
    Reason,
    Refusal,
    RuleBook,
    Side,
    decide,
    default_action,
    legal_actions,
    outcome,
    override,
    start,
    view,
)
from doudizhu.hand import (
    Action,
    Bid,
    Choice,
    DealCards,
    Factor,
    Fled,
    Flee,
    Pass,
    Play,
    Played,
    Won,
)
from tests.rules.build import apply, cards, deal_for, dealt, play_of, playing, put_down
from tests.rules.strategies import WholeHand, whole_hands


def refusal(hand: Hand, action: Action) -> Refusal:
    with pytest.raises(Refusal) as refused:
        decide(hand, action)
    return refused.value


# ---- play (section 8) ---------------------------------------------------------------------------------------------


def test_8_two_passes_end_the_trick_and_the_last_to_play_leads() -> None:
    hand = playing(HAPPY, "3344", "5566", "7788")
    hand = put_down(hand, 0, "33")
    hand = put_down(hand, 1, "55")
    hand = put_down(hand, 2, "")
    assert (hand.turn, hand.passes) == (0, 1)
    hand = put_down(hand, 0, "")
    assert (hand.turn, hand.on_table, hand.passes) == (1, None, 0)
    assert refusal(hand, Pass(1)).reason == Reason.INVALID_PASS


def test_br_065_a_seat_that_passed_does_not_play_out_of_turn() -> None:
    hand = put_down(put_down(playing(HAPPY, "34", "56", "78"), 0, "3"), 1, "")
    assert refusal(hand, play_of(hand, 1, "5")).reason == Reason.NOT_YOUR_TURN


def test_br_067_an_action_before_its_turn_is_refused() -> None:
    hand = playing(HAPPY, "34", "56", "78")
    assert refusal(hand, play_of(hand, 2, "7")).reason == Reason.NOT_YOUR_TURN


def test_br_068_a_leader_may_not_pass() -> None:
    assert refusal(playing(HAPPY, "34", "56", "78"), Pass(0)).reason == Reason.INVALID_PASS


def test_br_070_the_last_card_ends_the_hand_at_once() -> None:
    hand = playing(HAPPY, "3", "56", "78", combos_by_seat=(4, 1, 1))
    events = decide(hand, play_of(hand, 0, "3"))
    assert [type(event) for event in events] == [Played, Won]
    over = put_down(hand, 0, "3")
    assert refusal(over, play_of(hand, 1, "5")).reason == Reason.HAND_OVER
    assert legal_actions(over, 1) == ()


@pytest.mark.parametrize(
    ("cards_", "reason"),
    [
        ((0, 4), Reason.ILLEGAL_COMBO),
        ((), Reason.ILLEGAL_COMBO),
        ((54,), Reason.MALFORMED),
        ((-1,), Reason.MALFORMED),
        ((2**40,), Reason.MALFORMED),
        ((0, 0), Reason.DUPLICATE_CARD),
        ((53,), Reason.CARD_NOT_HELD),
        ((0, 1, 2, 3, 4), Reason.CARD_NOT_HELD),
    ],
)
def test_8_what_is_no_play_is_refused_with_its_reason(cards_: tuple[int, ...], reason: Reason) -> None:
    hand = playing(ROB, "345", "56", "78")
    before = copy.deepcopy(hand)
    assert refusal(hand, Play(0, cards_)).reason == reason
    assert hand == before


def test_8_a_follow_must_beat() -> None:
    hand = put_down(playing(ROB, "99T", "88J", "55"), 0, "99")
    assert refusal(hand, play_of(hand, 1, "88")).reason == Reason.DOES_NOT_BEAT


def test_d_02_a_lead_names_its_reading_and_a_follow_takes_the_highest() -> None:
    ranks = "333444555666"
    hand = playing(ROB, ranks + "7", "777888999TTJK", "KA")
    play = play_of(hand, 0, ranks)
    assert decide(hand, play)[0].combo.type == "trio_straight"  # type: ignore[union-attr]
    named = Play(0, play.cards, "airplane_singles", 2)
    assert decide(hand, named)[0].combo.rank == 2  # type: ignore[union-attr]
    assert refusal(hand, Play(0, play.cards, "airplane_pairs")).reason == Reason.AMBIGUOUS_COMBO
    after = apply(hand, named)
    follow = play_of(after, 1, "777888999TTJ")
    assert decide(after, follow)[0].combo.type == "airplane_singles"  # type: ignore[union-attr]
    misnamed = Play(1, follow.cards, "trio_straight")
    assert refusal(after, misnamed).reason == Reason.AMBIGUOUS_COMBO


# ---- multiplier (section 9) ---------------------------------------------------------------------------------------


def test_9_spring() -> None:
    over = put_down(playing(ROB, "3", "56", "78"), 0, "3")
    assert (over.winner, over.factors) == (Side.LANDLORD, ((Factor.SPRING, 2),))


def test_br_046_anti_spring_when_the_landlord_put_down_one_combo() -> None:
    hand = playing(HAPPY, "49", "5", "7Q", turn=1, combos_by_seat=(1, 2, 1))
    over = put_down(hand, 1, "5")
    assert (over.winner, over.factors) == (Side.FARMERS, ((Factor.ANTI_SPRING, 2),))


def test_9_no_spring_once_a_farmer_played_nor_after_a_second_combo() -> None:
    assert put_down(playing(ROB, "3", "56", "78", combos_by_seat=(5, 0, 1)), 0, "3").multiplier == 1
    assert put_down(playing(ROB, "39", "5", "78", turn=1, combos_by_seat=(2, 0, 1)), 1, "5").multiplier == 1


def test_br_047_spring_is_two_and_the_bottom_multiplies_nothing() -> None:
    assert ROB.spring_factor == ROB.anti_spring_factor == HAPPY.spring_factor == 2
    assert put_down(playing(HAPPY, "3", "56", "78"), 0, "3").multiplier == 2


def test_br_048_a_last_bomb_and_a_spring_both_count() -> None:
    over = put_down(playing(ROB, "2222", "56", "78", combos_by_seat=(4, 0, 0)), 0, "2222")
    assert over.factors == ((Factor.BOMB, 2), (Factor.SPRING, 2))
    assert over.multiplier == 4


def test_br_051_every_bomb_and_rocket_doubles_and_none_in_classic() -> None:
    for book, expected in ((HAPPY, 4), (ROB, 4), (CLASSIC, 1)):
        hand = playing(book, "33334", "xX5", "78")
        hand = put_down(hand, 0, "3333")
        hand = put_down(hand, 1, "xX")
        assert hand.multiplier == expected
        assert hand.bombs_by_seat == (1, 1, 0)


def test_9_classic_has_no_spring() -> None:
    won = decide(playing(CLASSIC, "3", "56", "78"), Play(0, cards("3")[0]))[-1]
    assert isinstance(won, Won)
    assert (won.spring, won.factor, won.multiplier) == (None, 1, 1)


def test_s4s_own_example_from_robs_to_sixteen() -> None:
    factors = ((Factor.ROB, 4),)
    hand = playing(ROB, "33334", "56", "78", factors=factors)
    hand = put_down(put_down(put_down(hand, 0, "3333"), 1, ""), 2, "")
    over = put_down(hand, 0, "4")
    assert over.multiplier == 16
    assert outcome(over) == Outcome(Side.LANDLORD, 0, 1, 16)


# ---- bomb allowance (S0 1.6.1) ------------------------------------------------------------------------------------


def test_3_bomb_allowance_by_the_farmers_bid() -> None:
    book = override(CLASSIC, {"bomb_allowance": [2, 0, 1, None]})
    choices = (Choice.THREE, Choice.PASS, Choice.ONE)
    hand = playing(book, "3444455556", "7777T", "88889999T", choices=choices)
    hand = put_down(hand, 0, "3")
    assert refusal(hand, play_of(hand, 1, "7777")).reason == Reason.BOMB_LIMIT
    assert not any(isinstance(action, Play) and len(action.cards) == 4 for action in legal_actions(hand, 1))
    hand = put_down(put_down(put_down(hand, 1, ""), 2, "8888"), 0, "")
    hand = put_down(hand, 1, "")
    assert refusal(hand, play_of(hand, 2, "9999")).reason == Reason.BOMB_LIMIT
    leads = legal_actions(hand, 2)
    assert {len(action.cards) for action in leads if isinstance(action, Play)} == {1, 2, 3, 4}  # trio and a single
    landlords = playing(book, "444455556", "7", "8", choices=choices)
    assert put_down(landlords, 0, "4444").bombs_by_seat == (1, 0, 0)


def test_3_an_expired_lead_keeps_to_the_allowance() -> None:
    book = override(CLASSIC, {"bomb_allowance": [0, 0, 0, 0]})
    hand = playing(book, "3", "7777", "8", turn=1, choices=(Choice.THREE, None, None))
    assert default_action(hand) == Play(1, hand.held(1)[:1])


# ---- default actions (section 4) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "lead"),
    [("3", "3"), ("334455", "334455"), ("3345", "33"), ("33334", "4"), ("33335566", "33335566"), ("4445678", "444")],
)
def test_4_an_expired_lead_is_the_weakest(held: str, lead: str) -> None:
    hand = playing(ROB, held, "TT", "JJ")
    assert default_action(hand) == play_of(hand, 0, lead)


@given(whole_hands())
def test_4_the_default_is_legal_and_the_same_on_the_seats_own_view(whole: WholeHand) -> None:
    for hand in whole.states:
        if hand.phase in (Phase.AWAIT_DEAL, Phase.OVER):
            continue
        action = default_action(hand)
        decide(hand, action)
        assert default_action(view(hand, hand.turn)) == action


# ---- flee (section 10) --------------------------------------------------------------------------------------------


def test_10_rob_counts_bombs_and_rockets_still_whole_in_any_hand() -> None:
    hand = playing(ROB, "33335", "4444678", "5xX", factors=((Factor.ROB, 2), (Factor.BOMB, 3)))
    assert decide(hand, Flee(1, 100)) == (Fled(1, 100, 48),)
    over = apply(hand, Flee(1, 100))
    assert over.factors == ((Factor.ROB, 2), (Factor.BOMB, 3), (Factor.FLEE_BOMBS, 8))
    assert outcome(over) == Outcome(None, 0, 1, 48, fled=1, flee_multiplier=48, elapsed_s=100)


@pytest.mark.parametrize(("seat", "expected"), [(0, 8), (1, 2), (2, 2)])
def test_10_br_054_in_classic_only_a_landlord_pays_the_robs(seat: int, expected: int) -> None:
    factors = ((Factor.ROB, 4), (Factor.SHOW, 2))
    over = apply(playing(CLASSIC, "3333", "44", "55", level=3, factors=factors), Flee(seat, 10))
    assert over.flee_multiplier == over.multiplier == expected


def test_10_a_flee_while_robbing_in_classic_leaves_the_robs_out() -> None:
    hand = apply(dealt(CLASSIC, first_seat=0), Bid(0, 3))
    robbed = apply(hand, next(action for action in legal_actions(hand, 1) if getattr(action, "rob", False)))
    base = hand.multiplier
    over = apply(robbed, Flee(0, 10))
    assert robbed.multiplier == 2 * base
    assert outcome(over) == Outcome(None, None, 3, base, fled=0, flee_multiplier=base, elapsed_s=10)


def test_10_before_a_landlord_the_three_hands_count_and_not_the_bottom() -> None:
    *_, bottom = cards("33335", "999", "5", "9xX")
    hand = replace(playing(ROB, "33335", "999", "5"), phase=Phase.CALL, landlord=None, level=0, bottom=bottom)
    assert apply(hand, Flee(2, 1)).flee_multiplier == 2


def test_4_from_the_match_on_leaving_before_the_deal_is_a_flee() -> None:
    over = apply(start(ROB, initial_multiplier=6), Flee(2, 0))
    assert outcome(over) == Outcome(None, None, 0, 6, fled=2, flee_multiplier=6)


def test_flee_is_refused_after_the_end_and_for_no_seat() -> None:
    over = apply(start(ROB), Flee(2, 0))
    assert refusal(over, Flee(1, 0)).reason == Reason.HAND_OVER
    assert refusal(start(ROB), Flee(3, 0)).reason == Reason.MALFORMED
    assert refusal(start(ROB), Flee(0, -1)).reason == Reason.MALFORMED


# ---- the deal -----------------------------------------------------------------------------------------------------


def test_a_deal_comes_once_and_a_wrong_one_is_our_own_bug() -> None:
    deal = deal_for(HAPPY)
    assert refusal(dealt(HAPPY), DealCards(deal)).reason == Reason.WRONG_PHASE
    with pytest.raises(AssertionError):
        decide(start(CLASSIC), DealCards(deal))


# ---- no landlord --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
def test_br_034_everything_accepts_a_hand_without_a_landlord(book: RuleBook) -> None:
    hand = dealt(book, first_seat=0)
    while hand.landlord is None and hand.phase not in (Phase.OVER, Phase.AWAIT_DEAL):
        hand = apply(hand, default_action(hand))
    assert hand.landlord is None
    for viewer in (None, 0, 1, 2):
        seen = view(hand, viewer)
        assert "landlord=None" in repr(seen)
        assert seen.multiplier >= 1
    assert [legal_actions(hand, seat) for seat in range(3)] == [(), (), ()]
