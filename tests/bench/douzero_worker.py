"""Runs DouZero's move generator for bench_rules.py, in an interpreter of its own.

The first line of standard input is the workload; every other line names a part of it to run and is answered by the
CPU seconds it took. "moves" answers the generator's moves instead, to see that both sides do the same work.
DouZero writes ranks as 3..14, 17 the two, 20 and 30 the jokers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from douzero.env import move_detector, move_selector  # type: ignore[import-not-found]
from douzero.env.move_generator import MovesGener  # type: ignore[import-not-found]
from turns import turn  # type: ignore[import-not-found]

Ranks = list[int]

_SERIALS = range(8, 13)  # types whose generator takes the rival's length
_BOMB, _ROCKET = 4, 5


def _by_type(module_or_generator: object, prefix: str) -> dict[int, Any]:
    """Its functions named like `filter_type_6_3_1`, by the number."""
    names = [name for name in dir(module_or_generator) if name.startswith(prefix)]
    return {int(name.removeprefix(prefix).split("_")[0]): getattr(module_or_generator, name) for name in names}


_generators = _by_type(MovesGener, "gen_type_")
_filters = _by_type(move_selector, "filter_type_")


def lead(hand: Ranks) -> list[Ranks]:
    return MovesGener(hand).gen_moves()  # type: ignore[no-any-return]


def follow(hand: Ranks, rival: Ranks) -> list[Ranks]:
    """What DouZero's game offers a seat over a rival move, pass left out."""
    generator = MovesGener(hand)
    found = move_detector.get_move_type(rival)
    kind = found["type"]
    if kind == _ROCKET:
        return []
    bombs = generator.gen_type_4_bomb()
    if kind == _BOMB:
        return move_selector.filter_type_4_bomb(bombs, rival) + generator.gen_type_5_king_bomb()  # type: ignore[no-any-return]
    if kind in _SERIALS:
        moves = _generators[kind](generator, repeat_num=found.get("len", 1))
    else:
        moves = _generators[kind](generator)
    return _filters[kind](moves, rival) + bombs + generator.gen_type_5_king_bomb()  # type: ignore[no-any-return]


def main() -> None:
    work = json.loads(sys.stdin.readline())

    def classify_all() -> None:
        for cards in work["classify"]:
            move_detector.get_move_type(cards)

    def lead_all(hands: list[Ranks]) -> None:
        for hand in hands:
            lead(hand)

    def follow_all() -> None:
        for hand, rival in work["follow17"]:
            follow(hand, rival)

    parts: dict[str, Callable[[], None]] = {
        "classify": classify_all,
        "lead17": lambda: lead_all(work["lead17"]),
        "lead20": lambda: lead_all(work["lead20"]),
        "follow17": follow_all,
    }
    for line in sys.stdin:
        name = line.strip()
        if name == "moves":
            leads = [lead(hand) for hand in work["lead17"] + work["lead20"]]
            answer: object = leads + [follow(hand, rival) for hand, rival in work["follow17"]]
        else:
            answer = turn(parts[name])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
