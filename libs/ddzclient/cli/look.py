"""A table as a terminal shows it: from the snapshot of one person to what rich prints. Pure: no clock, no terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ddz.common.v1.hand_pb2 import Combo
from ddz.table.v1.events_pb2 import Phase, SeatView, Snapshot
from ddzclient.cli import words
from ddzclient.cli.asks import asks
from ddzclient.cli.happened import NOTHING, Last, Lasts, who
from ddzclient.cli.result import due, result
from ddzclient.cli.words import plain
from doudizhu.cards import BIG_JOKER, RANKS, SMALL_JOKER, SUITS, rank_of

_RED: Final = (1, 3)  # hearts and diamonds
_JOKERS: Final = {SMALL_JOKER: Text("x小王", "bold"), BIG_JOKER: Text("X大王", "bold red")}


@dataclass(frozen=True, slots=True)
class Look:
    """What is on the screen besides the table's state. `now_ms`: the servers' time; `player_id`: who looks."""

    now_ms: int = 0
    lasts: Lasts = NOTHING
    player_id: str = ""
    connected: bool = True
    notes: tuple[str, ...] = ()


def table_view(state: Snapshot, look: Look) -> RenderableType:
    """The whole table, for a player, an observer or a replay: what the snapshot hides is not there to be shown."""
    parts: list[RenderableType] = [_header(state), _seats(state, look)]
    parts += [line for seat in state.seats if (line := _open_cards(state, seat)) is not None]
    if due(state, look.player_id) and not _playing(state):
        parts.append(result(state, look.player_id))
    parts.append(_own(state))
    parts.append(_asked(state, look.now_ms))
    if not look.connected:
        parts.append(Text("网络断开，正在重新连接… Connection lost, reconnecting…", "bold yellow"))
    parts += [Text(note, "cyan") for note in look.notes if note]
    return Group(*parts)


def card_text(card: int) -> Text:
    """One card: 10♦, x小王; what is typed for it comes first."""
    if card in _JOKERS:
        return _JOKERS[card].copy()
    rank = RANKS[rank_of(card)].replace("T", "10")
    return Text(f"{rank}{SUITS[card & 3]}", "red" if card & 3 in _RED else "")


def cards_text(cards: list[int]) -> Text:
    """Cards from the highest to the lowest."""
    return Text(" ").join(card_text(card) for card in sorted(cards, key=lambda card: (-rank_of(card), card)))


def last_text(last: Last) -> Text:
    """What a seat did last."""
    if last is None:
        return Text("")
    if isinstance(last, Combo):
        return Text.assemble(cards_text(list(last.cards)), (f"  {words.combo(last.type)}", "dim"))
    return Text("不要 pass", "dim")


def _header(state: Snapshot) -> RenderableType:
    facts = [words.BOOKS.get(state.terms.book, plain(state.terms.book))]
    if state.base_chips:
        facts.append(f"底分 base {state.base_chips:,}")
    if state.level:
        facts.append(f"档 level {state.level}")
    if state.multiplier:
        made_of = " × ".join(f"{name} {product:,}" for name, product in words.multiplied(state.factors))
        facts.append(f"倍数 multiplier ×{state.multiplier:,}" + (f" = {made_of}" if made_of else ""))
    lines = Text(" · ".join(facts), "bold")
    if state.bottom:
        lines += Text.assemble("\n底牌 bottom ", cards_text(list(state.bottom)))
    if state.HasField("marked_card"):
        lines += Text.assemble("\n明置牌 marked ", card_text(state.marked_card))
    watching = ", ".join(plain(view.observer.display_name) for view in state.observers)
    title = f"{state.hand_id or state.table_id} #{state.seq}"
    return Panel(lines, title=title, subtitle=f"旁观 watching: {watching}" if watching else None, box=box.ROUNDED)


def _seats(state: Snapshot, look: Look) -> RenderableType:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("", "座 seat", "玩家 player", "身份 role", "剩 left", "筹码 chips", "上一手 last", ""):
        table.add_column(heading, no_wrap=heading in ("", "剩 left"))
    for seat in state.seats:
        table.add_row(*_seat(state, seat, look), style="bold" if seat.seat == state.clock.seat else "")
    return table


def _seat(state: Snapshot, seat: SeatView, look: Look) -> list[RenderableType]:
    here = seat.HasField("player")
    name = plain(seat.player.display_name) if here else "空 free"
    mine = seat.seat == state.you and not state.observing
    role = "" if not state.HasField("landlord") else "地主 landlord" if state.landlord == seat.seat else "农民 farmer"
    choice = words.CHOICES.get(seat.rob_choice or seat.choice, "")
    last = look.lasts.seats[seat.seat]
    return [
        "▶" if state.clock.seat == seat.seat else "",
        str(seat.seat),
        Text(f"{name}（你 you）" if mine else name + (" 机器人 bot" if seat.player.bot else "")),
        Text(role, "yellow" if role.startswith("地主") else ""),
        str(seat.cards.count) if state.hand_id else "",
        f"{seat.balance_chips:,}" if seat.balance_chips else "",
        last_text(last) if last is not None else Text(choice),
        Text(" ".join(_marks(state, seat)), "dim"),
    ]


def _marks(state: Snapshot, seat: SeatView) -> list[str]:
    phase = state.clock.phase
    marks = [
        ("托管 trustee", seat.trustee),
        ("离线 away", seat.HasField("player") and not seat.connected and state.seq > 0),
        ("明牌 shown", seat.shown),
        ("许看 observers may look", seat.observers_allowed),
        ("准备 ready", phase == Phase.PHASE_READY and seat.ready),
        ("同意 agreed", phase == Phase.PHASE_AGREE and seat.agreed),
        ("旁观 watched by you", state.observing and seat.seat == state.you),
    ]
    return [mark for mark, is_so in marks if is_so]


def _open_cards(state: Snapshot, seat: SeatView) -> Text | None:
    """The cards of another seat, where this viewer may see them."""
    if not seat.cards.cards or (seat.seat == state.you and not state.observing):
        return None
    return Text.assemble(f"{who(state, seat.seat)}: ", cards_text(list(seat.cards.cards)))


def _own(state: Snapshot) -> Text:
    if state.you < 0 or state.observing or not state.seats[state.you].cards.cards:
        return Text("")
    cards = state.seats[state.you].cards
    return Text.assemble((f"\n你的牌 your cards ({cards.count})\n", "bold"), cards_text(list(cards.cards)), "\n")


def _asked(state: Snapshot, now_ms: int) -> Text:
    question = asks(state)
    clock = ""
    if state.clock.deadline_ms:
        clock = f" ⏱ {max(0, -(-(state.clock.deadline_ms - now_ms) // 1000))} s"
    mine = question.startswith("轮到你")
    return Text(question + clock, "bold green" if mine else "")


def _playing(state: Snapshot) -> bool:
    """Whether a hand is under way: then the last result is old."""
    return Phase.PHASE_OPENING <= state.clock.phase <= Phase.PHASE_SETTLING
