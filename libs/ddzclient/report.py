"""What the demo says at its end: the hands as the ledger keeps them, and whether its books are right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from ddz.common.v1 import hand_pb2
from ddz.common.v1.hand_pb2 import Outcome
from ddz.ledger.v1.ledger_pb2 import AuditResponse, GetHandResponse
from ddzclient.books import book_of
from ddzclient.verify import verify
from doudizhu.deal import deal_cards

_DEALT: Final = "deal"


def deals_digest(hands: Sequence[GetHandResponse]) -> str:
    """A short digest of every card dealt in these hands, in their order: equal deals, equal digest."""
    digest = hashlib.sha256()
    for hand in hands:
        book = book_of(hand.record.terms)
        for action in hand.record.actions:
            if action.WhichOneof("action") == _DEALT:
                proof = action.deal
                deal = deal_cards(book, proof.deal_id, proof.server_seed, proof.client_seeds)
                digest.update(repr((book.id, deal.hands, deal.bottom, deal.marked, deal.first_seat)).encode())
    return digest.hexdigest()[:16]


def faults(hands: Sequence[GetHandResponse], wanted: int, before: AuditResponse, after: AuditResponse) -> list[str]:
    """Everything that is wrong with the books, one sentence each."""
    settled = after.hands_settled - before.hands_settled
    found = list(after.faults)
    if len(hands) != wanted:
        found.append(f"Hands to be played: {wanted}; in the ledger: {len(hands)}.")
    if settled != len(hands):
        found.append(f"Hands played: {len(hands)}; settled by the ledger: {settled}.")
    if after.hands_open > before.hands_open:
        found.append(f"Hands still open: {after.hands_open - before.hands_open}.")
    if after.chips_sum or after.rating_sum:
        found.append(f"The accounts sum to {after.chips_sum} chips and {after.rating_sum} rating, not to 0.")
    if after.negative_balances:
        found.append(f"Accounts below 0: {after.negative_balances}.")
    found += [
        f"The settlement of {hand.settlement.hand_id} does not sum to 0."
        for hand in hands
        if sum(seat.chips for seat in hand.settlement.seats) + hand.settlement.system_chips
    ]
    return found


def untrue(hands: Sequence[GetHandResponse]) -> list[str]:
    """What the records say and the rules do not: every deal is proved and every hand computed again (verify.py)."""
    return [f"{hand.record.hand_id}: {sentence}" for hand in hands for sentence in verify(hand.record, hand.settlement)]


def show(
    console: Console,
    hands: Sequence[GetHandResponse],
    digest: str,
    before: AuditResponse,
    after: AuditResponse,
    found: Sequence[str],
) -> None:
    """Prints the hands, the digest of the deals, the audit line and the faults."""
    if hands:
        console.print(_table(hands))
        console.print(f"deals {digest}")
    console.print(
        f"audit: {_hands(len(hands))} played = {_hands(after.hands_settled - before.hands_settled)} settled, "
        f"sum over all accounts {after.chips_sum}, {after.negative_balances or 'no'} negative balance",
        soft_wrap=True,
    )
    for fault in found:
        console.print("wrong:", fault, style="bold red", soft_wrap=True, markup=False)


def _hands(number: int) -> str:
    return "1 hand" if number == 1 else f"{number} hands"


def _table(hands: Iterable[GetHandResponse]) -> Table:
    table = Table(title="Hands 牌局, read back from the ledger", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in ("#", "book\n规则", "landlord\n地主", "winner\n胜方"):
        table.add_column(heading, no_wrap=True)
    for heading in ("base\n底分", "level\n档数"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("multiplier\n倍数")
    for heading in ("seat 0\n得失", "seat 1\n得失", "seat 2\n得失", "rake\n回收"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, hand in enumerate(hands, 1):
        table.add_row(str(number), *_row(hand))
    return table


def _row(hand: GetHandResponse) -> list[str]:
    record, seats = hand.record, hand.settlement.seats
    outcome = record.outcome
    return [
        record.terms.book,
        f"seat {outcome.landlord}" if outcome.HasField("landlord") else "–",
        _winner(outcome),
        str(record.base_chips),
        str(outcome.level),
        _multiplier(outcome),
        *(f"{seat.chips:+}" for seat in seats),
        str(sum(seat.rake_chips for seat in seats)),
    ]


def _winner(outcome: Outcome) -> str:
    if outcome.HasField("fled"):
        return f"{outcome.fled} fled"
    return "landlord" if outcome.winner == hand_pb2.SIDE_LANDLORD else "farmers"


def _multiplier(outcome: Outcome) -> str:
    """16 = rob 4 × bomb 2 × spring 2."""
    parts = [
        f"{hand_pb2.Factor.Name(factor.factor).removeprefix('FACTOR_').lower()}\u00a0{factor.product}"
        for factor in outcome.factors
        if factor.product != 1
    ]
    return f"{outcome.multiplier}" + (f" = {' × '.join(parts)}" if parts else "")
