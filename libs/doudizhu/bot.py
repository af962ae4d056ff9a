"""A sensible player: bids on the strength of its hand, works with its fellow farmer, keeps bombs, plays out endings.

`choose` sees what its seat may know and nothing else, and is a pure function of it: the same view and seed give the
same action. It always answers a legal action.
"""

from __future__ import annotations

import hashlib
from typing import Final

from doudizhu.cards import BIG_JOKER, SMALL_JOKER
from doudizhu.combo import Combo, is_bomb
from doudizhu.hand import Action, Bid, Call, CloseShowWindow, Hand, Phase, Play, Rob, Show
from doudizhu.legal import default_action
from doudizhu.moves import cards_of, moves
from doudizhu.packed import Packed, pack_cards
from doudizhu.plan import TURN, cost, plan
from doudizhu.play import may_bomb
from doudizhu.rulebook import RuleBook
from doudizhu.table import table_of

# Strength in the auction: what wins the lead, less the turns it takes to get rid of the rest.
_BID_ONE, _BID_TWO, _BID_THREE, _CALL, _ROB, _SHOW = 4, 6, 8, 4, 7, 12
_CONTROLS: Final = {14: 4, 13: 3, 12: 2}  # rank index -> points a card
_MANY: Final = 16  # follows worth a closer look


def choose(view: Hand, seat: int, seed: int = 0) -> Action:
    """The action of `seat`, whose turn it is (or anybody's, in the show window); `view` is what that seat knows.

    `seed` gives bots different tempers: it shifts their bidding by at most one point.
    """
    match view.phase:
        case Phase.SHOW_WINDOW:
            return CloseShowWindow()
        case Phase.BID:
            return Bid(seat, _level(view, _strength(view, seat) + _temper(view, seat, seed)))
        case Phase.CALL:
            return Call(seat, _strength(view, seat) + _temper(view, seat, seed) >= _CALL)
        case Phase.ROB:
            return Rob(seat, _strength(view, seat) + _temper(view, seat, seed) >= _ROB)
        case Phase.SHOW if _strength(view, seat) >= _SHOW:
            return Show(seat, True)
    hand = pack_cards(view.held(seat))
    move = _lead(view, seat, hand) if view.on_table is None else _follow(view, seat, hand, view.on_table)
    if move is None:
        return default_action(view)
    return Play(seat, cards_of(move, view.held(seat)))


# ---- the auction --------------------------------------------------------------------------------------------------


def _strength(view: Hand, seat: int) -> int:
    held = view.held(seat)
    packed = pack_cards(held)
    points = sum(value * (packed >> 4 * rank & 7) for rank, value in _CONTROLS.items())
    points += 4 * sum(packed >> 4 * rank & 7 == 4 for rank in range(13))
    points += 2 if SMALL_JOKER in held and BIG_JOKER in held else 0
    turns = cost(packed) // TURN
    return points + 5 - turns


def _temper(view: Hand, seat: int, seed: int) -> int:
    drawn = hashlib.sha256(f"{seed}.{seat}.{view.held(seat)}".encode()).digest()[0]
    return drawn % 3 - 1 if seed else 0


def _level(view: Hand, strength: int) -> int:
    wanted = (strength >= _BID_ONE) + (strength >= _BID_TWO) + (strength >= _BID_THREE)
    return wanted if wanted > view.level else 0


# ---- play ---------------------------------------------------------------------------------------------------------


def _enemies(view: Hand, seat: int) -> tuple[int, ...]:
    if seat == view.landlord:
        return tuple(other for other in range(3) if other != seat)
    assert view.landlord is not None
    return (view.landlord,)


def _reading(book: RuleBook, packed: Packed) -> Combo:
    return table_of(book).readings[packed][0]


def _is_combo(book: RuleBook, packed: Packed) -> bool:
    return packed in table_of(book).readings


def _usable(view: Hand, seat: int, found: list[Packed]) -> list[Packed]:
    if may_bomb(view, seat):
        return found
    return [move for move in found if not is_bomb(_reading(view.book, move))]


def _lead(view: Hand, seat: int, hand: Packed) -> Packed | None:
    """The weakest group of the plan; controls first when the rest is one group; never what an enemy waits for."""
    book = view.book
    if _is_combo(book, hand) and _usable(view, seat, [hand]):
        return hand
    groups = _usable(view, seat, list(plan(hand).groups))
    combos = [(group, _reading(book, group)) for group in groups]
    sure = [group for group, combo in combos if _unbeatable(view, seat, combo, group)]
    if sure and len(groups) - len(sure) <= 1:
        return max(sure)
    fewest = min(view.counts[enemy] for enemy in _enemies(view, seat))
    partner = _partner(view, seat)
    if partner is not None and view.counts[partner] <= 2 and fewest > view.counts[partner]:
        size = view.counts[partner]
        gifts = [group for group in _usable(view, seat, moves(book, hand)) if _size(group) == size]
        if gifts:
            return min(gifts)
    safe = [(group, combo) for group, combo in combos if _size(group) != fewest or fewest > 2]
    if not safe:
        found = [group for group, _ in combos]
        return max(found) if found else None
    return min(safe, key=lambda entry: _lead_order(*entry))[0]


def _partner(view: Hand, seat: int) -> int | None:
    return None if seat == view.landlord else 3 - seat - (view.landlord or 0)


def _size(packed: Packed) -> int:
    total = 0
    while packed:
        total += packed & 7
        packed >>= 4
    return total


def _lead_order(group: Packed, combo: Combo) -> tuple[bool, int]:
    """Bombs last; else by rank, where a long combo goes before a short one of the same rank."""
    return is_bomb(combo), 3 * combo.rank - 2 * _size(group)


def _unbeatable(view: Hand, seat: int, combo: Combo, group: Packed) -> bool:
    """Whether no enemy can have an answer, as far as counts and own cards tell."""
    if combo.type == "rocket":
        return True
    held = view.held(seat)
    most = max(view.counts[enemy] for enemy in _enemies(view, seat))
    rocket_out = most >= 2 and SMALL_JOKER not in held and BIG_JOKER not in held
    if combo.type == "bomb":
        return not rocket_out and (most < 4 or combo.rank == 12)
    if rocket_out or most >= 4:
        return combo.type == "single" and combo.rank == 14 and most < 4
    return most < _size(group) or (combo.type == "single" and combo.rank == 14)


def _follow(view: Hand, seat: int, hand: Packed, over: Combo) -> Packed | None:
    """The answer that leaves the cheapest hand, if beating is worth it; None = pass."""
    book = view.book
    found = _usable(view, seat, moves(book, hand, over))
    if hand in found:
        return hand
    assert view.on_table_seat is not None
    enemies = _enemies(view, seat)
    against_enemy = view.on_table_seat in enemies
    fewest = min(view.counts[enemy] for enemy in enemies)
    plain = sorted(move for move in found if not is_bomb(_reading(book, move)))[:_MANY]
    if not against_enemy:
        return _over_partner(view, hand, plain)
    if plain and fewest <= 1 and over.type == "single":
        return max(plain)
    before = cost(hand)
    rated = [(before - cost(hand - move), -index, move) for index, move in enumerate(plain)]
    least_gain = -60 if fewest <= 2 else -15 if fewest <= 5 else -5
    if rated and max(rated)[0] >= least_gain:
        return max(rated)[2]
    return _bomb(hand, [move for move in found if move not in plain], fewest)


def _over_partner(view: Hand, hand: Packed, plain: list[Packed]) -> Packed | None:
    """A fellow farmer leads the trick: only a cheap low card on a low one, or whatever goes out next turn."""
    book = view.book
    for move in plain:
        rest = hand - move
        if _is_combo(book, rest) and _reading(book, move).rank >= 11:
            return move
    assert view.on_table_seat is not None
    if view.counts[view.on_table_seat] <= 3:
        return None
    before = cost(hand)
    for move in plain:
        if _reading(book, move).rank <= 9 and before - cost(hand - move) >= TURN - 1:
            return move
    return None


def _bomb(hand: Packed, bombs: list[Packed], fewest: int) -> Packed | None:
    """The lowest bomb, when an enemy is about to go out or what is left goes out in two turns."""
    for move in sorted(bombs):
        rest = plan(hand - move)
        if fewest <= 4 or len(rest.groups) <= 2:
            return move
    return None
