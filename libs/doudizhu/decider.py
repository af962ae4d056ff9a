"""One hand as a decider: actions in, events out, states folded from events (docs/architecture.md).

    decide(hand, action) -> events     refuses with a typed reason, changes nothing
    evolve(hand, event)  -> hand       never refuses
    legal_actions(hand, seat)          what `decide` would accept from that seat
    default_action(hand)               what an expired clock does
    outcome(hand)                      what settlement needs to know

The deck, the clock and a departure come in as data; there is no randomness and no time here.
"""

from __future__ import annotations

from typing import assert_never

from doudizhu import auction, play
from doudizhu.cards import BIG_JOKER, DECK, SMALL_JOKER
from doudizhu.deal import Deal
from doudizhu.hand import (
    Action,
    Bid,
    BidMade,
    Call,
    CallMade,
    CloseShowWindow,
    DealCards,
    Dealt,
    Event,
    Factor,
    Fled,
    Flee,
    Hand,
    LandlordSet,
    Pass,
    Passed,
    Phase,
    Play,
    Played,
    Redealing,
    Rob,
    RobMade,
    Show,
    ShowDeclined,
    Shown,
    ShowWindowClosed,
    Voided,
    Won,
    replace,
)
from doudizhu.multiplier import before_deal, flee_factors, flee_multiplier, product, times
from doudizhu.refusal import Illegal, Malformed, Reason
from doudizhu.rulebook import RuleBook
from doudizhu.settle import Outcome
from doudizhu.turn import require_phase, require_seat


def start(book: RuleBook, initial_multiplier: int = 1, redeals: int = 0) -> Hand:
    """A hand before its deal. `redeals`: consecutive redealt hands before it, as `Voided.redeals` counts them."""
    assert initial_multiplier >= 1
    assert redeals >= 0
    factors = before_deal(book, initial_multiplier, redeals)
    return Hand(book=book, initial_multiplier=initial_multiplier, redeals=redeals, factors=factors)


def decide(hand: Hand, action: Action) -> tuple[Event, ...]:
    """The events of an action, in order: its own, then what follows by itself (a landlord, a win, …).

    Raises a Refusal with a typed reason when the rules forbid it; the hand is a value and never changes. Asked of a
    masked hand it answers for what that viewer knows, and asserts where a hidden card would decide.
    """
    events: list[Event] = [_decide_first(hand, action)]
    while _may_conclude(events[-1]):
        hand = evolve(hand, events[-1])
        following = auction.conclusion(hand) or play.conclusion(hand)
        if following is None:
            break
        events.append(following)
    return tuple(events)


def _decide_first(hand: Hand, action: Action) -> Event:
    match action:
        case Play():
            return play.play(hand, action)
        case Pass():
            return play.pass_(hand, action)
        case Bid():
            return auction.bid(hand, action)
        case Call():
            return auction.call(hand, action)
        case Rob():
            return auction.rob(hand, action)
        case Show():
            return play.show(hand, action)
        case CloseShowWindow():
            return play.close_window(hand)
        case DealCards():
            return _deal(hand, action.deal)
        case Flee():
            return _flee(hand, action)
    assert_never(action)


def _may_conclude(event: Event) -> bool:
    """Most events of a hand are passes and plays after which nothing follows; they need no second look."""
    if isinstance(event, Played):
        return event.cards_left == 0
    return isinstance(event, BidMade | CallMade | RobMade | Shown)


def evolve(hand: Hand, event: Event) -> Hand:
    """The hand after an event of its own; never refuses. A masked event of a masked hand gives a masked hand."""
    match event:
        case Passed():
            return play.after_passed(hand, event)
        case Played():
            return play.after_played(hand, event)
        case BidMade():
            return auction.after_bid(hand, event)
        case CallMade():
            return auction.after_call(hand, event)
        case RobMade():
            return auction.after_rob(hand, event)
        case LandlordSet():
            return auction.after_landlord(hand, event)
        case Shown():
            return play.after_shown(hand, event)
        case ShowDeclined():
            return play.after_declined(hand)
        case ShowWindowClosed():
            return play.after_window(hand, event)
        case Dealt():
            return _after_dealt(hand, event)
        case Redealing():
            return auction.after_redealing(hand)
        case Voided():
            return auction.after_voided(hand)
        case Won():
            return play.after_won(hand, event)
        case Fled():
            return _after_fled(hand, event)
    assert_never(event)


def outcome(hand: Hand) -> Outcome:
    """How a hand ended that was won or fled; a void hand has no settlement."""
    assert hand.winner is not None or hand.fled is not None, "only a hand that was won or fled has an outcome"
    return Outcome(
        winner=hand.winner,
        landlord=hand.landlord,
        level=hand.level,
        multiplier=hand.multiplier,
        fled=hand.fled,
        flee_multiplier=hand.flee_multiplier,
        elapsed_s=hand.elapsed_s,
    )


def _deal(hand: Hand, deal: Deal) -> Dealt:
    require_phase(hand, Phase.AWAIT_DEAL)
    assert sorted([*deal.hands[0], *deal.hands[1], *deal.hands[2], *deal.bottom]) == list(DECK), "not the 54 cards"
    assert [*map(len, deal.hands), len(deal.bottom)] == [17, 17, 17, 3], "not 17 each and 3"
    assert (deal.marked is not None) == hand.book.marked_card, "the marked card is a matter of the book"
    assert deal.marked is None or deal.marked in deal.hands[deal.first_seat], "the marked card's holder is first"
    joker = deal.marked in (SMALL_JOKER, BIG_JOKER)
    factors = times(hand.factors, Factor.MARKED_JOKER, hand.book.marked_joker_factor if joker else 1)
    return Dealt(deal.hands, deal.bottom, deal.marked, deal.first_seat, factors, product(factors))


def _after_dealt(hand: Hand, event: Dealt) -> Hand:
    dealt = replace(
        hand,
        phase=Phase.SHOW_WINDOW,
        hands=event.hands,
        counts=(17, 17, 17),
        bottom=event.bottom,
        marked=event.marked,
        first_seat=event.first_seat,
        factors=event.factors,
        deals=hand.deals + 1,
    )
    return dealt if hand.book.show_window else play.after_window(dealt, ShowWindowClosed(event.first_seat))


def _flee(hand: Hand, action: Flee) -> Fled:
    require_seat(action.seat)
    if action.elapsed_s < 0:
        raise Malformed(Reason.MALFORMED, "elapsed_s is 0 or more", field="elapsed_s")
    if hand.phase is Phase.OVER:
        raise Illegal(Reason.HAND_OVER, "the hand is over; whoever leaves now leaves freely")
    return Fled(action.seat, action.elapsed_s, flee_multiplier(hand, action.seat))


def _after_fled(hand: Hand, event: Fled) -> Hand:
    return replace(
        hand,
        phase=Phase.OVER,
        turn=None,
        fled=event.seat,
        elapsed_s=event.elapsed_s,
        flee_multiplier=event.flee_multiplier,
        factors=flee_factors(hand, event.seat, event.flee_multiplier),
    )
