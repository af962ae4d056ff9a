"""What a person types at a table -> what he wants: an action for the servers, or a word for the client. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from ddz.table.v1.events_pb2 import Snapshot
from ddzclient.table import Action
from doudizhu.cards import RANKS, rank_of
from doudizhu.combo import TYPES

_MOST_CHIPS: Final = 2**63 - 1


class Word(StrEnum):
    """What the client does itself."""

    TAKE = ""  # Enter alone: what was suggested
    HINT = "hint"
    HELP = "help"
    LEAVE = "leave"
    QUIT = "quit"


@dataclass(frozen=True, slots=True)
class Watch:
    """An observer wants to look at another seat."""

    seat: int


Wish = Word | Watch | Action


class Unclear(Exception):
    """What was typed means nothing here; the sentence says why."""


_ALIASES: Final = {
    "提示": "hint", "h": "hint", "?": "help", "帮助": "help", "离开": "leave", "退出": "quit", "exit": "quit",
    "p": "pass", "过": "pass", "不要": "pass", "不叫": "pass", "不抢": "no", "n": "no", "不": "no",
    "y": "yes", "是": "yes", "好": "yes", "叫": "call", "叫地主": "call", "抢": "rob", "抢地主": "rob",
    "明牌": "show", "摊打": "show", "准备": "ready", "取消准备": "unready", "同意": "agree", "不同意": "disagree",
    "托管": "trustee", "收回": "trustee off", "许看牌": "allow", "不许看牌": "forbid", "底分": "base", "叫分": "bid",
}  # fmt: skip
_IN_CARDS: Final = {"王炸": "xX", "小王": "x", "大王": "X", "10": "T"}
_SUITS: Final = "♠♥♣♦"


def read(text: str, state: Snapshot) -> Wish:
    """What a player or observer wants with what he typed; raises Unclear.

    Cards are ranks with or without spaces, 10 or T for tens; suits are left out, and do not matter. A number is a bid,
    a base or cards, as the table asks.
    """
    words = unicodedata.normalize("NFKC", text).split()  # an input method's ３ and ？ are 3 and ?
    if not words:
        return Word.TAKE
    verb, *rest = [*_ALIASES.get(words[0].lower(), words[0].lower()).split(), *words[1:]]
    if verb in tuple(Word):
        if rest:
            raise Unclear(f"{verb} 后面不用写别的 {verb} stands alone")
        return Word(verb)
    if state.you < 0 or state.observing:
        return _watch(words)
    if verb in _VERBS:
        return _VERBS[verb](rest, state)
    if verb.isdecimal() and not rest and state.clock.phase == events_pb2.PHASE_BASE:
        return _base([verb], state)
    if verb.isdecimal() and not rest and state.clock.phase == events_pb2.PHASE_BID:
        return _bid([verb], state)
    return _cards(words, state)


def _watch(words: list[str]) -> Watch:
    if words not in (["0"], ["1"], ["2"]):
        raise Unclear("旁观时只能换座 0 1 2、离开、退出 An observer types 0 1 2, leave or quit")
    return Watch(int(words[0]))


def _number(rest: list[str], least: int, most: int) -> int:
    text = rest[0].replace(",", "") if len(rest) == 1 else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= most):
        raise Unclear(f"请写 {least} 到 {most} 的数 Type a number from {least} to {most}")
    return int(text)


def _base(rest: list[str], state: Snapshot) -> Action:
    most = state.terms.base_max_chips or _MOST_CHIPS
    return table_pb2.SetBase(base_chips=_number(rest, max(state.terms.base_min_chips, 1), most))


def _bid(rest: list[str], _: Snapshot) -> Action:
    return hand_pb2.Bid(level=_number(rest, 0, 3))


def _yes(rest: list[str], state: Snapshot) -> Action:
    return _answer(rest, state, True)


def _no(rest: list[str], state: Snapshot) -> Action:
    return _answer(rest, state, False)


def _answer(rest: list[str], state: Snapshot, yes: bool) -> Action:
    """Yes or no to what the table asks now."""
    _alone(rest)
    match state.clock.phase:
        case events_pb2.PHASE_AGREE:
            return table_pb2.AnswerBase(agree=yes)
        case events_pb2.PHASE_READY:
            return table_pb2.Ready(ready=yes)
        case events_pb2.PHASE_CALL:
            return hand_pb2.Call(call=yes)
        case events_pb2.PHASE_ROB:
            return hand_pb2.Rob(rob=yes)
        case events_pb2.PHASE_SHOW | events_pb2.PHASE_SHOW_WINDOW:
            return hand_pb2.Show(show=yes)
    raise Unclear("现在没有要回答的 Nothing is asked that yes or no answers")


def _pass(rest: list[str], state: Snapshot) -> Action:
    _alone(rest)
    match state.clock.phase:
        case events_pb2.PHASE_BID:
            return hand_pb2.Bid(level=0)
        case events_pb2.PHASE_CALL | events_pb2.PHASE_ROB | events_pb2.PHASE_SHOW:
            return _answer(rest, state, False)
    return hand_pb2.Pass()


def _trustee(rest: list[str], state: Snapshot) -> Action:
    if rest not in ([], ["on"], ["off"]):
        raise Unclear("trustee on / trustee off")
    return table_pb2.Trustee(on=rest == ["on"] if rest else not state.seats[state.you].trustee)


def _alone(rest: list[str]) -> None:
    if rest:
        raise Unclear(f"后面不用写 Nothing follows here: {' '.join(rest)}")


def _always(action: Action) -> Callable[[list[str], Snapshot], Action]:
    def answer(rest: list[str], _: Snapshot) -> Action:
        _alone(rest)
        return action

    return answer


_VERBS: Final[dict[str, Callable[[list[str], Snapshot], Action]]] = {
    "base": _base,
    "bid": _bid,
    "yes": _yes,
    "no": _no,
    "pass": _pass,
    "trustee": _trustee,
    "agree": _always(table_pb2.AnswerBase(agree=True)),
    "disagree": _always(table_pb2.AnswerBase(agree=False)),
    "ready": _always(table_pb2.Ready(ready=True)),
    "unready": _always(table_pb2.Ready(ready=False)),
    "call": _always(hand_pb2.Call(call=True)),
    "rob": _always(hand_pb2.Rob(rob=True)),
    "show": _always(hand_pb2.Show(show=True)),
    "allow": _always(table_pb2.AllowObservers(allow=True)),
    "forbid": _always(table_pb2.AllowObservers(allow=False)),
}


def _cards(words: list[str], state: Snapshot) -> Action:
    """Cards of the own hand for the ranks typed, then perhaps `as` and the reading that a lead wants (D-02)."""
    typed, kind, rank = words, "", ""
    if "as" in words:
        at = words.index("as")
        typed, (kind, rank) = words[:at], _reading(words[at + 1 :])
    if state.clock.phase not in (events_pb2.PHASE_PLAY, events_pb2.PHASE_SHOW):
        raise Unclear(f"看不懂，或现在不能出牌 Not understood, or no time to play cards: {' '.join(words)}")
    left = list(state.seats[state.you].cards.cards)
    chosen = []
    for wanted in _ranks("".join(typed)):
        card = min((card for card in left if rank_of(card) == wanted), default=None)
        if card is None:
            sign = RANKS[wanted].replace("T", "10")
            raise Unclear(f"你没有这么多 You do not hold that many: {sign}")
        left.remove(card)
        chosen.append(card)
    if not chosen:
        raise Unclear("没有写牌 No cards were typed")
    return hand_pb2.PlayCards(cards=chosen, type=kind, rank=rank)


def _reading(words: list[str]) -> tuple[str, str]:
    kind, *rest = words or [""]
    if kind not in TYPES or len(rest) > 1:
        raise Unclear(f"as 后面写牌型 After `as` comes one of {', '.join(TYPES)}, and perhaps its rank")
    ranks = _ranks("".join(rest))
    if len(ranks) > 1:
        raise Unclear("牌型后面只写一个点数 One rank follows the kind of combo")
    return kind, RANKS[ranks[0]] if ranks else ""


def _ranks(text: str) -> list[int]:
    for written, meant in _IN_CARDS.items():
        text = text.replace(written, meant)
    signs = [sign if sign in "xX" else sign.upper() for sign in text if sign not in _SUITS]
    for sign in signs:
        if sign not in RANKS or len(sign) != 1:
            raise Unclear(f"看不懂 Not understood: {sign} (帮助 help)")
    return [RANKS.index(sign) for sign in signs]
