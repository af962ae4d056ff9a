"""What holds for every hand of every book, at every moment."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from doudizhu import (
    BOOKS,
    CLASSIC,
    Hand,
    Phase,
    Reason,
    Side,
    decide,
    default_action,
    evolve,
    greatest_multiplier,
    legal_actions,
    outcome,
    view,
)
from doudizhu.cards import DECK
from doudizhu.hand import (
    Action,
    Bid,
    DealCards,
    Dealt,
    Flee,
    LandlordSet,
    Play,
    Played,
    Redealing,
    RobMade,
    Show,
    Shown,
    Voided,
    Won,
)
from doudizhu.packed import pack_cards
from tests.rules.build import apply, dealt
from tests.rules.strategies import WholeHand, moments, universe, whole_hands
from tests.rules.test_decider import refusal

# ---- what always holds --------------------------------------------------------------------------------------------


def seen_cards(whole: WholeHand) -> Iterator[list[int]]:
    """All cards of the hand after each event: held, in the bottom, or put down."""
    hand = whole.states[0]
    put_down_: list[int] = []
    for event in whole.log:
        hand = evolve(hand, event)
        if isinstance(event, Dealt):
            put_down_ = []
        if isinstance(event, Played):
            put_down_ += event.combo.cards
        if hand.phase is not Phase.AWAIT_DEAL:
            bottom = () if hand.landlord is not None else hand.bottom
            assert bottom is not None
            yield [*hand.held(0), *hand.held(1), *hand.held(2), *bottom, *put_down_]
            assert hand.counts == tuple(len(hand.held(seat)) for seat in range(3))


@given(whole_hands())
def test_54_distinct_cards_at_every_moment(whole: WholeHand) -> None:
    for together in seen_cards(whole):
        assert sorted(together) == list(DECK)


@given(whole_hands())
def test_the_log_rebuilds_every_state(whole: WholeHand) -> None:
    hand = whole.states[0]
    for events, following in zip(whole.events, whole.states[1:], strict=True):
        for event in events:
            hand = evolve(hand, event)
        assert hand == following


@given(whole_hands())
def test_a_hand_ends_and_its_outcome_agrees_with_its_log(whole: WholeHand) -> None:
    last, end = whole.log[-1], whole.states[-1]
    assert end.phase is Phase.OVER
    assert end.turn is None
    product = end.multiplier
    assert product <= greatest_multiplier(end.book, end.initial_multiplier)
    if isinstance(last, Voided):
        assert end.voided
        assert end.landlord is None
        return
    assert isinstance(last, Won)
    assert last.multiplier == product
    assert end.counts[last.seat] == 0
    result = outcome(end)
    assert (result.winner is Side.LANDLORD) == (last.seat == result.landlord)
    assert result.level in (1, 2, 3)


@given(whole_hands())
def test_events_that_multiply_show_the_product(whole: WholeHand) -> None:
    hand = whole.states[0]
    for event in whole.log:
        before, hand = hand.multiplier, evolve(hand, event)
        if isinstance(event, Dealt):
            assert event.multiplier == hand.multiplier
        elif isinstance(event, RobMade | Shown | Played | Won):
            assert event.multiplier == before * event.factor == hand.multiplier
        elif not isinstance(event, Redealing):
            assert hand.multiplier == before
        assert all(value > 1 for _, value in hand.factors)


@settings(max_examples=60)
@given(moments(), st.integers(0, 2**32))
def test_every_legal_action_is_accepted_and_every_other_refused(hand: Hand, number: int) -> None:
    legal = {seat: legal_actions(hand, seat) for seat in range(3)}
    for action in (action for actions in legal.values() for action in actions):
        decide(hand, action)
    before = copy.deepcopy(hand)
    for action in universe(hand, random.Random(number)):
        if is_legal(hand, action, legal):
            assert decide(hand, action)
        else:
            refused = refusal(hand, action)
            assert isinstance(refused.reason, Reason)
            assert refused.message
    assert hand == before


def is_legal(hand: Hand, action: Action, legal: dict[int, tuple[Action, ...]]) -> bool:
    """Whether an action is one of the legal ones, where suits do not matter and a lead may leave its reading out."""
    if isinstance(action, Flee):
        return action.seat in legal and action.elapsed_s >= 0 and hand.phase is not Phase.OVER
    if isinstance(action, DealCards):
        return hand.phase is Phase.AWAIT_DEAL
    seat = getattr(action, "seat", None)
    if seat is None:
        return hand.phase is Phase.SHOW_WINDOW
    if not isinstance(action, Play):
        return action in legal.get(seat, ())
    if not set(action.cards) <= set(DECK) or len(set(action.cards)) != len(action.cards) or seat not in legal:
        return False
    if not set(action.cards) <= set(hand.held(seat)):
        return False
    for known in legal[seat]:
        if isinstance(known, Play) and pack_cards(known.cards) == pack_cards(action.cards):
            combos = [event.combo for event in decide(hand, known) if isinstance(event, Played)]
            if all(action.type in (None, combo.type) and action.rank in (None, combo.rank) for combo in combos):
                return True
    return False


@given(moments(), st.integers(0, 2), st.integers(0, 100))
def test_a_flee_ends_any_live_hand(hand: Hand, seat: int, elapsed_s: int) -> None:
    if hand.phase is Phase.OVER:
        return
    over = apply(hand, Flee(seat, elapsed_s))
    result = outcome(over)
    assert (over.phase, result.fled, result.winner, result.elapsed_s) == (Phase.OVER, seat, None, elapsed_s)
    assert result.flee_multiplier == over.multiplier <= greatest_multiplier(hand.book, hand.initial_multiplier)


@given(whole_hands(of=st.sampled_from(list(BOOKS.values()))))
def test_the_landlord_is_named_once_and_takes_the_bottom(whole: WholeHand) -> None:
    named = [event for event in whole.log if isinstance(event, LandlordSet)]
    assert len(named) == (0 if whole.states[-1].voided else 1)


def test_a_show_of_the_landlord_is_live() -> None:
    hand = apply(dealt(CLASSIC, first_seat=0), Bid(0, 3))
    while hand.landlord is None:
        hand = apply(hand, default_action(hand))
    hand = apply(hand, Show(0, True))
    played = apply(hand, default_action(hand))
    assert view(played, 1).hands[0] == played.hands[0]
