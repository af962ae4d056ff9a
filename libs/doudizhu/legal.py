"""What a seat may do now, and what an expired clock does for it (RULES.md sections 4, 6, 7 and 8)."""

from __future__ import annotations

from doudizhu.cards import rank_of
from doudizhu.combo import is_bomb
from doudizhu.hand import Action, Bid, Call, Cards, CloseShowWindow, Hand, Pass, Phase, Play, Rob, Show
from doudizhu.moves import cards_of, moves
from doudizhu.packed import pack_cards
from doudizhu.play import may_bomb, may_show
from doudizhu.table import table_of
from doudizhu.turn import require_seat


def legal_actions(hand: Hand, seat: int) -> tuple[Action, ...]:
    """Every action that `decide` accepts from this seat now; works on the seat's own view.

    Suits never matter: of plays that differ in suits only, the one with the lowest card numbers stands for all. A lead
    that can be read in several ways comes once for each reading. Fleeing is always possible and is left out. Raises
    Malformed when it is no seat.
    """
    require_seat(seat)
    shows: tuple[Action, ...] = (Show(seat, True),) if may_show(hand, seat) else ()
    if seat != hand.turn:
        return shows
    match hand.phase:
        case Phase.BID:
            return tuple(Bid(seat, level) for level in (0, 1, 2, 3) if level == 0 or level > hand.level)
        case Phase.CALL:
            return (Call(seat, False), Call(seat, True))
        case Phase.ROB:
            return (Rob(seat, False), Rob(seat, True))
        case Phase.SHOW:
            return (*shows, Show(seat, False), *_plays(hand, seat))
    passes: tuple[Action, ...] = () if hand.on_table is None else (Pass(seat),)
    return (*passes, *shows, *_plays(hand, seat))


def _plays(hand: Hand, seat: int) -> tuple[Play, ...]:
    held = hand.held(seat)
    bombs = may_bomb(hand, seat)
    readings_of = table_of(hand.book).readings
    found: list[Play] = []
    for move in moves(hand.book, pack_cards(held), hand.on_table):
        readings = readings_of[move]
        if not bombs and is_bomb(readings[0]):
            continue
        cards = cards_of(move, held)
        if hand.on_table is None and len(readings) > 1:
            found += [Play(seat, cards, reading.type, reading.rank) for reading in readings]
        else:
            found.append(Play(seat, cards))
    return tuple(found)


def default_action(hand: Hand) -> Action:
    """What an expired clock does: pass, no show, no rob; who must lead plays his weakest cards.

    Works on the view of the seat whose turn it is. The deal has no default: the table must bring it.
    """
    if hand.phase is Phase.SHOW_WINDOW:
        return CloseShowWindow()
    seat = hand.turn
    assert seat is not None, f"nobody is on the clock in {hand.phase}"
    match hand.phase:
        case Phase.BID:
            return Bid(seat, 0)
        case Phase.CALL:
            return Call(seat, False)
        case Phase.ROB:
            return Rob(seat, False)
        case Phase.SHOW:
            return Show(seat, False)
    return Play(seat, _weakest_lead(hand, seat)) if hand.on_table is None else Pass(seat)


def _weakest_lead(hand: Hand, seat: int) -> Cards:
    """All cards if they are one combo, else all of the weakest rank that is no bomb, else the weakest card."""
    held = hand.held(seat)
    whole = table_of(hand.book).readings.get(pack_cards(held))
    if whole and (may_bomb(hand, seat) or not is_bomb(whole[0])):
        return held
    for lowest in held:
        same_rank = tuple(card for card in held if rank_of(card) == rank_of(lowest))
        if len(same_rank) < 4:
            return same_rank
    return held[:1]
