"""Records of whole hands, played by random legal choices: what a table would hand in."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

from ddz.common.v1 import common_pb2, hand_pb2
from doudizhu import (
    BOOKS,
    Hand,
    Phase,
    RuleBook,
    Side,
    commitment,
    deal_cards,
    decide,
    default_action,
    evolve,
    legal_actions,
    outcome,
    start,
)
from doudizhu.cards import RANKS
from doudizhu.hand import Action, Bid, Call, CloseShowWindow, DealCards, Flee, Pass, Play, Rob, Show

_SIDES = {None: hand_pb2.SIDE_UNSPECIFIED, Side.LANDLORD: hand_pb2.SIDE_LANDLORD, Side.FARMERS: hand_pb2.SIDE_FARMERS}
_ACTION_MS = 700


def played(
    rng: random.Random, hand_id: str, players: Sequence[str], *, book: str = "rob", base: int = 1, rake: int = 0,
    flee_after: int | None = None, quick: bool = False,
) -> hand_pb2.HandRecord:  # fmt: skip
    """The record of a hand that is won, or fled after so many actions; a hand in vain is dealt anew.

    `quick`: everybody lets his clock run out once the play begins, which is ten times as fast to make.
    """
    rules, record = BOOKS[book], None
    while record is None:
        record = _play(rng, rules, hand_id, flee_after, quick)
    record.terms.CopyFrom(
        common_pb2.Terms(
            room_id=f"{book}_room", book=book, base_min_chips=base, base_max_chips=base, initial_multiplier=1,
            rake_chips=rake, minimum_chips=0, clocks=common_pb2.Clocks(auction_ms=10_000, play_ms=20_000),
            matched=book == "rob",
        )
    )  # fmt: skip
    record.table_id, record.base_chips = hand_id.rpartition("-")[0], base
    record.players.extend(
        common_pb2.Player(player_id=player_id, display_name=f"Player {player_id}") for player_id in players
    )
    return record


def _play(
    rng: random.Random, rules: RuleBook, hand_id: str, flee_after: int | None, quick: bool
) -> hand_pb2.HandRecord | None:
    hand = start(rules)
    now_ms = 1_790_000_000_000 + rng.randrange(10**9)
    record = hand_pb2.HandRecord(hand_id=hand_id, record_version=1, started_at_ms=now_ms)
    while hand.phase is not Phase.OVER:
        if hand.phase is Phase.AWAIT_DEAL:
            deal_id = hand_id if hand.deals == 0 else f"{hand_id}.{hand.deals}"
            seed = hashlib.sha256(rng.randbytes(8)).digest()
            proof = hand_pb2.DealProof(
                deal_id=deal_id, commitment=commitment(seed), server_seed=seed, client_seeds=[b""] * 3
            )
            action: Action = DealCards(deal_cards(rules, deal_id, seed))
            record.actions.append(hand_pb2.HandAction(seat=-1, at_ms=now_ms, deal=proof))
        else:
            if len(record.actions) == flee_after:
                action = Flee(rng.randrange(3), (now_ms - record.started_at_ms) // 1000)
            else:
                action = default_action(hand) if quick and hand.phase is Phase.PLAY else _choice(rng, hand)
            record.actions.append(_recorded(action, now_ms))
        for event in decide(hand, action):
            hand = evolve(hand, event)
        now_ms += _ACTION_MS
    if hand.voided:
        return None
    record.ended_at_ms = now_ms
    end = outcome(hand)
    record.outcome.CopyFrom(
        hand_pb2.Outcome(
            winner=_SIDES[end.winner], landlord=end.landlord, level=end.level, multiplier=end.multiplier, fled=end.fled,
            flee_multiplier=end.flee_multiplier, elapsed_s=end.elapsed_s,
        )
    )  # fmt: skip
    return record


def _choice(rng: random.Random, hand: Hand) -> Action:
    if hand.phase is Phase.SHOW_WINDOW:
        return CloseShowWindow()
    assert hand.turn is not None
    choices = legal_actions(hand, hand.turn)
    plays = [each for each in choices if isinstance(each, Play)]
    # Put down many cards, mostly: so long is a hand of people.
    return max(plays, key=lambda each: len(each.cards)) if plays and rng.random() < 0.7 else rng.choice(choices)


def _recorded(action: Action, at_ms: int) -> hand_pb2.HandAction:
    made: dict[str, Any]
    match action:
        case CloseShowWindow():
            return hand_pb2.HandAction(seat=-1, at_ms=at_ms, close_show=hand_pb2.CloseShow())
        case Bid(level=level):
            made = {"bid": hand_pb2.Bid(level=level)}
        case Call(call=call):
            made = {"call": hand_pb2.Call(call=call)}
        case Rob(rob=rob):
            made = {"rob": hand_pb2.Rob(rob=rob)}
        case Show(show=show):
            made = {"show": hand_pb2.Show(show=show)}
        case Play(cards=cards, type=type_id, rank=rank):
            made = {
                "play": hand_pb2.PlayCards(cards=cards, type=type_id or "", rank="" if rank is None else RANKS[rank])
            }
        case Pass():
            made = {"pass": hand_pb2.Pass()}
        case Flee(elapsed_s=elapsed_s):
            made = {"flee": hand_pb2.Flee(elapsed_s=elapsed_s)}
        case _:
            raise AssertionError(action)
    return hand_pb2.HandAction(seat=action.seat, at_ms=at_ms, **made)
