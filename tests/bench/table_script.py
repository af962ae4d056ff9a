"""Whole hands of `rob` as scripts: deals follow from a seed that the table is given, so every action is known before.

The load driver only sends bytes and counts answers; what it costs does not hide what the server costs.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import doudizhu
from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import table_pb2
from doudizhu import hand as rules
from doudizhu.cards import rank_of

DEAL_SEED: Final = bytes.fromhex("5eed" * 16)
TERMS: Final = common_pb2.Terms(
    room_id="bench",
    book="rob",
    base_min_chips=1,
    base_max_chips=1,
    initial_multiplier=1,
    matched=True,
    clocks=common_pb2.Clocks(
        **dict.fromkeys(("auction_ms", "show_ms", "first_lead_ms", "play_ms", "trustee_ms"), 600000)
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command: whose, and what."""

    seat: int
    command: table_pb2.Command


Choose = Callable[[rules.Hand, int], rules.Action]


def hand_script(table_id: str, number: int, choose: Choose | None = None) -> list[Step]:
    """Every command of a hand, by `choose` or so: the first asked calls, who leads plays his weakest, who can follow a
    single does.
    """
    deal_id = f"{table_id}-{number}"
    seed = hmac.digest(DEAL_SEED, deal_id.encode(), "sha256")
    hand = doudizhu.start(doudizhu.ROB)
    hand = _after(hand, rules.DealCards(doudizhu.deal_cards(doudizhu.ROB, deal_id, seed)))
    hand = _after(hand, rules.CloseShowWindow())
    steps: list[Step] = []
    while hand.phase is not rules.Phase.OVER:
        assert hand.turn is not None
        action = (choose or _choose)(hand, hand.turn)
        steps.append(Step(hand.turn, _command(action, f"{number}-{len(steps)}")))
        hand = _after(hand, action)
    return steps


def _after(hand: rules.Hand, action: rules.Action) -> rules.Hand:
    for event in doudizhu.decide(hand, action):
        hand = doudizhu.evolve(hand, event)
    return hand


def _choose(hand: rules.Hand, seat: int) -> rules.Action:
    if hand.phase is rules.Phase.CALL:
        return rules.Call(seat, True)
    if hand.on_table is not None and hand.on_table.type == "single":
        for card in hand.held(seat):
            if rank_of(card) > hand.on_table.rank:
                return rules.Play(seat, (card,))
    return doudizhu.default_action(hand)


def _command(action: rules.Action, command_id: str) -> table_pb2.Command:
    command = table_pb2.Command(command_id=command_id)
    match action:
        case rules.Call():
            command.call.call = action.call
        case rules.Rob():
            command.rob.rob = action.rob
        case rules.Show():
            command.show.show = action.show
        case rules.Play():
            command.play.CopyFrom(hand_pb2.PlayCards(cards=action.cards))
        case _:
            getattr(command, "pass").SetInParent()
    return command
