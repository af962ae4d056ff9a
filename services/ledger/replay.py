"""A record played again by the rules core: the deal from its seeds, every action, and what they come to."""

from __future__ import annotations

from ddz.common.v1 import hand_pb2
from doudizhu.cards import RANKS
from doudizhu.deal import commitment, deal_cards
from doudizhu.decider import decide, evolve, outcome, start
from doudizhu.hand import Action, Bid, Call, CloseShowWindow, DealCards, Flee, Hand, Pass, Phase, Play, Rob, Show
from doudizhu.refusal import Refusal
from doudizhu.rulebook import RuleBook
from doudizhu.settle import Outcome


class Contradiction(Exception):
    """A record contradicts itself or the rules; the message says where."""


def replay(record: hand_pb2.HandRecord, book: RuleBook) -> Outcome:
    """The outcome of the actions of a record; raises Contradiction when they are not one whole hand of the book."""
    hand = start(book, record.terms.initial_multiplier or 1, record.redeals)
    for number, recorded in enumerate(record.actions):
        try:
            for event in decide(hand, _action(record, recorded, hand)):
                hand = evolve(hand, event)
        except Refusal as refusal:
            raise Contradiction(f"action {number} is against the rules: {refusal.message}") from None
    if hand.phase is not Phase.OVER or hand.voided:
        raise Contradiction(f"its {len(record.actions)} actions leave the hand in the phase {hand.phase}")
    return outcome(hand)


def _action(record: hand_pb2.HandRecord, recorded: hand_pb2.HandAction, hand: Hand) -> Action:
    seat = recorded.seat
    match recorded.WhichOneof("action"):
        case "deal":
            return _deal(record.hand_id, recorded.deal, hand)
        case "close_show":
            return CloseShowWindow()
        case "bid":
            return Bid(seat, recorded.bid.level)
        case "call":
            return Call(seat, recorded.call.call)
        case "rob":
            return Rob(seat, recorded.rob.rob)
        case "show":
            return Show(seat, recorded.show.show)
        case "play":
            play = recorded.play
            rank = RANKS.index(play.rank) if play.rank else None
            return Play(seat, tuple(play.cards), play.type or None, rank)
        case "pass":
            return Pass(seat)
        case "flee":
            return Flee(seat, recorded.flee.elapsed_s)
        case unknown:
            raise Contradiction(f"there is no action {unknown}")


def _deal(hand_id: str, proof: hand_pb2.DealProof, hand: Hand) -> DealCards:
    """The deal that the proof's seeds make; each deal of a hand has an id of its own."""
    expected = hand_id if hand.deals == 0 else f"{hand_id}.{hand.deals}"
    if proof.deal_id != expected:
        raise Contradiction(f"the deal is {proof.deal_id!r}, not {expected!r}")
    if len(proof.server_seed) != 32 or commitment(proof.server_seed) != proof.commitment:
        raise Contradiction(f"the seed of the deal {proof.deal_id} is not the one that was committed to")
    return DealCards(deal_cards(hand.book, proof.deal_id, proof.server_seed, tuple(proof.client_seeds)))
