"""`make bench-bots`: the bot against a player of random legal moves, on equal deals.

Every deal is played twice with the same auction (by the bot's rules for all three seats): once the bot is landlord and
the random players are farmers, once the other way round. Win rates come with 95 % Wilson intervals. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

from rich.console import Console
from rich.progress import track

from ddzclient import bot
from doudizhu import BOOKS, Hand, Phase, RuleBook, Side, deal_cards, decide, evolve, legal_actions, outcome, start, view
from doudizhu.hand import Action, CloseShowWindow, DealCards

Z_95: Final = 1.96
SIDES: Final = (Side.LANDLORD, Side.FARMERS)


@dataclass
class Tally:
    """Hands and wins of the bot by book and side, and how long it thought."""

    hands: dict[tuple[str, Side], int] = field(default_factory=dict)
    wins: dict[tuple[str, Side], int] = field(default_factory=dict)
    thought_s: list[float] = field(default_factory=list)

    def add(self, book: str, side: Side, won: bool) -> None:
        self.hands[book, side] = self.hands.get((book, side), 0) + 1
        self.wins[book, side] = self.wins.get((book, side), 0) + won


def play(book: RuleBook, deal_id: str, side: Side, thought_s: list[float]) -> bool:
    """One hand with the bot on one side; whether it won."""
    rng = random.Random(f"{deal_id}.{side}")
    hand = start(book)
    while hand.phase is not Phase.OVER:
        if hand.phase is Phase.AWAIT_DEAL:
            name = f"{deal_id}.{hand.deals}"
            action: Action = DealCards(deal_cards(book, name, hashlib.sha256(name.encode()).digest()))
        elif hand.turn is None:
            action = CloseShowWindow()
        else:
            action = _act(hand, hand.turn, side, rng, thought_s)
        for event in decide(hand, action):
            hand = evolve(hand, event)
        if hand.voided:  # three passes: the next deal of the same hand
            hand = Hand(book=book, deals=hand.deals)
    return outcome(hand).winner is side


def _act(hand: Hand, seat: int, side: Side, rng: random.Random, thought_s: list[float]) -> Action:
    on_side = hand.landlord is None or (seat == hand.landlord) == (side is Side.LANDLORD)
    if not on_side:
        return rng.choice(legal_actions(hand, seat))
    seen = view(hand, seat)
    began = time.perf_counter()
    action = bot.choose(seen, seat)
    thought_s.append(time.perf_counter() - began)
    return action


def wilson(wins: int, hands: int) -> tuple[float, float]:
    """The 95 % interval of a win rate."""
    rate = wins / hands
    centre = rate + Z_95**2 / (2 * hands)
    spread = Z_95 * sqrt(rate * (1 - rate) / hands + Z_95**2 / (4 * hands**2))
    return (centre - spread) / (1 + Z_95**2 / hands), (centre + spread) / (1 + Z_95**2 / hands)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays the bot against random legal moves on equal deals.")
    parser.add_argument("--hands", type=int, default=2000, help="an even number; each deal is played from both sides")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tally = Tally()
    books = list(BOOKS.values())
    for number in track(range(arguments.hands // 2), "Playing", console=Console(file=sys.stderr)):
        book = books[number % len(books)]
        for side in SIDES:
            tally.add(book.id, side, play(book, f"{arguments.seed}.{number}", side, tally.thought_s))
    print(json.dumps(report(tally)))
    return 0


def report(tally: Tally) -> dict[str, object]:
    """Prints a line for each book and side, and returns the figures."""
    groups = {f"{book} as {side}": [(book, side)] for book, side in sorted(tally.hands)}
    groups |= {str(side): [key for key in tally.hands if key[1] is side] for side in SIDES}
    groups["both"] = list(tally.hands)
    figures: dict[str, object] = {}
    for name, keys in groups.items():
        wins, hands = (sum(counts[key] for key in keys) for counts in (tally.wins, tally.hands))
        low, high = wilson(wins, hands)
        print(f"{name:22} {wins:5} of {hands:5}  {wins / hands:6.1%}  (95 %: {low:.1%} to {high:.1%})")
        if " as " not in name:
            figures[name] = {
                "hands": hands,
                "rate": round(wins / hands, 4),
                "low": round(low, 4),
                "high": round(high, 4),
            }
    thought = sorted(tally.thought_s)
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        figures[f"{name}_us"] = round(thought[int(len(thought) * share)] * 1e6, 1)
    return figures


if __name__ == "__main__":
    sys.exit(main())
