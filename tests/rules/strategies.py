"""Hypothesis strategies for the rules: books, whole hands, and universes of actions, right and wrong."""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import strategies as st

from doudizhu import BOOKS, Hand, RuleBook, evolve, legal_actions, override
from doudizhu.hand import (
    Action,
    Bid,
    Call,
    CloseShowWindow,
    DealCards,
    Event,
    Flee,
    Pass,
    Play,
    Rob,
    Show,
)
from tests.rules.build import deal_for, playout, stacked_deal

_AUCTION_FIELDS = {
    "auction": st.sampled_from(["bid", "bid_rob", "call_rob"]),
    "all_pass": st.sampled_from(["void", "void_redeal", "redeal"]),
    "show_window": st.booleans(),
    "landlord_shows": st.booleans(),
    "marked_card": st.booleans(),
    "bomb_factor": st.integers(1, 3),
    "rocket_factor": st.integers(1, 3),
    "spring_factor": st.integers(1, 3),
    "flee_rob_factors": st.booleans(),
    "flee_whole_bombs": st.booleans(),
    "bomb_allowance": st.lists(st.none() | st.integers(0, 2), min_size=4, max_size=4),
}
_SETTLEMENT_FIELDS = {
    "shortage": st.sampled_from(["equal", "proportional"]),
    "winner_bounded": st.booleans(),
    "rake": st.booleans(),
    "early_flee_s": st.sampled_from([0, 60]),
    "rated": st.booleans(),
}


def books() -> st.SearchStrategy[RuleBook]:
    """The three books, and books that an operator might make of them."""
    made = st.builds(
        override,
        st.sampled_from(list(BOOKS.values())),
        st.fixed_dictionaries({}, optional={**_AUCTION_FIELDS, **_SETTLEMENT_FIELDS}),
    )
    return st.sampled_from(list(BOOKS.values())) | made


class WholeHand(NamedTuple):
    """A hand from start to end: every state with the action taken in it and its events."""

    origin: str  # what it was made from, for the report of a failure
    states: tuple[Hand, ...]  # one before each action, and the last
    actions: tuple[Action, ...]
    events: tuple[tuple[Event, ...], ...]

    def __repr__(self) -> str:
        return self.origin

    @property
    def log(self) -> tuple[Event, ...]:
        return tuple(event for events in self.events for event in events)


@st.composite
def whole_hands(draw: st.DrawFn, of: st.SearchStrategy[RuleBook] | None = None) -> WholeHand:
    """Random legal play from the deal to the end; a third of the decks are hardly shuffled, for bombs."""
    book, number = draw(books() if of is None else of), draw(st.integers(0, 2**32))
    rng = random.Random(number)
    swaps = draw(st.none() | st.none() | st.integers(0, 30))
    deals = [] if swaps is None else [stacked_deal(book, rng, swaps)]
    initial_multiplier, redeals = draw(st.integers(1, 3)), draw(st.integers(0, 8))
    steps = list(playout(book, rng, deals, initial_multiplier, redeals))
    last = steps[-1][0]
    for event in steps[-1][2]:
        last = evolve(last, event)
    return WholeHand(
        f"WholeHand({book=}, {number=}, {swaps=}, {initial_multiplier=}, {redeals=})",
        (*(state for state, _, _ in steps), last),
        tuple(action for _, action, _ in steps),
        tuple(events for _, _, events in steps),
    )


@st.composite
def moments(draw: st.DrawFn) -> Hand:
    """A state somewhere in a hand, its end included."""
    return draw(st.sampled_from(draw(whole_hands()).states))


def universe(hand: Hand, rng: random.Random) -> list[Action]:
    """Actions of every kind and seat, sensible and not, for a state; some of them legal."""
    seats = (-1, 0, 1, 2, 3)
    found: list[Action] = [CloseShowWindow(), DealCards(deal_for(hand.book, rng.randrange(1000)))]
    for seat in seats:
        found += [Bid(seat, level) for level in range(-1, 5)]
        found += [Call(seat, True), Call(seat, False), Rob(seat, True), Rob(seat, False)]
        found += [Show(seat, True), Show(seat, False), Pass(seat), Flee(seat, 5), Flee(seat, -1)]
        found += _plays(hand, seat, rng)
    return found


def _plays(hand: Hand, seat: int, rng: random.Random) -> list[Action]:
    held = hand.held(seat) if seat in (0, 1, 2) else tuple(range(5))
    found: list[Action] = [Play(seat, ()), Play(seat, (54,)), Play(seat, (-1,)), Play(seat, held)]
    for _ in range(8):
        size = rng.choice((1, 1, 2, 2, 3, 4, 5, 6, 8))
        found.append(Play(seat, tuple(rng.sample(held, min(size, len(held))))))
        found.append(Play(seat, tuple(rng.sample(range(54), size))))
    if held:
        found += [Play(seat, held[:1] * 2), Play(seat, held[:1], "pair"), Play(seat, held[:1], None, 99)]
    if seat in (0, 1, 2) and hand.counts[seat]:
        legal = legal_actions(hand, seat)
        found += rng.sample(legal, min(10, len(legal)))
    return found
