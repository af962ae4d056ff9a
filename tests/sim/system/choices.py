"""What a simulated player does when the table waits for him: quick choices, mostly sensible, all of them legal."""

from __future__ import annotations

import random
from typing import Any, Final

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import table_pb2
from doudizhu.hand import Hand, Phase
from doudizhu.moves import cards_of, moves
from doudizhu.packed import Packed, pack_cards

Action = dict[str, Any]  # the one field of a Command's oneof

_LOOKED_AT: Final = 16


def choose(hand: Hand, seat: int, rng: random.Random, passes: float) -> Action:
    """An action of the seat on turn; `passes`: how often it passes though it could follow."""
    match hand.phase:
        case Phase.BID:
            levels = [level for level in (1, 2, 3) if level > hand.level]
            return {"bid": hand_pb2.Bid(level=rng.choice(levels) if levels and rng.random() < 0.35 else 0)}
        case Phase.CALL:
            return {"call": hand_pb2.Call(call=rng.random() < 0.5)}
        case Phase.ROB:
            return {"rob": hand_pb2.Rob(rob=rng.random() < 0.4)}
        case Phase.SHOW:
            return {"show": hand_pb2.Show(show=rng.random() < 0.3)}
    if hand.on_table is not None and rng.random() < passes:
        return {"pass": hand_pb2.Pass()}
    held = hand.held(seat)
    found = moves(hand.book, pack_cards(held), hand.on_table)
    if not found:
        return {"pass": hand_pb2.Pass()}
    looked_at = found if len(found) <= _LOOKED_AT else rng.sample(found, _LOOKED_AT)
    return {"play": hand_pb2.PlayCards(cards=cards_of(max(looked_at, key=_size), held))}


def _size(packed: Packed) -> int:
    size = 0
    while packed:
        size += packed & 7
        packed >>= 4
    return size


def nonsense(rng: random.Random) -> Action:
    """Something that is refused nearly always: foreign cards, cards that come twice, choices out of place."""
    return rng.choice(
        (
            {"play": hand_pb2.PlayCards(cards=rng.sample(range(54), rng.randint(1, 5)))},
            {"play": hand_pb2.PlayCards(cards=[7, 7])},
            {"pass": hand_pb2.Pass()},
            {"bid": hand_pb2.Bid(level=rng.randint(0, 3))},
            {"call": hand_pb2.Call(call=True)},
            {"rob": hand_pb2.Rob(rob=True)},
            {"show": hand_pb2.Show(show=True)},
            {"set_base": table_pb2.SetBase(base_chips=rng.randint(1, 100))},
            {"answer_base": table_pb2.AnswerBase(agree=True)},
            {"ready": table_pb2.Ready(ready=rng.random() < 0.7)},
            {"give_seed": table_pb2.GiveSeed(seed=rng.randbytes(8))},
        )
    )
