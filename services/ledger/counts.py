"""What is counted of the ledger: requests by what became of them, settlements by outcome, and where chips flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from doudizhu.hand import Side
from doudizhu.refusal import Refusal
from services.ledger.grants import ClaimRelief, Given, Grant
from services.ledger.ledger import Opened, OpenHand, Settled, SettleHand, Voided, VoidHand
from services.ledger.reversals import Reverse, Reversed

if TYPE_CHECKING:
    from services.ledger.transaction import Reply, Request

REQUESTS: Final = Counter("ddz_ledger_requests", "Requests that change something, by answer", ["kind", "result"])
SETTLEMENTS: Final = Counter("ddz_ledger_settlements", "Hands that are over in the ledger, by outcome", ["outcome"])
CHIPS: Final = Counter("ddz_ledger_chips", "Chips that changed their owner, by flow", ["flow"])
COMMIT_SECONDS: Final = Histogram(
    "ddz_ledger_commit_seconds",
    "Time that a transaction takes, from its begin to the end of its commit",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
OUTBOX_LAG_SECONDS: Final = Gauge("ddz_ledger_outbox_lag_seconds", "Age of the oldest news that JetStream has not got")

# Looking a series up by its labels costs more than writing to it; and a series that exists from the start shows 0.
_KINDS: Final = {
    OpenHand: "open", SettleHand: "settle", VoidHand: "void", Grant: "grant", ClaimRelief: "relief", Reverse: "reverse",
}  # fmt: skip
_REQUESTS: Final = {
    (kind, result): REQUESTS.labels(name, result)
    for kind, name in _KINDS.items()
    for result in ("done", "known", "refused")
}
_SETTLEMENTS: Final = {
    outcome: SETTLEMENTS.labels(outcome) for outcome in ("landlord", "farmers", "fled", "voided", "reversed")
}
# stakes: from player to player; flee: what who fled paid to the system; shortage: what a reversal could not get back.
_CHIPS: Final = {
    flow: CHIPS.labels(flow) for flow in ("stakes", "rake", "flee", "signup", "gift", "relief", "reversed", "shortage")
}


def count(request: Request, reply: Reply | Refusal) -> None:
    """Counts one answer of a transaction that is committed."""
    if isinstance(reply, Refusal):
        _REQUESTS[type(request), "refused"].inc()
        return
    _REQUESTS[type(request), "known" if reply.replayed else "done"].inc()
    if reply.replayed:
        return
    match reply:
        case Settled():
            _count_settled(reply)
        case Voided():
            _SETTLEMENTS["voided"].inc()
        case Given(kind=kind, chips=chips):
            _CHIPS[kind].inc(chips)
        case Reversed():
            _SETTLEMENTS["reversed"].inc()
            _CHIPS["reversed"].inc(sum(chips for chips in reply.chips if chips > 0))
            _CHIPS["shortage"].inc(reply.shortage_chips)
        case Opened():
            pass


def _count_settled(settled: Settled) -> None:
    outcome, end = settled.request.outcome, settled.hand.end
    assert end is not None, "what is settled has ended"
    fled = outcome.fled is not None
    _SETTLEMENTS["fled" if fled else "landlord" if outcome.winner is Side.LANDLORD else "farmers"].inc()
    won = [chips + rake for chips, rake in zip(end.chips, end.rake, strict=True)]
    _CHIPS["stakes"].inc(sum(chips for chips in won if chips > 0))
    _CHIPS["rake"].inc(sum(end.rake))
    _CHIPS["flee"].inc(end.flee_chips)
