"""What the terminal says, 中文 beside English, by the names of the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ddz.common.v1 import common_pb2, hand_pb2
from doudizhu.refusal import Refusal

BOOKS: Final = {"classic": "三人斗地主 Classic", "happy": "欢乐斗地主 Happy", "rob": "抢地主 Rob"}

COMBOS: Final = {
    "rocket": "火箭 rocket",
    "bomb": "炸弹 bomb",
    "single": "单张 single",
    "pair": "对子 pair",
    "trio": "三张 trio",
    "trio_single": "三带一 trio + 1",
    "trio_pair": "三带二 trio + pair",
    "straight": "顺子 straight",
    "pair_straight": "连对 pair straight",
    "trio_straight": "三顺 trio straight",
    "airplane_singles": "飞机带单 airplane + singles",
    "airplane_pairs": "飞机带对 airplane + pairs",
    "four_single": "四带一 four + 1",
    "four_two_singles": "四带二 four + 2",
    "four_two_pairs": "四带两对 four + 2 pairs",
    "four_single_pair": "四带一单一对 four + 1 + pair",
}

FACTORS: Final = {
    "INITIAL": "初始 initial",
    "REDEAL": "荒番 redeals",
    "MARKED_JOKER": "明置王 marked joker",
    "ROB": "抢地主 robs",
    "SHOW": "明牌 shows",
    "BOMB": "炸弹 bombs",
    "SPRING": "春天 spring",
    "ANTI_SPRING": "反春 anti-spring",
    "FLEE_BOMBS": "手中炸弹 bombs in hand",
}

# A seat's choice in the auction; "" = not reached.
CHOICES: Final = {
    "": "",
    "pass": "不叫 pass",
    "1": "叫 1 分 bid 1",
    "2": "叫 2 分 bid 2",
    "3": "叫 3 分 bid 3",
    "call": "叫地主 call",
    "rob": "抢地主 rob",
    "no_rob": "不抢 no rob",
}

PHASES: Final = {
    "SEATING": "等人 waiting for three",
    "BASE": "定底分 setting the base",
    "AGREE": "商议底分 agreeing on the base",
    "READY": "准备 getting ready",
    "OPENING": "开局 starting",
    "SEED": "洗牌 shuffling",
    "SHOW_WINDOW": "明牌 showing",
    "BID": "叫牌 bidding",
    "CALL": "叫地主 calling",
    "ROB": "抢地主 robbing",
    "SHOW": "摊打 showing",
    "PLAY": "打牌 playing",
    "SETTLING": "结算 settling",
    "COUNTDOWN": "下一局 next hand",
    "CLOSED": "已散 closed",
}

VOIDS: Final = {
    "all_passed": "没人叫牌，重新发牌 nobody wanted it: a new deal",
    "left": "有人离开，本局作废 somebody left: the hand is void",
    "endless": "一直无人叫地主，本局作废 nobody ever calls: the hand is void",
    "absent": "有人不在，本局作废 somebody is away: the hand is void",
    "refused": "本局没有开成 the hand was not opened",
    "operator": "管理员作废了本局 an operator has voided the hand",
}

ENDS: Final = {
    "left": "你已离开这一桌 You have left the table.",
    "closed": "这一桌已经散了 The table has closed.",
    "banned": "账号已被封禁，托管代你打完 The account is banned; the trustee plays on for you.",
    "replaced": "牌桌已在别处打开 The table is open elsewhere: it is played in one place at a time.",
}

_REASONS: Final = {
    "NOT_YOUR_TURN": "还没轮到你",
    "WRONG_PHASE": "现在不能这样做",
    "ILLEGAL_COMBO": "这不是一手牌",
    "AMBIGUOUS_COMBO": "这手牌不能这样算",
    "DOES_NOT_BEAT": "压不过",
    "CARD_NOT_HELD": "你没有这张牌",
    "INVALID_PASS": "该你领出，不能不要",
    "BID_TOO_LOW": "叫得不够高",
    "ROB_NOT_ALLOWED": "你不能抢",
    "SHOW_NOT_ALLOWED": "现在不能明牌",
    "BOMB_LIMIT": "炸弹次数用完了",
    "HAND_OVER": "这一局已经结束",
    "NOT_A_PLAYER": "你不在这一桌",
    "ROOM_FULL": "这一桌已满",
    "SEAT_TAKEN": "座位有人了",
    "BELOW_MINIMUM": "积分不足",
    "ABOVE_MAXIMUM": "积分超出这个房间",
    "BASE_OUT_OF_BOUNDS": "底分超出范围",
    "ALREADY_SEATED": "你已在一桌就座",
    "PLAYER_IN_HAND": "你还有一局没打完",
    "TABLE_CLOSED": "这一桌已经散了",
    "TOO_LATE": "已经配对好了",
    "NOT_FOUND": "找不到",
    "RATE_LIMITED": "太快了，请稍等",
    "LIMIT_REACHED": "已到上限",
    "FORBIDDEN": "不允许",
    "BANNED": "账号已被封禁",
    "MAINTENANCE": "系统维护中",
}

TABLE_HELP: Final = (
    "出牌 cards: 3 3 3 4 4 · 10 or T · x 小王 small joker, X 大王 big joker · 牌型 a reading: … as trio_straight",
    "不要 pass · 提示 hint, then Enter plays it · 叫 1 2 3 · 叫地主/抢 call, rob, yes, no · 明牌 show",
    "底分 base 10 · 同意 agree, disagree · 准备 ready, unready · 托管 trustee · 许看牌 allow, forbid",
    "离开 leave (打牌中算逃跑 a flee in a live hand) · 退出 quit (座位留着 the seat stays) · 帮助 help",
)
TABLE_LINE: Final = "出牌 3 3 3 4 4 · 不要 pass · 提示 hint · 托管 trustee · 离开 leave · 退出 quit · 帮助 help"
WATCH_LINE: Final = "换座 0 1 2 · 离开 leave · 退出 quit · 帮助 help"
WATCH_HELP: Final = ("换座 another seat: 0 1 2 · 离开 leave · 退出 quit · 帮助 help",)


OPEN_AGAIN: Final = "维护结束 The server is open again."


def notice(told: common_pb2.Notice) -> str:
    """What operators tell to all, as a line."""
    return f"系统维护 Maintenance: {plain(told.message)}" if told.maintenance else OPEN_AGAIN


def plain(text: str) -> str:
    """A name or a sentence of somebody else's without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def sorry(error: Exception) -> str:
    """What to say about something that did not work."""
    if isinstance(error, Refusal):
        return f"{_REASONS.get(error.reason, '不行')} {plain(error.message)}"
    return plain(str(error))


def combo(kind: str) -> str:
    """A combo's name; one that is newer than this client by its id."""
    return COMBOS.get(kind, plain(kind))


def multiplied(factors: Iterable[hand_pb2.FactorProduct]) -> list[tuple[str, int]]:
    """The name and the product of every factor that has multiplied."""
    return [
        (FACTORS[hand_pb2.Factor.Name(entry.factor).removeprefix("FACTOR_")], entry.product)
        for entry in factors
        if entry.product != 1
    ]
