"""From the client's view of a table to the values of the rules core, and back to the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Snapshot
from ddzclient.books import book_of
from ddzclient.table import Action
from doudizhu import hand as core
from doudizhu.cards import RANKS
from doudizhu.combos import Combo

T = TypeVar("T")

# What a player knows and his seat -> what he does; None when he does nothing for now.
Policy = Callable[[core.Hand, int], core.Action | None]

_PHASES: Final = {
    events_pb2.PHASE_SHOW_WINDOW: core.Phase.SHOW_WINDOW,
    events_pb2.PHASE_BID: core.Phase.BID,
    events_pb2.PHASE_CALL: core.Phase.CALL,
    events_pb2.PHASE_ROB: core.Phase.ROB,
    events_pb2.PHASE_SHOW: core.Phase.SHOW,
    events_pb2.PHASE_PLAY: core.Phase.PLAY,
}
_FACTORS: Final = {getattr(hand_pb2, f"FACTOR_{factor.name}"): factor for factor in core.Factor}


def in_hand(state: Snapshot) -> bool:
    """Whether seats act by the rules of a hand now."""
    return state.clock.phase in _PHASES


def hand_of(state: Snapshot) -> core.Hand:
    """The running hand as this viewer knows it: enough for `legal_actions` and for any policy.

    What a snapshot does not tell stays at its default: which seat was the first to be asked.
    """
    assert in_hand(state), "no hand is being played"
    turn = state.clock.seat
    return core.Hand(
        book=book_of(state.terms),
        phase=_PHASES[state.clock.phase],
        initial_multiplier=state.terms.initial_multiplier,
        redeals=state.redeals,
        hands=_three([_cards(seat.cards) for seat in state.seats]),
        counts=_three([seat.cards.count for seat in state.seats]),
        bottom=tuple(state.bottom) or None,
        marked=state.marked_card if state.HasField("marked_card") else None,
        turn=turn if turn >= 0 else None,
        choices=_three([core.Choice(seat.choice) if seat.choice else None for seat in state.seats]),
        rob_choices=_three([core.Choice(seat.rob_choice) if seat.rob_choice else None for seat in state.seats]),
        elect=_elect(state),
        landlord=state.landlord if state.HasField("landlord") else None,
        level=state.level,
        shown=tuple(seat.seat for seat in state.seats if seat.shown),
        factors=tuple((_FACTORS[product.factor], product.product) for product in state.factors),
        on_table=_combo(state.on_table) if state.HasField("on_table") else None,
        on_table_seat=state.on_table_seat if state.HasField("on_table") else None,
        passes=_passes(state),
        combos_by_seat=_three([seat.combos for seat in state.seats]),
        bombs_by_seat=_three([seat.bombs for seat in state.seats]),
        deals=1,
    )


def to_wire(action: core.Action) -> Action:
    """The command that asks the servers for an action of the rules core."""
    match action:
        case core.Bid():
            return hand_pb2.Bid(level=action.level)
        case core.Call():
            return hand_pb2.Call(call=action.call)
        case core.Rob():
            return hand_pb2.Rob(rob=action.rob)
        case core.Show():
            return hand_pb2.Show(show=action.show)
        case core.Play():
            rank = "" if action.rank is None else RANKS[action.rank]
            return hand_pb2.PlayCards(cards=action.cards, type=action.type or "", rank=rank)
        case core.Pass():
            return hand_pb2.Pass()
    raise AssertionError(f"{type(action).__name__} is the table's, not a seat's")


def _three(values: list[T]) -> tuple[T, T, T]:
    one, two, three = values
    return one, two, three


def _cards(cards: events_pb2.SeatCards) -> core.Cards | None:
    """None when they are hidden; a seat without cards hides nothing."""
    return tuple(cards.cards) if cards.cards or not cards.count else None


def _combo(combo: hand_pb2.Combo) -> Combo:
    return Combo(combo.type, RANKS.index(combo.rank), combo.body, tuple(combo.cards))


def _elect(state: Snapshot) -> int | None:
    """The caller, or the highest bidder so far."""
    wanted = ("call", str(state.level) if state.level else "call")
    return next((seat.seat for seat in state.seats if seat.choice in wanted), None)


def _passes(state: Snapshot) -> int:
    """Consecutive passes at the end of the trick."""
    count = 0
    for event in reversed(state.trick):
        if event.WhichOneof("event") != "passed":
            break
        count += 1
    return count
