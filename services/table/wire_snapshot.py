"""A table as one person sees it now -> Snapshot (part of wire.py)."""

from __future__ import annotations

from ddz.table.v1 import events_pb2
from doudizhu import Hand
from doudizhu.hand import Event as HandEvent
from services.table import events, wire
from services.table.clocks import clock
from services.table.table import SEATS, Stage, Step, Table
from services.table.views import Viewer, hand_for
from services.table.wire_values import (
    cards_to,
    factors_to,
    fill_combo,
    outcome_to,
    person_to,
    proof_to,
    result_to,
    terms_to,
)


def snapshot_to(table: Table, who: Viewer, *, epoch: int, now_ms: int) -> events_pb2.Snapshot:
    """Everything that this person may know, and nothing else."""
    snapshot = events_pb2.Snapshot(
        table_id=table.table_id,
        seq=table.seq,
        epoch=epoch,
        at_ms=now_ms,
        terms=terms_to(table.terms),
        observers=[
            events_pb2.ObserverView(observer=person_to(observer.person), seat=observer.seat)
            for observer in table.observers
        ],
        you=-1 if who.seat is None else who.seat,
        observing=who.observing,
        base_chips=table.base,
        base_setter=table.base_setter,
        hand_id=table.hand_id,
        redeals=table.redeals,
        players=[person_to(person) for person in table.players],
    )
    wire.fill_clock(snapshot.clock, clock(table))
    hand = hand_for(table, who)
    snapshot.seats.extend(_seat_to(table, number, hand) for number in SEATS)
    if hand is not None:
        _add_hand(snapshot, table, hand)
    if table.last_result is not None:
        snapshot.last_result.CopyFrom(result_to(table.last_result))
    if table.last_outcome is not None:
        snapshot.last_outcome.CopyFrom(outcome_to(table.last_outcome, table.last_factors))
    return snapshot


def _seat_to(table: Table, number: int, hand: Hand | None) -> events_pb2.SeatView:
    seat = table.seats[number]
    view = events_pb2.SeatView(
        seat=number,
        player=None if seat.person is None else person_to(seat.person),
        ready=seat.ready,
        agreed=seat.agreed,
        connected=bool(seat.connection),
        trustee=seat.trustee is not None,
        observers_allowed=seat.observers_allowed,
        balance_chips=seat.balance or 0,
    )
    if hand is not None:
        view.cards.CopyFrom(cards_to(hand.hands[number], hand.counts[number]))
        view.shown = number in hand.shown
        view.combos = hand.combos_by_seat[number]
        view.bombs = hand.bombs_by_seat[number]
        view.choice = hand.choices[number] or ""
        view.rob_choice = hand.rob_choices[number] or ""
    return view


def _add_hand(snapshot: events_pb2.Snapshot, table: Table, hand: Hand) -> None:
    snapshot.level = hand.level
    snapshot.multiplier = hand.multiplier
    snapshot.factors.extend(factors_to(hand.factors))
    if hand.landlord is not None:
        snapshot.landlord = hand.landlord
    if hand.marked is not None:
        snapshot.marked_card = hand.marked
    snapshot.bottom.extend(hand.bottom or ())
    if hand.on_table is not None and hand.on_table_seat is not None:
        fill_combo(snapshot.on_table, hand.on_table)
        snapshot.on_table_seat = hand.on_table_seat
    snapshot.trick.extend(_step_to(step) for step in table.trick)
    if table.proofs:
        over = hand.voided or table.stage not in (Stage.OPENING, Stage.HAND, Stage.SETTLING)
        snapshot.proof.CopyFrom(proof_to(table.proofs[-1], reveal=over))


def _step_to(step: Step) -> events_pb2.Event:
    move: HandEvent = step.event  # type: ignore[assignment]
    return wire.event_to(events.Stamped(step.seq, step.at_ms, events.Move(move, step.by_trustee)), None)
