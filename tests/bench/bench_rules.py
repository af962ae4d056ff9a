"""`make bench-rules`: how fast combos are read and legal moves found, beside DouZero's generator (PyPI `douzero`).

The same seeded hands for both, in turns within one run, in CPU seconds; each side gets them in the form it works
with (cards here, rank lists there). The last line is one JSON object: operations per second and their ratios.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from doudizhu import decide, evolve, start
from doudizhu.cards import DECK, rank_of
from doudizhu.combos import Combo, all_readings, readings
from doudizhu.moves import cards_of, moves
from doudizhu.packed import RANK_BITS, pack_cards
from doudizhu.rulebook import ROB
from tests.bench.turns import turn
from tests.rules.build import playout

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = ROOT / ".run" / "douzero-venv"
DOUZERO: Final = "douzero==1.1.0"
SEED: Final = 20
HANDS: Final = 800
WHOLE_HANDS: Final = 50
ROUNDS: Final = 9
PARTS: Final = ("classify", "lead17", "lead20", "follow17")

Cards = tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """What both sides do: sets of cards to read, hands to lead from, and hands with a combo to follow."""

    classify: list[Cards]
    lead17: list[Cards]
    lead20: list[Cards]
    follow17: list[tuple[Cards, Combo]]


def make_work() -> Work:
    """Deals HANDS times: leads of a farmer and of the landlord, and the answer to a random lead of the landlord."""
    rng = random.Random(SEED)
    work = Work([], [], [], [])
    for _ in range(HANDS):
        deck = rng.sample(DECK, len(DECK))
        farmer, landlord = tuple(sorted(deck[:17])), tuple(sorted(deck[17:37]))
        leads = moves(ROB, pack_cards(landlord))
        over = rng.choice(leads)
        on_table = readings(ROB, cards_of(over, landlord))[0]
        work.lead17.append(farmer)
        work.lead20.append(landlord)
        work.follow17.append((farmer, on_table))
        work.classify.extend([cards_of(move, landlord) for move in (over, *rng.choices(leads, k=3))])
        work.classify.append(tuple(sorted(rng.sample(landlord, rng.randint(2, 8)))))
    return work


def douzero_ranks(cards: Cards) -> list[int]:
    """Cards in DouZero's numbers: 3..14, 17 the two, 20 and 30 the jokers."""
    return [(*range(3, 15), 17, 20, 30)[rank_of(card)] for card in cards]


def our_parts(work: Work) -> dict[str, Callable[[], None]]:
    """The measured loops, each from cards."""

    readings_of = all_readings(ROB).get

    def classify_all() -> None:
        for cards in work.classify:
            readings_of(pack_cards(cards), ())

    def lead_all(hands: list[Cards]) -> None:
        for hand in hands:
            moves(ROB, pack_cards(hand))

    def follow_all() -> None:
        for hand, over in work.follow17:
            moves(ROB, pack_cards(hand), over)

    return {
        "classify": classify_all,
        "lead17": lambda: lead_all(work.lead17),
        "lead20": lambda: lead_all(work.lead20),
        "follow17": follow_all,
    }


class DouZero:
    """The worker process and its environment, which is made at the first run."""

    def __init__(self, work: Work) -> None:
        python = ENVIRONMENT / "bin" / "python"
        if not (ENVIRONMENT / "ready").exists():
            venv.create(ENVIRONMENT, with_pip=True, clear=True)
            for packages in (["numpy"], ["--no-deps", DOUZERO]):
                subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
            (ENVIRONMENT / "ready").touch()
        worker = Path(__file__).with_name("douzero_worker.py")
        self._process = subprocess.Popen(
            [python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._send(
            json.dumps(
                {
                    "classify": [douzero_ranks(cards) for cards in work.classify],
                    "lead17": [douzero_ranks(hand) for hand in work.lead17],
                    "lead20": [douzero_ranks(hand) for hand in work.lead20],
                    "follow17": [(douzero_ranks(hand), douzero_ranks(over.cards)) for hand, over in work.follow17],
                }
            )
        )

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def ask(self, name: str) -> object:
        self._send(name)
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


def check_same_moves(work: Work, douzero: DouZero) -> None:
    """Both sides must find the same moves on every hand, or their speeds say nothing."""
    ours = [moves(ROB, pack_cards(hand)) for hand in work.lead17 + work.lead20]
    ours += [moves(ROB, pack_cards(hand), over) for hand, over in work.follow17]
    numbers = dict(zip(douzero_ranks(DECK), map(rank_of, DECK), strict=True))
    theirs = douzero.ask("moves")
    assert isinstance(theirs, list)
    for own, other in zip(ours, theirs, strict=True):
        assert set(own) == {sum(RANK_BITS[numbers[number]] for number in move) for move in other}


def measure(work: Work, douzero: DouZero) -> dict[str, float]:
    """Operations per second of both sides and their ratio, each the median of ROUNDS turns."""
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in PARTS}
    for _ in range(ROUNDS):
        for name, run in our_parts(work).items():
            own, other = turn(run), douzero.ask(name)
            assert isinstance(other, float)
            rates[name].append((len(getattr(work, name)) / own, len(getattr(work, name)) / other))
    result: dict[str, float] = {}
    for name, pairs in rates.items():
        result[f"{name}_per_s"] = round(statistics.median(own for own, _ in pairs))
        result[f"douzero_{name}_per_s"] = round(statistics.median(other for _, other in pairs))
        result[f"ratio_{name}"] = round(statistics.median(own / other for own, other in pairs), 2)
    return result


def decide_evolve_us() -> float:
    """CPU microseconds of a whole `decide` and the `evolve` of its events, the mean over random whole hands."""
    rng = random.Random(SEED)
    actions = [[action for _, action, _ in playout(ROB, rng)] for _ in range(WHOLE_HANDS)]

    def replay_all() -> None:
        for of_hand in actions:
            hand = start(ROB)
            for action in of_hand:
                for event in decide(hand, action):
                    hand = evolve(hand, event)

    spent = statistics.median(turn(replay_all) for _ in range(ROUNDS))
    return round(spent * 1e6 / sum(map(len, actions)), 2)


def main() -> None:
    work = make_work()
    douzero = DouZero(work)
    try:
        check_same_moves(work, douzero)
        print(f"the same moves on {3 * HANDS} hands; {ROUNDS} rounds in turns, CPU time", file=sys.stderr)
        result = {**measure(work, douzero), "decide_evolve_us": decide_evolve_us()}
    finally:
        douzero.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
