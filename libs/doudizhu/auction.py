"""The auction: bidding or calling, then robbing (RULES.md section 6).

`bid`, `call` and `rob` check an action and answer its event; `after_*` fold the event; `conclusion` is what follows
from the last choice. When nobody is left to be asked, `turn` is None.
"""

from __future__ import annotations

from typing import Final

from doudizhu.hand import (
    Bid,
    BidMade,
    Call,
    CallMade,
    Choice,
    Factor,
    Hand,
    LandlordSet,
    Phase,
    Redealing,
    Rob,
    RobMade,
    Voided,
    replace,
)
from doudizhu.multiplier import before_deal, times
from doudizhu.refusal import Illegal, Malformed, Reason
from doudizhu.turn import next_seat, require_phase, require_seat, require_turn, with_seat

_BIDS: Final = (Choice.PASS, Choice.ONE, Choice.TWO, Choice.THREE)
_TOP_LEVEL: Final = 3


def bid(hand: Hand, action: Bid) -> BidMade:
    """Raises Malformed for a level outside 0..3, Illegal(BID_TOO_LOW) for one that is not above every earlier bid."""
    if action.level not in range(len(_BIDS)):
        raise Malformed(Reason.MALFORMED, f"a bid is 1, 2, 3 or 0 to pass, not {action.level}", field="level")
    require_turn(hand, action.seat, Phase.BID)
    if 0 < action.level <= hand.level:
        raise Illegal(Reason.BID_TOO_LOW, f"a bid must be above {hand.level}", field="level", highest=hand.level)
    return BidMade(action.seat, action.level)


def call(hand: Hand, action: Call) -> CallMade:
    """Raises what `require_turn` raises."""
    require_turn(hand, action.seat, Phase.CALL)
    return CallMade(action.seat, action.call)


def rob(hand: Hand, action: Rob) -> RobMade:
    """Raises Illegal(ROB_NOT_ALLOWED) for a seat that passed the calling or has had its chance."""
    require_seat(action.seat)
    require_phase(hand, Phase.ROB)
    if not _may_rob(hand, action.seat):
        raise Illegal(Reason.ROB_NOT_ALLOWED, f"seat {action.seat} passed the calling or has had its chance to rob")
    require_turn(hand, action.seat, Phase.ROB)
    factor = hand.book.rob_factor if action.rob else 1
    return RobMade(action.seat, action.rob, factor, hand.multiplier * factor)


def after_bid(hand: Hand, event: BidMade) -> Hand:
    """The state after a bid."""
    hand = replace(
        hand,
        choices=with_seat(hand.choices, event.seat, _BIDS[event.level]),
        elect=event.seat if event.level else hand.elect,
        level=event.level or hand.level,
        turn=next_seat(event.seat),
    )
    return _ask_to_rob(hand) if hand.level == _TOP_LEVEL or None not in hand.choices else hand


def after_call(hand: Hand, event: CallMade) -> Hand:
    """The state after a call, or after a seat passed it."""
    hand = replace(
        hand,
        choices=with_seat(hand.choices, event.seat, Choice.CALL if event.call else Choice.PASS),
        elect=event.seat if event.call else None,
        level=1 if event.call else 0,
        turn=next_seat(event.seat),
    )
    return _ask_to_rob(hand) if event.call or None not in hand.choices else hand


def after_rob(hand: Hand, event: RobMade) -> Hand:
    """The state after a seat has robbed, or declined."""
    hand = replace(
        hand,
        rob_choices=with_seat(hand.rob_choices, event.seat, Choice.ROB if event.rob else Choice.NO_ROB),
        factors=times(hand.factors, Factor.ROB, event.factor),
    )
    return replace(hand, turn=_next_robber(hand))


def conclusion(hand: Hand) -> LandlordSet | Redealing | Voided | None:
    """What the auction has come to; None while somebody is still to be asked."""
    if hand.phase not in (Phase.BID, Phase.CALL, Phase.ROB) or hand.turn is not None:
        return None
    assert hand.bottom is not None, "the bottom is hidden here"
    if hand.elect is not None:
        return LandlordSet(_last_robber(hand, hand.elect), hand.level, hand.bottom)
    if hand.shown:
        return LandlordSet(hand.shown[0], 1, hand.bottom)
    return Redealing() if hand.book.all_pass == "redeal" else Voided(_redeals_to_carry(hand))


def after_landlord(hand: Hand, event: LandlordSet) -> Hand:
    """The landlord takes the bottom; he is asked to show where the book lets him and he has not."""
    seat = event.seat
    held = hand.hands[seat]
    asked = hand.book.landlord_shows and seat not in hand.shown
    return replace(
        hand,
        phase=Phase.SHOW if asked else Phase.PLAY,
        landlord=seat,
        level=event.level,
        bottom=event.bottom,
        hands=with_seat(hand.hands, seat, held if held is None else tuple(sorted(held + event.bottom))),
        counts=with_seat(hand.counts, seat, hand.counts[seat] + len(event.bottom)),
        turn=seat,
    )


def after_redealing(hand: Hand) -> Hand:
    """Back to before the first deal, with the initial multiplier; only the number of deals remains."""
    factors = before_deal(hand.book, hand.initial_multiplier, hand.redeals)
    return Hand(
        book=hand.book,
        initial_multiplier=hand.initial_multiplier,
        redeals=hand.redeals,
        factors=factors,
        deals=hand.deals,
    )


def after_voided(hand: Hand) -> Hand:
    """A void hand is over; it moves no chips."""
    return replace(hand, phase=Phase.OVER, voided=True, turn=None)


def _redeals_to_carry(hand: Hand) -> int:
    """Consecutive redeals for the next hand, at most the book's cap (D-08)."""
    return min(hand.redeals + 1, hand.book.max_redeals) if hand.book.all_pass == "void_redeal" else 0


def _ask_to_rob(hand: Hand) -> Hand:
    """Bidding or calling is over: on to robbing, where the book has it and somebody was elected."""
    if hand.elect is None or hand.book.auction == "bid":
        return replace(hand, turn=None)
    return replace(hand, phase=Phase.ROB, turn=_next_robber(hand))


def _next_robber(hand: Hand) -> int | None:
    """The seats after the elect in turn, once each; the elect last, and only if somebody robbed."""
    assert hand.elect is not None
    one = next_seat(hand.elect)
    for seat in (one, next_seat(one)):
        if _may_rob(hand, seat):
            return seat
    return hand.elect if Choice.ROB in hand.rob_choices and hand.rob_choices[hand.elect] is None else None


def _may_rob(hand: Hand, seat: int) -> bool:
    """Who passed the calling may not rob; who passed the bidding may."""
    if hand.rob_choices[seat] is not None:
        return False
    return hand.book.auction != "call_rob" or hand.choices[seat] is not Choice.PASS


def _last_robber(hand: Hand, elect: int) -> int:
    """The last of them to rob is landlord; with none, the elect."""
    one = next_seat(elect)
    for seat in (elect, next_seat(one), one):
        if hand.rob_choices[seat] is Choice.ROB:
            return seat
    return elect
