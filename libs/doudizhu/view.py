"""What one person may know of a hand (RULES.md sections 5, 7 and D-03): everything else is None.

A viewer is a seat, or None for the public. An observer whom his player allows sees as that seat; others as the public.
For every event of a hand: evolve(view(hand, v), view_event(event, v)) == view(evolve(hand, event), v).
"""

from __future__ import annotations

import dataclasses

from doudizhu.hand import Cards, Dealt, Event, Hand, Phase, replace

Viewer = int | None


def view(hand: Hand, viewer: Viewer) -> Hand:
    """The hand without the cards this viewer may not know.

    Known are the viewer's own cards, those of seats that have shown, the bottom once there is a landlord, and all
    that is left when somebody has won.
    """
    if hand.phase is Phase.AWAIT_DEAL or hand.winner is not None:
        return hand
    known = hand.shown if viewer is None else (*hand.shown, viewer)
    return replace(hand, hands=_masked(hand.hands, known), bottom=None if hand.landlord is None else hand.bottom)


def view_event(event: Event, viewer: Viewer) -> Event:
    """The event without the cards this viewer may not know; only the deal holds any."""
    if not isinstance(event, Dealt):
        return event
    return dataclasses.replace(event, hands=_masked(event.hands, () if viewer is None else (viewer,)), bottom=None)


def _masked(
    hands: tuple[Cards | None, Cards | None, Cards | None], known: tuple[int, ...]
) -> tuple[Cards | None, Cards | None, Cards | None]:
    one, two, three = (cards if seat in known else None for seat, cards in enumerate(hands))
    return (one, two, three)
