"""Chips that are given: at sign-up, as an operator's gift, as relief to a player who is broke. Pure, like ledger.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from doudizhu.refusal import Refusal
from doudizhu.rulebook import GREATEST_INT64
from services.ledger.ledger import Player, Reason, in_hand


@dataclass(frozen=True, slots=True)
class Grant:
    """Gives chips from issuance; `kind` is signup or gift."""

    key: str
    player_id: str
    kind: str
    chips: int


@dataclass(frozen=True, slots=True)
class ReliefTerms:
    """How much a broke player gets, who counts as broke, and how often a day; `per_day` 0: there is no relief."""

    chips: int
    below_chips: int
    per_day: int


@dataclass(frozen=True, slots=True)
class ClaimRelief:
    """A player asks for relief on a day; `terms` are the operator's."""

    key: str
    player_id: str
    day: date
    terms: ReliefTerms


@dataclass(frozen=True, slots=True)
class Given:
    """A grant as it is stored; the balances are those after it."""

    key: str
    player_id: str
    kind: str
    chips: int
    chips_after: int
    rating_after: int
    relief_day: date | None = None
    relief_number: int | None = None
    account: int = 0
    replayed: bool = False


def check_key(request: Grant) -> None:
    """Raises Refusal INVALID unless the key begins with the kind: then no hand, relief or reversal can have it too."""
    if not request.key.startswith(f"{request.kind}:"):
        raise Refusal(Reason.INVALID, f"The key of a {request.kind} begins with {request.kind}:", field="key")


def grant(request: Grant, known: Given | None, player: Player) -> Given:
    """Raises Refusal KEY_CONFLICT, or INVALID when the balance would not fit 64 bits."""
    if known is not None:
        return _replay(known, request.player_id, request.kind, request.chips)
    return _give(request.key, player, request.kind, request.chips)


def claim_relief(request: ClaimRelief, known: Given | None, player: Player, claimed: int, hand_id: str | None) -> Given:
    """`claimed`: how many times on that day already; `hand_id`: his open hand.

    Raises Refusal KEY_CONFLICT, PLAYER_IN_HAND or LIMIT_REACHED.
    """
    terms = request.terms
    if known is not None:
        return _replay(known, request.player_id, "relief", known.chips)
    if hand_id is not None:
        raise in_hand(player, hand_id)
    if player.chips >= terms.below_chips:
        raise Refusal(
            Reason.LIMIT_REACHED,
            f"Relief is for who has fewer than {terms.below_chips} chips.",
            balance=player.chips,
            below=terms.below_chips,
        )
    if claimed >= terms.per_day:
        raise Refusal(
            Reason.LIMIT_REACHED,
            f"Relief is given {terms.per_day} times a day.",
            claimed=claimed,
            per_day=terms.per_day,
        )
    return _give(request.key, player, "relief", terms.chips, request.day, claimed + 1)


def _give(key: str, player: Player, kind: str, chips: int, day: date | None = None, number: int | None = None) -> Given:
    after = player.chips + chips
    if after > GREATEST_INT64:
        raise Refusal(Reason.INVALID, "The balance would not fit 64 bits.", field="chips")
    return Given(key, player.player_id, kind, chips, after, player.rating, day, number, player.account)


def _replay(known: Given, player_id: str, kind: str, chips: int) -> Given:
    if (known.player_id, known.kind, known.chips) != (player_id, kind, chips):
        raise Refusal(Reason.KEY_CONFLICT, f"{known.key} is known with another request.", field="key", key=known.key)
    return replace(known, replayed=True)
