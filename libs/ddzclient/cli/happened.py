"""What has just happened at a table: what each seat did last, and a sentence for every event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ddz.common.v1.hand_pb2 import Combo
from ddz.table.v1.events_pb2 import Event, Snapshot
from ddzclient.cli import words
from ddzclient.cli.words import plain
from doudizhu.cards import RANKS, rank_of

_CLEAR: Final = {"hand_opening", "dealt", "redealing", "hand_settled", "hand_voided"}
Last = Combo | str | None


@dataclass(frozen=True, slots=True)
class Lasts:
    """By seat the combo that it put down last, "pass", or None; it stays until the next lead."""

    seats: tuple[Last, Last, Last] = (None, None, None)

    def after(self, event: Event, *, following: bool) -> Lasts:
        """After one more event; `following`: there was a combo on the table before it."""
        match event.WhichOneof("event"):
            case "played":
                kept = self if following else Lasts()
                return kept.put(event.played.seat, event.played.combo)
            case "passed":
                return self.put(event.passed.seat, "pass")
            case kind if kind in _CLEAR:
                return Lasts()
        return self

    def put(self, seat: int, last: Last) -> Lasts:
        """With another last deed of one seat."""
        one, two, three = [last if number == seat else old for number, old in enumerate(self.seats)]
        return replace(self, seats=(one, two, three))


NOTHING: Final = Lasts()


def lasts_of(state: Snapshot) -> Lasts:
    """What a snapshot tells of the running trick."""
    lasts = Lasts()
    for event in state.trick:
        lasts = lasts.after(event, following=True)
    return lasts


def ranks_text(cards: list[int]) -> str:
    """Cards as one types them, the highest first: 2 10 10 3."""
    ranks = sorted(map(rank_of, cards), reverse=True)
    return " ".join(RANKS[rank].replace("T", "10") for rank in ranks)


def sentence(state: Snapshot, event: Event) -> str:
    """A sentence about an event, as the state after it tells it; empty when it is nothing to speak of."""
    kind = event.WhichOneof("event") or ""
    happened = getattr(event, kind) if kind else event
    said = _said(state, event, kind)
    if not said or not hasattr(happened, "seat"):
        return said
    by_trustee = " （托管 trustee）" if getattr(happened, "by_trustee", False) else ""
    return f"{who(state, happened.seat)}: {said}{by_trustee}"


def who(state: Snapshot, seat: int) -> str:
    """How a seat is called to this viewer."""
    if seat == state.you and not state.observing:
        return "你 you"
    return plain(state.seats[seat].player.display_name) or f"座 seat {seat}"


def _said(state: Snapshot, event: Event, kind: str) -> str:
    match kind:
        case "seat_taken":
            return "坐下了 sat down"
        case "seat_left":
            return "离开了 left"
        case "base_set":
            return f"底分 base {event.base_set.base_chips:,}"
        case "base_answered":
            return "同意 agrees" if event.base_answered.agree else "不同意 disagrees"
        case "ready_set":
            return "准备 ready" if event.ready_set.ready else "取消准备 not ready"
        case "bid_made":
            return words.CHOICES[str(event.bid_made.level) if event.bid_made.level else "pass"]
        case "call_made":
            return words.CHOICES["call" if event.call_made.call else "pass"]
        case "rob_made":
            return words.CHOICES["rob" if event.rob_made.rob else "no_rob"]
        case "shown":
            return "明牌 shows"
        case "landlord_set":
            return f"地主 landlord, 底牌 bottom {ranks_text(list(event.landlord_set.bottom))}"
        case "played":
            played = event.played
            left = f"剩 {played.cards_left} left"
            return f"{words.combo(played.combo.type)} {ranks_text(list(played.combo.cards))}, {left}"
        case "passed":
            return "不要 pass"
        case "trustee_set":
            return "托管 trustee plays" if event.trustee_set.on else "取消托管 plays again"
        case "cards_allowed":
            return (
                "许旁观看牌 observers may look" if event.cards_allowed.allow else "不许旁观看牌 observers may not look"
            )
        case "hand_voided":
            return words.VOIDS.get(event.hand_voided.reason, "本局作废 the hand is void")
        case "redealing":
            return words.VOIDS["all_passed"]
        case "hand_fled":
            return f"{who(state, event.hand_fled.outcome.fled)}: 逃跑 fled"
    return ""
