"""A table between two hands <-> Checkpoint: what lets the older part of a long log be cut off (part of wire.py)."""

from __future__ import annotations

from ddz.table.v1 import events_pb2
from doudizhu import book_of
from services.table.table import Observer, Seat, Stage, Table, Trustee
from services.table.wire_values import (
    factors_from,
    outcome_from,
    outcome_to,
    person_from,
    person_to,
    result_from,
    result_to,
    terms_from,
    terms_to,
)


def may_checkpoint(table: Table) -> bool:
    """Whether nothing of a hand would be lost: it is over, and the next one is waited for."""
    return table.stage in (Stage.COUNTDOWN, Stage.WAITING)


def checkpoint_to(table: Table) -> events_pb2.Checkpoint:
    """Everything of the table that outlives the hand."""
    assert may_checkpoint(table)
    message = events_pb2.Checkpoint(
        seq=table.seq,
        terms=terms_to(table.terms),
        idle_ms=table.idle_ms,
        seats=[_seat_to(seat) for seat in table.seats],
        observers=[
            events_pb2.CheckpointObserver(
                player=person_to(observer.person),
                seat=observer.seat,
                connection=observer.connection,
                absent_at_ms=observer.absent_at_ms,
            )
            for observer in table.observers
        ],
        empty_at_ms=table.empty_at_ms,
        base_chips=table.base,
        base_setter=table.base_setter,
        base_asked_at_ms=table.base_asked_at_ms,
        hand_number=table.hand_number,
        players=[person_to(person) for person in table.players],
        redeals=table.redeals,
        since_ms=table.since_ms,
        grace_until_ms=table.grace_until_ms,
        waiting=table.stage is Stage.WAITING,
    )
    if table.last_result is not None:
        message.last_result.CopyFrom(result_to(table.last_result))
    if table.last_outcome is not None:
        message.last_outcome.CopyFrom(outcome_to(table.last_outcome, table.last_factors))
    return message


def checkpoint_from(table_id: str, message: events_pb2.Checkpoint) -> Table:
    """The table as it stood; of the last hand there is only its result."""
    terms = terms_from(message.terms)
    book = book_of(terms.book_id, terms.book_fields_json)
    one, two, three = (_seat_from(seat) for seat in message.seats)
    settled = message.HasField("last_outcome")
    return Table(
        table_id=table_id,
        terms=terms,
        book=book,
        idle_ms=message.idle_ms,
        seq=message.seq,
        stage=Stage.WAITING if message.waiting else Stage.COUNTDOWN,
        seats=(one, two, three),
        observers=tuple(
            Observer(person_from(one.player), one.seat, one.connection, one.absent_at_ms) for one in message.observers
        ),
        empty_at_ms=message.empty_at_ms,
        base=message.base_chips,
        base_setter=message.base_setter if message.HasField("base_setter") else None,
        base_asked_at_ms=message.base_asked_at_ms,
        hand_number=message.hand_number,
        hand_id=f"{table_id}-{message.hand_number}" if message.hand_number else "",
        players=tuple(person_from(player) for player in message.players),
        redeals=message.redeals,
        since_ms=message.since_ms,
        grace_until_ms=message.grace_until_ms,
        last_result=result_from(message.last_result) if message.HasField("last_result") else None,
        last_outcome=outcome_from(message.last_outcome) if settled else None,
        last_factors=factors_from(message.last_outcome.factors),
    )


def _seat_to(seat: Seat) -> events_pb2.CheckpointSeat:
    return events_pb2.CheckpointSeat(
        player=None if seat.person is None else person_to(seat.person),
        ready=seat.ready,
        agreed=seat.agreed,
        asked_at_ms=seat.asked_at_ms,
        connection=seat.connection,
        absent_at_ms=seat.absent_at_ms,
        trustee=seat.trustee or "",
        trustee_at_ms=seat.trustee_at_ms,
        misses=seat.misses,
        observers_allowed=seat.observers_allowed,
        balance_chips=seat.balance,
    )


def _seat_from(seat: events_pb2.CheckpointSeat) -> Seat:
    return Seat(
        person=person_from(seat.player) if seat.HasField("player") else None,
        ready=seat.ready,
        agreed=seat.agreed,
        asked_at_ms=seat.asked_at_ms,
        connection=seat.connection,
        absent_at_ms=seat.absent_at_ms,
        trustee=Trustee(seat.trustee) if seat.trustee else None,
        trustee_at_ms=seat.trustee_at_ms,
        misses=seat.misses,
        observers_allowed=seat.observers_allowed,
        balance=seat.balance_chips if seat.HasField("balance_chips") else None,
    )
