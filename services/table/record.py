"""The record of a hand, made from the log: with the rules core anyone can compute deal, winner and settlement again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2
from services.table.table import SEATS, Table
from services.table.wire_values import outcome_to, person_to, proof_to, terms_to

RECORD_VERSION: Final = 1

# What a seat has done, by the name of the event. What follows by itself (a landlord, a win) is no action.
_ACTIONS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "bid_made": lambda event: {"bid": hand_pb2.Bid(level=event.level)},
    "call_made": lambda event: {"call": hand_pb2.Call(call=event.call)},
    "rob_made": lambda event: {"rob": hand_pb2.Rob(rob=event.rob)},
    "shown": lambda _: {"show": hand_pb2.Show(show=True)},
    "show_declined": lambda _: {"show": hand_pb2.Show(show=False)},
    "played": lambda event: {
        "play": hand_pb2.PlayCards(cards=event.combo.cards, type=event.combo.type, rank=event.combo.rank)
    },
    "passed": lambda _: {"pass": hand_pb2.Pass()},
}


def record_of(table: Table, log: Iterable[events_pb2.Event]) -> hand_pb2.HandRecord:
    """The record of the table's hand that is over. `log`: its events since HandOpening, as the log has them."""
    assert table.last_outcome is not None
    record = hand_pb2.HandRecord(
        hand_id=table.hand_id,
        table_id=table.table_id,
        record_version=RECORD_VERSION,
        terms=terms_to(table.terms),
        players=[person_to(person) for person in table.players],
        outcome=outcome_to(table.last_outcome, table.last_factors),
    )
    proofs = {proof.deal_id: proof_to(proof, reveal=True) for proof in table.proofs}
    shows = 0
    for message in log:
        name = message.WhichOneof("event") or ""
        event = getattr(message, name)
        if name in _ACTIONS:
            by_trustee = getattr(event, "by_trustee", False)
            record.actions.add(seat=event.seat, at_ms=message.at_ms, by_trustee=by_trustee, **_ACTIONS[name](event))
            shows += name == "shown"
        elif name == "dealt":
            record.actions.add(seat=-1, at_ms=message.at_ms, deal=proofs[event.proof.deal_id])
            shows = 0
        elif name == "show_window_closed" and shows < len(SEATS):  # the third show closes the window by itself
            record.actions.add(seat=-1, at_ms=message.at_ms, close_show=hand_pb2.CloseShow())
        elif name == "hand_opening":
            record.base_chips, record.redeals, record.started_at_ms = event.base_chips, event.redeals, message.at_ms
        elif name == "hand_won":
            record.ended_at_ms = message.at_ms
        elif name == "hand_fled":
            record.ended_at_ms = message.at_ms
            flee = hand_pb2.Flee(elapsed_s=event.outcome.elapsed_s)
            record.actions.add(seat=event.outcome.fled, at_ms=message.at_ms, flee=flee)
    return record
