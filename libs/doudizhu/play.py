"""Showing and play (RULES.md sections 7 and 8).

`show`, `play` and `pass_` check an action and answer its event; `after_*` fold the event; `conclusion` is what
follows from a show or from the last card.
"""

from __future__ import annotations

from doudizhu.cards import DECK
from doudizhu.combo import is_bomb
from doudizhu.combos import choose_follow, choose_lead
from doudizhu.hand import (
    Choice,
    Factor,
    Hand,
    Pass,
    Passed,
    Phase,
    Play,
    Played,
    Show,
    ShowDeclined,
    Shown,
    ShowWindowClosed,
    Side,
    Won,
    replace,
)
from doudizhu.multiplier import bomb_factor, times
from doudizhu.refusal import Ambiguous, Illegal, Malformed, Reason
from doudizhu.turn import SEATS, next_seat, require_phase, require_seat, require_turn, with_seat

_RECORDED_BIDS = (None, Choice.PASS, Choice.ONE, Choice.TWO)  # the order of RuleBook.bomb_allowance


def show(hand: Hand, action: Show) -> Shown | ShowDeclined:
    """Raises Illegal(SHOW_NOT_ALLOWED) for who may not, has already, or has led; a no is only for who is asked."""
    require_seat(action.seat)
    require_phase(hand, Phase.SHOW_WINDOW, Phase.SHOW, Phase.PLAY)
    if hand.phase is Phase.SHOW:
        require_turn(hand, action.seat, Phase.SHOW)
        if not action.show:
            return ShowDeclined(action.seat)
    if not action.show:
        raise Illegal(Reason.SHOW_NOT_ALLOWED, "nobody is asked; who does not show says nothing", field="show")
    if not may_show(hand, action.seat):
        raise Illegal(Reason.SHOW_NOT_ALLOWED, f"seat {action.seat} may not show now, or has shown")
    factor = hand.book.show_factor
    return Shown(action.seat, hand.held(action.seat), factor, hand.multiplier * factor)


def may_show(hand: Hand, seat: int) -> bool:
    """Whether this seat may show now: anybody in the show window, the landlord before his first lead; each once."""
    if seat in hand.shown:
        return False
    if hand.phase is Phase.SHOW_WINDOW:
        return True
    return (
        hand.phase in (Phase.SHOW, Phase.PLAY)
        and hand.book.landlord_shows
        and seat == hand.landlord
        and hand.combos_by_seat[seat] == 0
    )


def play(hand: Hand, action: Play) -> Played:
    """Raises Malformed, Illegal or Ambiguous: the turn, cards not held, no combo, does not beat, too many bombs."""
    require_turn(hand, action.seat, Phase.PLAY, Phase.SHOW)
    _require_held(hand, action)
    if hand.on_table is None:
        combo = choose_lead(hand.book, action.cards, action.type, action.rank)
    else:
        combo = choose_follow(hand.book, action.cards, hand.on_table)
        if action.type not in (None, combo.type) or action.rank not in (None, combo.rank):
            raise Ambiguous(Reason.AMBIGUOUS_COMBO, f"a follow is read as {combo.type}, not as named", field="type")
    if is_bomb(combo) and not may_bomb(hand, action.seat):
        raise Illegal(Reason.BOMB_LIMIT, "this farmer's bid allows no further bomb or rocket", field="cards")
    factor = bomb_factor(hand.book, combo)
    left = hand.counts[action.seat] - len(combo.cards)
    return Played(action.seat, combo, left, factor, hand.multiplier * factor)


def may_bomb(hand: Hand, seat: int) -> bool:
    """Whether this seat's bomb allowance (S0 1.6.1) leaves room for one more; the landlord has no limit."""
    if seat == hand.landlord:
        return True
    bid = hand.choices[seat]
    if bid not in _RECORDED_BIDS:
        return True  # a bid of 3 or a call that was robbed: the book maps no allowance to it
    allowance = hand.book.bomb_allowance[_RECORDED_BIDS.index(bid)]
    return allowance is None or hand.bombs_by_seat[seat] < allowance


def pass_(hand: Hand, action: Pass) -> Passed:
    """Raises Illegal(INVALID_PASS) on a lead."""
    require_turn(hand, action.seat, Phase.PLAY, Phase.SHOW)
    if hand.on_table is None:
        raise Illegal(Reason.INVALID_PASS, "who leads must put down a combo")
    return Passed(action.seat)


def after_shown(hand: Hand, event: Shown) -> Hand:
    """The state after a seat has shown: everybody knows its cards from now on."""
    return replace(
        hand,
        phase=Phase.PLAY if hand.phase is Phase.SHOW else hand.phase,
        hands=with_seat(hand.hands, event.seat, event.cards),
        shown=(*hand.shown, event.seat),
        factors=times(hand.factors, Factor.SHOW, event.factor),
    )


def after_declined(hand: Hand) -> Hand:
    """The clock of the show has stopped; until his first lead the landlord may still show."""
    return replace(hand, phase=Phase.PLAY)


def after_window(hand: Hand, event: ShowWindowClosed) -> Hand:
    """The auction begins."""
    return replace(
        hand,
        phase=Phase.CALL if hand.book.auction == "call_rob" else Phase.BID,
        first_seat=event.first_seat,
        turn=event.first_seat,
    )


def after_played(hand: Hand, event: Played) -> Hand:
    """The state after a combo was put down."""
    seat = event.seat
    held = hand.hands[seat]
    if held is not None:
        put_down = event.combo.cards
        held = tuple([card for card in held if card not in put_down])
    bombs = hand.bombs_by_seat
    return replace(
        hand,
        phase=Phase.PLAY,
        hands=with_seat(hand.hands, seat, held),
        counts=with_seat(hand.counts, seat, event.cards_left),
        factors=times(hand.factors, Factor.BOMB, event.factor),
        on_table=event.combo,
        on_table_seat=seat,
        passes=0,
        turn=next_seat(seat),
        combos_by_seat=with_seat(hand.combos_by_seat, seat, hand.combos_by_seat[seat] + 1),
        bombs_by_seat=with_seat(bombs, seat, bombs[seat] + 1) if is_bomb(event.combo) else bombs,
    )


def after_passed(hand: Hand, event: Passed) -> Hand:
    """The state after a pass; the second in a row ends the trick."""
    if hand.passes == 0:
        return replace(hand, passes=1, turn=next_seat(event.seat))
    return replace(hand, passes=0, on_table=None, on_table_seat=None, turn=hand.on_table_seat)


def after_won(hand: Hand, event: Won) -> Hand:
    """The hand is over and open to all."""
    factors = hand.factors if event.spring is None else times(hand.factors, event.spring, event.factor)
    return replace(hand, phase=Phase.OVER, turn=None, winner=event.side, factors=factors, hands=event.hands)


def conclusion(hand: Hand) -> ShowWindowClosed | Won | None:
    """What follows by itself: all three have shown, or a seat has no cards left."""
    if hand.phase is Phase.SHOW_WINDOW and len(hand.shown) == len(SEATS):
        return close_window(hand)
    if hand.phase is Phase.PLAY and hand.on_table_seat is not None and hand.counts[hand.on_table_seat] == 0:
        return _won(hand, hand.on_table_seat)
    return None


def close_window(hand: Hand) -> ShowWindowClosed:
    """The first to show calls first; without one, whom the deal drew. Raises Illegal outside of the window."""
    require_phase(hand, Phase.SHOW_WINDOW)
    return ShowWindowClosed(hand.shown[0] if hand.shown else hand.first_seat)


def _won(hand: Hand, seat: int) -> Won:
    side = Side.LANDLORD if seat == hand.landlord else Side.FARMERS
    spring, factor = _spring(hand, side)
    return Won(seat, side, spring, factor, hand.multiplier * factor, (hand.held(0), hand.held(1), hand.held(2)))


def _spring(hand: Hand, winner: Side) -> tuple[Factor | None, int]:
    """Spring: no farmer put down a card. Anti-spring: the landlord put down one combo only (section 9)."""
    assert hand.landlord is not None
    landlords = hand.combos_by_seat[hand.landlord]
    spring: Factor | None = None
    factor = 1
    if winner is Side.LANDLORD and sum(hand.combos_by_seat) == landlords:
        spring, factor = Factor.SPRING, hand.book.spring_factor
    elif winner is Side.FARMERS and landlords == 1:
        spring, factor = Factor.ANTI_SPRING, hand.book.anti_spring_factor
    return (spring, factor) if factor > 1 else (None, 1)


def _require_held(hand: Hand, action: Play) -> None:
    held = hand.held(action.seat)
    for card in action.cards:
        if card not in held:
            if card not in DECK:
                raise Malformed(Reason.MALFORMED, "a card is a number from 0 to 53", field="cards")
            raise Illegal(Reason.CARD_NOT_HELD, f"seat {action.seat} does not hold all of these cards", field="cards")
