"""The verbs of `ddz rules` about whole hands: replay, settle, deal."""

from __future__ import annotations

from dataclasses import replace

import doudizhu
from ddzclient.cli.lines import Line, check_hands, check_hex, check_integer, check_text, possible, wrong
from doudizhu import Hand, Illegal, Outcome, Phase, Reason, Refusal, RuleBook, Side, Stakes, decide, evolve, start
from doudizhu.cards import format_cards, parse_ranks
from doudizhu.hand import Action, Pass, Play, Won
from doudizhu.moves import cards_of
from doudizhu.packed import fits, pack_cards, pack_ranks
from doudizhu.rulebook import GREATEST_INT64

Answer = dict[str, object]


def replay(line: Line) -> Answer:
    """{"book", "hands": [3], "landlord", "moves": [[seat, cards or ""], …]} -> whether each move was legal, who won.

    The landlord's hand includes the bottom. It stops at the first move that is illegal.
    """
    hand = _in_play(line)
    moves = [_move(item) for item in line.items("moves")]
    winner: int | None = None
    first_illegal: int | None = None
    for index, (seat, ranks) in enumerate(moves):
        try:
            events = decide(hand, _action(hand, seat, ranks))
        except Refusal:
            first_illegal = index
            break
        for event in events:
            hand = evolve(hand, event)
            if isinstance(event, Won):
                winner = event.seat
    return {
        "legal": first_illegal is None,
        "first_illegal": first_illegal,
        "winner": winner,
        "multiplier": hand.multiplier,
    }


def settle(line: Line) -> Answer:
    """The facts of a hand that was won, fled or void -> who pays whom (RULES.md section 10).

    {"book", "base", "level", "multiplier", "flee_multiplier"?, "landlord": seat or null, "winner": "landlord",
    "farmers" or null, "fled": seat or null, "elapsed_s", "balances": [3], "carried"?: [3], "rake", "ratings"?: [3]};
    flee_multiplier is the multiplier and carried the balances where they are left out.
    """
    book = line.book()
    outcome, stakes = _outcome(line, book), _stakes(line)
    for name, multiplier in (("multiplier", outcome.multiplier), ("flee_multiplier", outcome.flee_multiplier)):
        if stakes.base * max(outcome.level, 1) * multiplier * 3 > GREATEST_INT64:
            raise wrong(name, "so small that base x level x multiplier x 3 fits a signed 64-bit integer")
    if outcome.winner is None and outcome.fled is None:
        rating = [0, 0, 0] if book.rated and stakes.ratings is not None else None
        return {"chips": [0, 0, 0], "system": 0, "rating": rating}
    settled = doudizhu.settle(book, outcome, stakes)
    return {"chips": settled.chips, "system": settled.system, "rating": settled.rating}


def deal(line: Line) -> Answer:
    """{"book", "hand_id", "server_seed": hex, "client_seeds": [hex, …]} -> the deal that they determine (D-07)."""
    server_seed = check_hex("server_seed", line.get("server_seed"))
    client_seeds = [check_hex("client_seeds", seed) for seed in line.items("client_seeds")]
    dealt = doudizhu.deal_cards(line.book(), line.text("hand_id"), server_seed, client_seeds)
    return {
        "commitment": doudizhu.commitment(server_seed).hex(),
        "hands": [format_cards(hand) for hand in dealt.hands],
        "bottom": format_cards(dealt.bottom),
        "marked": None if dealt.marked is None else format_cards([dealt.marked]),
    }


def _outcome(line: Line, book: RuleBook) -> Outcome:
    landlord, fled = line.seat("landlord"), line.seat("fled")
    if fled is None:
        line.get("winner")  # null is a hand that was void; left out it is a mistake
    winner = line.text("winner") if line.has("winner") else None
    if winner not in (None, *Side):
        raise wrong("winner", "landlord, farmers or null")
    if winner is not None and fled is not None:
        raise wrong("winner", "null where somebody fled")
    if winner is not None and landlord is None:
        raise wrong("landlord", "a seat where there is a winner")
    multiplier = line.integer("multiplier", 1, GREATEST_INT64)
    elapsed_s = line.integer("elapsed_s", 0, GREATEST_INT64)
    return Outcome(
        winner=None if winner is None else Side(winner),
        landlord=landlord,
        level=line.integer("level", 0 if landlord is None else 1, 1 if book.auction == "call_rob" else 3),
        multiplier=multiplier,
        fled=fled,
        flee_multiplier=_flee_multiplier(line, multiplier),
        elapsed_s=elapsed_s,
    )


def _flee_multiplier(line: Line, multiplier: int) -> int:
    return line.integer("flee_multiplier", 1, GREATEST_INT64) if line.has("flee_multiplier") else multiplier


def _stakes(line: Line) -> Stakes:
    balances = line.integers("balances")
    return Stakes(
        base=line.integer("base", 1, GREATEST_INT64),
        rake=line.integer("rake", 0, GREATEST_INT64),
        balances=balances,
        carried=line.integers("carried") if line.has("carried") else balances,
        ratings=line.integers("ratings") if line.has("ratings") else None,
    )


def _in_play(line: Line) -> Hand:
    one, two, three = check_hands("hands", [check_text("hands", text) for text in line.items("hands", 3)])
    landlord = line.integer("landlord", 0, 2)
    return replace(
        start(line.book()),
        phase=Phase.PLAY,
        hands=(one, two, three),
        counts=(len(one), len(two), len(three)),
        landlord=landlord,
        turn=landlord,
        level=1,
        deals=1,
    )


def _move(item: object) -> tuple[int, tuple[int, ...]]:
    if not isinstance(item, list) or len(item) != 2:
        raise wrong("moves", "a list of [seat, cards]")
    return check_integer("a seat of moves", item[0], 0, 2), parse_ranks(check_text("moves", item[1]))


def _action(hand: Hand, seat: int, ranks: tuple[int, ...]) -> Action:
    if not ranks:
        return Pass(seat)
    held = hand.held(seat)
    if not possible(ranks) or not fits(pack_ranks(ranks), pack_cards(held)):
        raise Illegal(Reason.CARD_NOT_HELD, f"seat {seat} does not hold these cards", field="moves")
    return Play(seat, cards_of(pack_ranks(ranks), held))
