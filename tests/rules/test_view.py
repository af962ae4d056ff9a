"""What a viewer may know: nothing depends on a hidden card, and a masked hand folds masked events."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu import ROB, Hand, Phase, decide, evolve, legal_actions, start, view, view_event
from doudizhu.hand import Dealt, Event, LandlordSet, Played, Show, Shown, Won
from doudizhu.view import Viewer
from tests.rules.build import apply, dealt, playing, put_down
from tests.rules.strategies import WholeHand, moments, whole_hands

VIEWERS: tuple[Viewer, ...] = (None, 0, 1, 2)
viewers = st.sampled_from(VIEWERS)


def hidden(hand: Hand, viewer: Viewer) -> list[int]:
    """The cards that this viewer may not tell apart, by the rules and not by the code under test."""
    if hand.phase is Phase.AWAIT_DEAL or hand.winner is not None:
        return []
    assert hand.bottom is not None
    public = {hand.marked, *(() if hand.landlord is None else hand.bottom)}
    others = [seat for seat in range(3) if seat != viewer and seat not in hand.shown]
    held = [card for seat in others for card in hand.held(seat)]
    return [card for card in (*held, *hand.bottom) if card not in public]


def shuffled(hand: Hand, viewer: Viewer, rng: random.Random) -> Hand:
    """Another hand that differs from this one in hidden cards only."""
    unknown = hidden(hand, viewer)
    order = dict(zip(sorted(unknown), rng.sample(unknown, len(unknown)), strict=True))
    one, two, three = (tuple(sorted(order.get(card, card) for card in hand.held(seat))) for seat in range(3))
    bottom = hand.bottom if hand.landlord is not None else tuple(order.get(card, card) for card in hand.bottom or ())
    return replace(hand, hands=(one, two, three), bottom=bottom)


@given(moments(), viewers, st.integers(0, 2**32))
def test_hands_that_differ_in_hidden_cards_look_the_same(hand: Hand, viewer: Viewer, number: int) -> None:
    other = shuffled(hand, viewer, random.Random(number))
    assert view(hand, viewer) == view(other, viewer)


@given(moments(), st.integers(0, 2), st.integers(0, 2**32))
def test_what_a_seat_may_do_does_not_depend_on_hidden_cards(hand: Hand, seat: int, number: int) -> None:
    other = shuffled(hand, seat, random.Random(number))
    assert legal_actions(hand, seat) == legal_actions(other, seat) == legal_actions(view(hand, seat), seat)


@given(whole_hands(), viewers, st.integers(0, 2**32))
def test_events_that_differ_in_hidden_cards_look_the_same(whole: WholeHand, viewer: Viewer, number: int) -> None:
    """The same action in two hands that look the same gives events that look the same, until cards are opened."""
    rng = random.Random(number)
    for hand, action, events in zip(whole.states, whole.actions, whole.events, strict=False):
        other = shuffled(hand, viewer, rng)
        seat = getattr(action, "seat", None)
        if seat is not None and seat != viewer and seat not in hand.shown and hasattr(action, "cards"):
            continue  # the seat might not hold these cards in the other hand
        seen = [view_event(event, viewer) for event in events if not opens(event)]
        seen_there = [view_event(event, viewer) for event in decide(other, action) if not opens(event)]
        assert seen == seen_there


def opens(event: Event) -> bool:
    """Whether an event opens cards that were hidden before it."""
    return isinstance(event, Shown | LandlordSet | Won)


@given(whole_hands(), viewers)
def test_a_masked_hand_folds_masked_events(whole: WholeHand, viewer: Viewer) -> None:
    hand = whole.states[0]
    seen = view(hand, viewer)
    for event in whole.log:
        hand, seen = evolve(hand, event), evolve(seen, view_event(event, viewer))
        assert seen == view(hand, viewer)


@given(whole_hands(), viewers)
def test_no_event_holds_a_card_that_its_viewer_may_not_know(whole: WholeHand, viewer: Viewer) -> None:
    hand = whole.states[0]
    for event in whole.log:
        hand = evolve(hand, event)
        assert not set(cards_in(view_event(event, viewer))) & set(hidden(hand, viewer))


def cards_in(event: Event) -> Iterator[int]:
    match event:
        case Dealt(hands=hands, bottom=bottom):
            for some in (*hands, bottom):
                yield from some or ()
        case LandlordSet(bottom=cards) | Shown(cards=cards):
            yield from cards
        case Played(combo=combo):
            yield from combo.cards
        case Won(hands=hands):
            for cards in hands:
                yield from cards


@given(moments(), viewers)
def test_a_view_of_a_view_is_the_view(hand: Hand, viewer: Viewer) -> None:
    seen = view(hand, viewer)
    assert view(seen, viewer) == seen


@pytest.mark.parametrize("viewer", VIEWERS)
def test_before_the_landlord_is_known_the_bottom_is_hidden(viewer: Viewer) -> None:
    seen = view(dealt(ROB), viewer)
    assert seen.bottom is None
    assert [cards is not None for cards in seen.hands] == [seat == viewer for seat in range(3)]
    assert seen.counts == (17, 17, 17)


def test_who_has_shown_is_seen_by_all_until_the_end() -> None:
    hand = apply(dealt(ROB, first_seat=0), Show(1, True))
    for viewer in VIEWERS:
        assert view(hand, viewer).hands[1] == hand.hands[1]
    hand = replace(playing(ROB, "345", "67", "89"), shown=(0,))
    hand = put_down(hand, 0, "3")
    assert view(hand, None).hands == (hand.hands[0], None, None)


def test_the_end_is_open_to_all() -> None:
    over = put_down(playing(ROB, "3", "67", "89"), 0, "3")
    assert view(over, None) == over


def test_before_the_deal_there_is_nothing_to_hide() -> None:
    assert view(start(ROB), None) == start(ROB)
