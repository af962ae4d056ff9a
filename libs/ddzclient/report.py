"""What the demo says at its end: the hands as the ledger keeps them, and whether its books are right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from ddz.common.v1 import hand_pb2
from ddz.common.v1.hand_pb2 import HandRecord, Outcome
from ddz.ledger.v1.ledger_pb2 import AuditResponse, GetHandResponse
from doudizhu.deal import deal_cards
from doudizhu.rulebook import BOOKS

_DEALT: Final = "deal"


def deals_digest(hands: Sequence[GetHandResponse]) -> str:
    """A short digest of every card dealt in these hands, in their order: equal deals, equal digest."""
    digest = hashlib.sha256()
    for hand in hands:
        book = BOOKS[hand.record.terms.book]
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
        found.append(f"{wanted} hands were to be played, {len(hands)} are in the ledger.")
    if settled != len(hands):
        found.append(f"{len(hands)} hands were played, but the ledger has settled {settled}.")
    if after.hands_open > before.hands_open:
        found.append(f"{after.hands_open - before.hands_open} hands are still open.")
    if after.chips_sum or after.rating_sum:
        found.append(f"The accounts sum to {after.chips_sum} chips and {after.rating_sum} rating, not to 0.")
    if after.negative_balances:
        found.append(f"{after.negative_balances} accounts are below 0.")
    found += [
        f"The settlement of {hand.settlement.hand_id} does not sum to 0."
        for hand in hands
        if sum(seat.chips for seat in hand.settlement.seats) + hand.settlement.system_chips
    ]
    return found


def show(
    console: Console,
    hands: Sequence[GetHandResponse],
    names: Mapping[str, str],
    digest: str,
    before: AuditResponse,
    after: AuditResponse,
    found: Sequence[str],
) -> None:
    """Prints the hands, the digest of the deals, the audit line and the faults."""
    if hands:
        console.print(_table(hands, names))
        console.print(f"deals {digest}")
    console.print(
        f"audit: {len(hands)} hands played = {after.hands_settled - before.hands_settled} hands settled, "
        f"sum over all accounts {after.chips_sum}, {after.negative_balances or 'no'} negative balance"
    )
    for fault in found:
        console.print(f"[bold red]wrong:[/] {fault}")


def _table(hands: Iterable[GetHandResponse], names: Mapping[str, str]) -> Table:
    table = Table(title="Hands 牌局 (read from the ledger)")
    for heading in ("hand", "book 规则", "landlord 地主", "winner 胜方"):
        table.add_column(heading)
    for heading in ("base 底分", "level 档"):
        table.add_column(heading, justify="right")
    table.add_column("multiplier 倍数")
    for seat in range(3):
        table.add_column(f"chips {seat}", justify="right")
    table.add_column("rake 回收", justify="right")
    for number, hand in enumerate(hands, 1):
        table.add_row(str(number), *_row(hand, names))
    return table


def _row(hand: GetHandResponse, names: Mapping[str, str]) -> list[str]:
    record, seats = hand.record, hand.settlement.seats
    outcome = record.outcome
    landlord = record.players[outcome.landlord].player_id if outcome.HasField("landlord") else ""
    return [
        record.terms.book,
        f"{names.get(landlord, landlord)} ({outcome.landlord})" if landlord else "–",
        _winner(outcome),
        f"{record.base_chips:,}",
        str(outcome.level),
        _multiplier(record),
        *(f"{seat.chips:+,}" for seat in seats),
        f"{sum(seat.rake_chips for seat in seats):,}",
    ]


def _winner(outcome: Outcome) -> str:
    if outcome.HasField("fled"):
        return f"seat {outcome.fled} fled 逃跑"
    return "landlord 地主" if outcome.winner == hand_pb2.SIDE_LANDLORD else "farmers 农民"


def _multiplier(record: HandRecord) -> str:
    """×16 = rob ×4, bomb ×2, spring ×2."""
    outcome = record.outcome
    parts = [
        f"{hand_pb2.Factor.Name(factor.factor).removeprefix('FACTOR_').lower()} ×{factor.product}"
        for factor in outcome.factors
        if factor.product != 1
    ]
    return f"×{outcome.multiplier}" + (f" = {', '.join(parts)}" if parts else "")
