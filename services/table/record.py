"""The record of a hand, made from the log: with the rules core anyone can compute deal, winner and settlement again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ddz.common.v1 import hand_pb2
from doudizhu import hand
from doudizhu.cards import RANKS
from services.table import events
from services.table.table import SEATS, Proof, Table
from services.table.wire_values import outcome_to, person_to, proof_to, terms_to

RECORD_VERSION: Final = 1

_ACTIONS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    hand.BidMade: lambda event: {"bid": hand_pb2.Bid(level=event.level)},
    hand.CallMade: lambda event: {"call": hand_pb2.Call(call=event.call)},
    hand.RobMade: lambda event: {"rob": hand_pb2.Rob(rob=event.rob)},
    hand.Shown: lambda _: {"show": hand_pb2.Show(show=True)},
    hand.ShowDeclined: lambda _: {"show": hand_pb2.Show(show=False)},
    hand.Played: lambda event: {
        "play": hand_pb2.PlayCards(cards=event.combo.cards, type=event.combo.type, rank=RANKS[event.combo.rank])
    },
    hand.Passed: lambda _: {"pass": hand_pb2.Pass()},
    hand.Fled: lambda event: {"flee": hand_pb2.Flee(elapsed_s=event.elapsed_s)},
}


def record_of(table: Table, log: Iterable[events.Stamped]) -> hand_pb2.HandRecord:
    """The record of the table's hand that is over. `log`: the events since its HandOpening, in order."""
    assert table.last_outcome is not None
    record = hand_pb2.HandRecord(
        hand_id=table.hand_id,
        table_id=table.table_id,
        record_version=RECORD_VERSION,
        terms=terms_to(table.terms),
        players=[person_to(person) for person in table.players],
        outcome=outcome_to(table.last_outcome, table.last_factors),
    )
    proofs = {proof.deal_id: proof for proof in table.proofs}
    shows = 0
    for stamped in log:
        if isinstance(stamped.event, events.HandOpening):
            record.base_chips = stamped.event.base_chips
            record.redeals = stamped.event.redeals
            record.started_at_ms = stamped.at_ms
        elif isinstance(stamped.event, events.Move):
            event = stamped.event.event
            if isinstance(event, hand.Dealt):
                shows = 0
            elif isinstance(event, hand.Shown):
                shows += 1
            elif isinstance(event, hand.Won | hand.Fled):
                record.ended_at_ms = stamped.at_ms
            action = _action_of(stamped, stamped.event, proofs)
            if action is not None and not (action.HasField("close_show") and shows == len(SEATS)):
                record.actions.append(action)  # the third show closes the window by itself
    return record


def _action_of(stamped: events.Stamped, move: events.Move, proofs: dict[str, Proof]) -> hand_pb2.HandAction | None:
    """What was done; None for events that follow by themselves."""
    event = move.event
    common: dict[str, Any] = {"at_ms": stamped.at_ms, "by_trustee": move.by_trustee}
    if isinstance(event, hand.Dealt):
        assert move.proof is not None
        proof = proofs[move.proof.deal_id]
        return hand_pb2.HandAction(seat=-1, deal=proof_to(proof, reveal=True), **common)
    if isinstance(event, hand.ShowWindowClosed):
        return hand_pb2.HandAction(seat=-1, close_show=hand_pb2.CloseShow(), **common)
    make = _ACTIONS.get(type(event))
    if make is None:
        return None
    return hand_pb2.HandAction(seat=event.seat, **make(event), **common)  # type: ignore[union-attr]
