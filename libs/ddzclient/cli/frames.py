"""A recorded hand as a table to look at, one frame for each step, with all cards open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ddz.common.v1 import hand_pb2
from ddz.common.v1.common_pb2 import Player
from ddz.common.v1.hand_pb2 import HandAction, HandRecord
from ddz.ledger.v1.ledger_pb2 import GetHandResponse, Settlement
from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Clock, HandSettled, SeatCards, SeatView, Snapshot
from ddzclient.cli import words
from ddzclient.cli.happened import Lasts, ranks_text, who
from ddzclient.verify import Untrue, steps
from doudizhu import Hand, Phase
from doudizhu.cards import RANKS

_PHASES: Final = {
    Phase.AWAIT_DEAL: events_pb2.PHASE_OPENING,
    Phase.SHOW_WINDOW: events_pb2.PHASE_SHOW_WINDOW,
    Phase.BID: events_pb2.PHASE_BID,
    Phase.CALL: events_pb2.PHASE_CALL,
    Phase.ROB: events_pb2.PHASE_ROB,
    Phase.SHOW: events_pb2.PHASE_SHOW,
    Phase.PLAY: events_pb2.PHASE_PLAY,
    Phase.OVER: events_pb2.PHASE_CLOSED,
}


@dataclass(frozen=True, slots=True)
class Frame:
    """The table after one step, and what was done."""

    state: Snapshot
    lasts: Lasts
    said: str


def frames(recorded: GetHandResponse) -> list[Frame]:
    """Every step that the rules allow, the result in the last if the hand was settled."""
    found = list(_frames(recorded.record))
    if found and recorded.HasField("settlement"):
        state = found[-1].state
        state.last_result.CopyFrom(_settled(recorded.settlement))
        state.last_outcome.CopyFrom(recorded.record.outcome)
        for seat, result in zip(state.seats, recorded.settlement.seats, strict=False):
            seat.balance_chips = result.balance_after_chips
    return found


def _frames(record: HandRecord) -> Iterator[Frame]:
    lasts, before = Lasts(), None
    try:
        for number, (action, hand) in enumerate(steps(record), 1):
            lasts = _after(lasts, action, before, hand)
            state = _state(record, hand, number)
            yield Frame(state, lasts, _said(state, action, hand, number))
            before = hand
    except Untrue:
        return  # verification says at which action, and why


def _after(lasts: Lasts, action: HandAction, before: Hand | None, hand: Hand) -> Lasts:
    match action.WhichOneof("action"):
        case "play" if hand.on_table is not None:
            combo = hand.on_table
            kept = lasts if before is not None and before.on_table is not None else Lasts()
            wire = hand_pb2.Combo(cards=combo.cards, type=combo.type, rank=RANKS[combo.rank], body=combo.body)
            return kept.put(action.seat, wire)
        case "pass":
            return lasts.put(action.seat, "pass")
    return Lasts()


def _state(record: HandRecord, hand: Hand, number: int) -> Snapshot:
    seats = [
        SeatView(
            seat=seat,
            player=record.players[seat] if seat < len(record.players) else Player(),
            connected=True,
            shown=seat in hand.shown,
            cards=SeatCards(cards=hand.hands[seat] or (), count=hand.counts[seat]),
            choice=hand.choices[seat] or "",
            rob_choice=hand.rob_choices[seat] or "",
        )
        for seat in range(3)
    ]
    turn = -1 if hand.turn is None else hand.turn
    factors = [
        hand_pb2.FactorProduct(factor=hand_pb2.Factor.Value(f"FACTOR_{factor.name}"), product=product)
        for factor, product in hand.factors
    ]
    return Snapshot(
        table_id=record.table_id,
        hand_id=record.hand_id,
        seq=number,
        terms=record.terms,
        clock=Clock(phase=_PHASES[hand.phase], seat=turn),
        seats=seats,
        players=[seat.player for seat in seats],
        you=-1,
        base_chips=record.base_chips,
        landlord=hand.landlord,
        level=hand.level,
        multiplier=hand.multiplier,
        factors=factors,
        bottom=hand.bottom or (),
        marked_card=hand.marked,
    )


def _settled(settlement: Settlement) -> HandSettled:
    return HandSettled(
        hand_id=settlement.hand_id,
        chips=[seat.chips for seat in settlement.seats],
        rake_chips=[seat.rake_chips for seat in settlement.seats],
        balances_chips=[seat.balance_after_chips for seat in settlement.seats],
        rating=[seat.rating for seat in settlement.seats],
        ratings_after=[seat.rating_after for seat in settlement.seats],
        system_chips=settlement.system_chips,
    )


def _said(state: Snapshot, action: HandAction, hand: Hand, number: int) -> str:
    kind = action.WhichOneof("action")
    said = {
        "deal": "发牌 the deal",
        "bid": words.CHOICES[str(action.bid.level) if action.bid.level else "pass"],
        "call": words.CHOICES["call" if action.call.call else "pass"],
        "rob": words.CHOICES["rob" if action.rob.rob else "no_rob"],
        "show": "明牌 shows" if action.show.show else "不明牌 does not show",
        "close_show": "明牌结束 no more shows",
        "pass": "不要 pass",
        "flee": "逃跑 flees",
    }.get(kind or "", "")
    if kind == "play" and hand.on_table is not None:
        said = f"{words.combo(hand.on_table.type)} {ranks_text(list(action.play.cards))}"
    if kind in ("bid", "call", "rob") and hand.landlord is not None:
        said += f"; 地主 landlord: {who(state, hand.landlord)}"
    name = f"{who(state, action.seat)}: " if action.seat >= 0 else ""
    return f"{number}. {name}{said}" + ("（托管 trustee）" if action.by_trustee else "")
