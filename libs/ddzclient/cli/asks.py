"""What a table waits for, as one sentence to this viewer, and an answer to it as he would type it."""

from __future__ import annotations

from typing import Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from ddz.table.v1.events_pb2 import Phase, Snapshot
from ddzclient.books import book_of
from ddzclient.cli import words
from ddzclient.cli.happened import ranks_text, who
from ddzclient.table import Action

YOURS: Final = "轮到你 Your turn"


def asks(state: Snapshot) -> str:
    """Who is waited for; when it is this viewer it begins with YOURS and names the words that he may type."""
    phase = state.clock.phase
    name = words.PHASES.get(Phase.Name(phase).removeprefix("PHASE_"), "")
    seated = state.you >= 0 and not state.observing
    if seated and state.seats[state.you].trustee:
        return "托管中 The trustee plays for you: trustee 收回 takes over"
    if seated and state.clock.seat in (state.you, -1) and (question := _question(state)):
        return f"{YOURS} · {name}: {question}"
    if phase == events_pb2.PHASE_SEATING:
        here = sum(seat.HasField("player") for seat in state.seats)
        return f"{name}: {here} / 3"
    if state.clock.seat >= 0:
        return f"{name}: 等 waiting for {who(state, state.clock.seat)}"
    return name


def _question(state: Snapshot) -> str:
    me = state.seats[state.you]
    terms = state.terms
    match state.clock.phase:
        case events_pb2.PHASE_BASE:
            return f"base {terms.base_min_chips}–{terms.base_max_chips}"
        case events_pb2.PHASE_AGREE if not me.agreed:
            return f"底分 base {state.base_chips:,}: 同意 agree / 不同意 disagree (离座 leaves the seat)"
        case events_pb2.PHASE_READY if not me.ready and book_of(terms).ready_to_start:
            return "准备 ready"
        case events_pb2.PHASE_SHOW_WINDOW if not me.shown:
            return f"明牌 show ×{book_of(terms).show_factor}"
        case events_pb2.PHASE_BID:
            return " / ".join([*(str(level) for level in (1, 2, 3) if level > state.level), "不叫 pass"])
        case events_pb2.PHASE_CALL:
            return "叫地主 call / 不叫 pass"
        case events_pb2.PHASE_ROB:
            return f"抢地主 rob ×{book_of(terms).rob_factor} / 不抢 pass"
        case events_pb2.PHASE_SHOW:
            return f"摊打 show ×{book_of(terms).show_factor} / 不 no, 或领出 or lead"
        case events_pb2.PHASE_PLAY if state.HasField("on_table"):
            combo = state.on_table
            return f"压 beat {words.combo(combo.type)} {ranks_text(list(combo.cards))} / 不要 pass / 提示 hint"
        case events_pb2.PHASE_PLAY:
            return "领出 lead / 提示 hint"
    return ""


def spoken(action: Action) -> str:
    """An action as one would type it."""
    match action:
        case hand_pb2.PlayCards():
            return ranks_text(list(action.cards)) + (f" as {action.type} {action.rank}" if action.type else "")
        case hand_pb2.Bid():
            return str(action.level) if action.level else "不叫 pass"
        case hand_pb2.Call():
            return "叫地主 call" if action.call else "不叫 pass"
        case hand_pb2.Rob():
            return "抢地主 rob" if action.rob else "不抢 no"
        case hand_pb2.Show():
            return "明牌 show" if action.show else "不 no"
        case hand_pb2.Pass():
            return "不要 pass"
        case table_pb2.SetBase():
            return f"底分 base {action.base_chips}"
        case table_pb2.AnswerBase():
            return "同意 agree" if action.agree else "不同意 disagree"
        case table_pb2.Ready():
            return "准备 ready" if action.ready else "取消准备 unready"
        case table_pb2.Trustee():
            return "托管 trustee on" if action.on else "收回 trustee off"
    return action.DESCRIPTOR.name
