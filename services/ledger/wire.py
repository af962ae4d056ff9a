"""Between protobuf and the values of the domain, both ways."""

from __future__ import annotations

from typing import Any, Final

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, news_pb2
from doudizhu.hand import Side
from doudizhu.refusal import Refusal
from doudizhu.rulebook import book_of
from doudizhu.settle import Outcome
from doudizhu.titles import title
from services.ledger.grants import Given, Grant, check_key
from services.ledger.ledger import Hand, Reason, Settled, SettleHand, check_outcome
from services.ledger.reversals import Reversed, reversal_key
from services.ledger.store import to_ms

_SIDES: Final = {hand_pb2.SIDE_LANDLORD: Side.LANDLORD, hand_pb2.SIDE_FARMERS: Side.FARMERS}
_SIDES_TO: Final = {side: number for number, side in _SIDES.items()} | {None: hand_pb2.SIDE_UNSPECIFIED}


def outcome_of(proto: hand_pb2.Outcome) -> Outcome:
    """The outcome as the rules know it; nothing is checked."""
    return Outcome(
        winner=_SIDES.get(proto.winner),
        landlord=proto.landlord if proto.HasField("landlord") else None,
        level=proto.level,
        multiplier=proto.multiplier,
        fled=proto.fled if proto.HasField("fled") else None,
        flee_multiplier=proto.flee_multiplier,
        elapsed_s=proto.elapsed_s,
    )


def settle_request(record: hand_pb2.HandRecord) -> SettleHand:
    """The request that a record makes; raises Refusal INVALID when it cannot be settled."""
    if not record.HasField("outcome"):
        raise Refusal(Reason.INVALID, "The record has no outcome: void the hand instead.", field="record.outcome")
    request = SettleHand(
        hand_id=record.hand_id,
        room_id=record.terms.room_id,
        player_ids=tuple(player.player_id for player in record.players),
        book=book_of(record.terms.book, record.terms.book_fields_json),
        outcome=outcome_of(record.outcome),
        base=record.base_chips,
        rake=record.terms.rake_chips,
        record=record.SerializeToString(deterministic=True),
    )
    check_outcome(request)
    return request


def grant_request(proto: ledger_pb2.GrantRequest) -> Grant:
    """The grant that is asked for; raises Refusal INVALID when its key could be another thing's."""
    request = Grant(proto.key, proto.player_id, proto.kind, proto.chips)
    check_key(request)
    return request


def settlement(hand: Hand) -> ledger_pb2.Settlement:
    """The settlement of a hand that was settled."""
    message = ledger_pb2.Settlement()
    _fill(message, hand)
    return message


def _fill(message: ledger_pb2.Settlement, hand: Hand) -> None:
    """Writes a settlement in place: a message that is put into another one is copied."""
    end = hand.end
    assert end is not None
    message.hand_id = hand.hand_id
    message.system_chips = -sum(end.chips)
    message.settled_at_ms = end.at_ms
    for seat in range(3):
        chips, before = end.chips[seat], end.balance_before[seat]
        rating, rating_before = end.rating[seat], end.rating_before[seat]
        message.seats.add(
            player_id=hand.player_ids[seat],
            carried_chips=hand.carried[seat],
            balance_before_chips=before,
            chips=chips,
            rake_chips=end.rake[seat],
            balance_after_chips=before + chips,
            rating=rating,
            rating_before=rating_before,
            rating_after=rating_before + rating,
        )


def balance(player_id: str, chips: int, rating: int) -> ledger_pb2.Balance:
    """A balance with its title."""
    return ledger_pb2.Balance(player_id=player_id, chips=chips, rating=rating, title=title(rating).id)


def result(replayed: bool) -> ledger_pb2.Result.ValueType:
    """How a keyed write ended."""
    return ledger_pb2.RESULT_REPLAYED if replayed else ledger_pb2.RESULT_APPLIED


def transfer(row: Any) -> ledger_pb2.Transfer:
    """A row of a statement."""
    of_a_hand = row["kind"] in {"win", "lose", "rake", "flee", "reverse"}
    return ledger_pb2.Transfer(
        transfer_id=f"{row['account_id']}.{row['unit']}.{row['seq']}",
        kind=row["kind"],
        unit=row["unit"],
        amount=row["amount"],
        rake_chips=row["rake"],
        balance_after=row["balance_after"],
        hand_id=row["key"].removeprefix(reversal_key("")) if of_a_hand else "",
        at_ms=to_ms(row["at"]),
    )


def settled_hand(hand: Hand) -> ledger_pb2.GetHandResponse:
    """A settled hand with its record."""
    assert hand.end is not None
    record = hand_pb2.HandRecord.FromString(hand.end.record)
    return ledger_pb2.GetHandResponse(record=record, settlement=settlement(hand))


def open_hand(row: Any) -> ledger_pb2.OpenHand:
    """A row of the open hands."""
    return ledger_pb2.OpenHand(
        hand_id=row["hand_id"],
        table_id=row["table_id"],
        player_ids=row["player_ids"],
        carried_chips=row["carried"],
        opened_at_ms=to_ms(row["opened_at"]),
    )


# ---- news -----------------------------------------------------------------------------------------------------------


def hand_settled(settled: Settled) -> bytes:
    """The payload of ddz.hand.settled."""
    request, outcome = settled.request, settled.request.outcome
    message = news_pb2.HandSettled(room_id=request.room_id, table_id=settled.hand.table_id, book=request.book.id)
    _fill(message.settlement, settled.hand)
    told = message.outcome
    told.winner, told.multiplier = _SIDES_TO[outcome.winner], outcome.multiplier
    if outcome.landlord is not None:
        told.landlord = outcome.landlord
    if outcome.fled is not None:
        told.fled = outcome.fled
    return message.SerializeToString()


def grant_changed(given: Given) -> bytes:
    """The payload of ddz.account.changed after a grant."""
    after = balance(given.player_id, given.chips_after, given.rating_after)
    return news_pb2.AccountChanged(key=given.key, balances=[after]).SerializeToString()


def reversal_changed(reversal: Reversed) -> bytes:
    """The payload of ddz.account.changed after a reversal."""
    message = news_pb2.AccountChanged(key=reversal_key(reversal.hand_id), balances=balances_after(reversal))
    return message.SerializeToString()


def balances_after(reversal: Reversed) -> list[ledger_pb2.Balance]:
    """Balances after a reversal, by seat."""
    return [
        balance(player_id, chips, rating)
        for player_id, chips, rating in zip(
            reversal.player_ids, reversal.chips_after, reversal.rating_after, strict=True
        )
    ]
