"""Plain builders for tests of the rules: deals, hands in the middle of play, playouts, scripts of an auction."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from doudizhu import CLASSIC, Deal, Hand, RuleBook, deal_cards, decide, evolve, legal_actions, start
from doudizhu.cards import DECK, HAND_SIZE, parse_ranks, rank_of
from doudizhu.hand import (
    Action,
    Bid,
    Call,
    Choice,
    CloseShowWindow,
    DealCards,
    Event,
    Factors,
    Pass,
    Phase,
    Play,
    Rob,
    Show,
)

Three = tuple[int, int, int]


def seed(number: int) -> bytes:
    """A server seed for tests."""
    return hashlib.sha256(str(number).encode()).digest()


def deal_for(book: RuleBook, number: int = 0, first_seat: int | None = None) -> Deal:
    """A dealt deck, turned round so that `first_seat` begins when it is given."""
    deal = deal_cards(book, f"deal-{number}", seed(number))
    if first_seat is None or first_seat == deal.first_seat:
        return deal
    turned = tuple(deal.hands[(seat - first_seat + deal.first_seat) % 3] for seat in range(3))
    return replace(deal, hands=(turned[0], turned[1], turned[2]), first_seat=first_seat)


def stacked_deal(book: RuleBook, rng: random.Random, swaps: int) -> Deal:
    """A deal from a deck in order with some swaps: many bombs, trios and chains."""
    deck = list(DECK)
    for _ in range(swaps):
        here, there = rng.randrange(54), rng.randrange(54)
        deck[here], deck[there] = deck[there], deck[here]
    cut = rng.randrange(54)
    deck = deck[cut:] + deck[:cut]
    one, two, three = (tuple(sorted(deck[at : at + HAND_SIZE])) for at in range(0, 51, HAND_SIZE))
    place = rng.randrange(51)
    marked = deck[place] if book.marked_card else None
    return Deal((one, two, three), tuple(sorted(deck[51:])), marked, place // HAND_SIZE)


def cards(*texts: str) -> list[tuple[int, ...]]:
    """Cards for rank strings, all of one deck: the lowest card of each rank that is still free."""
    free = list(DECK)
    found = []
    for text in texts:
        taken = []
        for rank in parse_ranks(text):
            card = next(card for card in free if rank_of(card) == rank)
            free.remove(card)
            taken.append(card)
        found.append(tuple(sorted(taken)))
    return found


def playing(
    book: RuleBook,
    *texts: str,
    landlord: int = 0,
    turn: int = 0,
    level: int = 1,
    factors: Factors = (),
    choices: tuple[Choice | None, Choice | None, Choice | None] = (None, None, None),
    combos_by_seat: Three = (0, 0, 0),
) -> Hand:
    """A hand in play, the lead at `turn`, with these cards left."""
    one, two, three = cards(*texts)
    return Hand(
        book=book,
        phase=Phase.PLAY,
        hands=(one, two, three),
        counts=(len(one), len(two), len(three)),
        turn=turn,
        landlord=landlord,
        level=level,
        factors=factors,
        choices=choices,
        combos_by_seat=combos_by_seat,
        deals=1,
    )


def apply(hand: Hand, action: Action) -> Hand:
    """The hand after an action and all that follows from it."""
    for event in decide(hand, action):
        hand = evolve(hand, event)
    return hand


def put_down(hand: Hand, seat: int, text: str) -> Hand:
    """The hand after a seat puts down these ranks, or passes with ""."""
    return apply(hand, play_of(hand, seat, text) if text else Pass(seat))


def play_of(hand: Hand, seat: int, text: str) -> Play:
    """The play of these ranks with cards that the seat holds."""
    left = list(hand.held(seat))
    taken = []
    for rank in parse_ranks(text):
        card = next(card for card in left if rank_of(card) == rank)
        left.remove(card)
        taken.append(card)
    return Play(seat, tuple(taken))


def dealt(book: RuleBook = CLASSIC, number: int = 0, first_seat: int | None = None) -> Hand:
    """A hand after its deal."""
    return apply(start(book), DealCards(deal_for(book, number, first_seat)))


def step(hand: Hand, text: str) -> Action:
    """The action of a script step such as "0 bid 3", "1 no_rob" or "close"."""
    if text == "close":
        return CloseShowWindow()
    seat_text, verb, *rest = text.split()
    seat = int(seat_text)
    verbs: dict[str, Callable[[], Action]] = {
        "bid": lambda: Bid(seat, int(rest[0])),
        "pass": lambda: Call(seat, False) if hand.book.auction == "call_rob" else Bid(seat, 0),
        "call": lambda: Call(seat, True),
        "rob": lambda: Rob(seat, True),
        "no_rob": lambda: Rob(seat, False),
        "show": lambda: Show(seat, True),
        "no_show": lambda: Show(seat, False),
        "skip": lambda: Pass(seat),
        "play": lambda: Play(seat, hand.held(seat)[:1]),
    }
    return verbs[verb]()


def playout(
    book: RuleBook, rng: random.Random, deals: Sequence[Deal] = (), initial_multiplier: int = 1, redeals: int = 0
) -> Iterator[tuple[Hand, Action, tuple[Event, ...]]]:
    """Every step of a hand played by random legal choices: the state, the action and its events."""
    hand = start(book, initial_multiplier, redeals)
    while hand.phase is not Phase.OVER:
        action = _random_action(hand, rng, deals)
        events = decide(hand, action)
        yield hand, action, events
        for event in events:
            hand = evolve(hand, event)


def _random_action(hand: Hand, rng: random.Random, deals: Sequence[Deal]) -> Action:
    if hand.phase is Phase.AWAIT_DEAL:
        given = deals[hand.deals] if hand.deals < len(deals) else deal_for(hand.book, rng.randrange(10**9))
        return DealCards(given)
    if hand.turn is None:
        shows = [action for seat in range(3) for action in legal_actions(hand, seat)]
        return rng.choice([*shows, *[CloseShowWindow()] * 3])
    return rng.choice(legal_actions(hand, hand.turn))
