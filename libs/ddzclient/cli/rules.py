"""`ddz rules <verb>`: JSON lines on standard input, one JSON line out for each, in order.

A bad line is answered by {"error": "<reason>: <sentence>"}, the rest go on, and the exit status is 1. Every line may
carry "fields": {…}, which override fields of its book (RULES.md section 3). `ddz rules --help` lists the verbs.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ddzclient.cli.hands import deal, replay, settle
from ddzclient.cli.lines import Line, parse_line, possible
from doudizhu import Combo, Refusal, dump
from doudizhu.cards import RANKS, format_ranks
from doudizhu.combos import Readings, classify, highest_beating
from doudizhu.counts import count
from doudizhu.moves import moves
from doudizhu.packed import Packed, pack_cards, pack_ranks, unpack

Answer = dict[str, object]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the verb, and what each takes and answers to the help."""
    parser.add_argument("verb", choices=VERBS, help="what to ask")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n\n".join(f"{verb}\n{inspect.getdoc(answer)}" for verb, answer in VERBS.items())


def run(arguments: argparse.Namespace) -> int:
    """Answers every line of standard input; 1 when one of them was bad."""
    if sys.stdin is None:  # closed by who started us
        print("ddz rules: there is no standard input to read lines from.", file=sys.stderr)
        return 2
    answer = VERBS[arguments.verb]
    status = 0
    for line in sys.stdin.buffer:
        try:
            found = answer(parse_line(line))
        except Refusal as refused:
            found = {"error": str(refused)}
            status = 1
        print(json.dumps(found), flush=True)
    return status


def _readings(line: Line) -> Answer:
    """{"book", "cards"} -> every reading."""
    return {"readings": sorted(map(_reading, _found(line)))}


def _fields(line: Line) -> Answer:
    """{"book"} -> all fields of the rule book, with those overridden: what docs/own-rule-book.md starts from."""
    return dump(line.book())


def _beats(line: Line) -> Answer:
    """{"book", "cards", "over", "over_type"?, "over_rank"?} -> whether the cards may follow, and read as what."""
    book = line.book()
    beating = highest_beating(book, _found(line), line.over(book))
    return {"beats": beating is not None, "as": beating and _reading(beating)}


def _moves(line: Line) -> Answer:
    """{"book", "hand", "over": cards or null, "over_type"?, "over_rank"?} -> every legal combo, pass left out."""
    book = line.book()
    over = line.over(book) if line.has("over") else None
    return {"moves": sorted(map(_text, moves(book, pack_cards(line.hand("hand")), over)))}


def _count(line: Line) -> Answer:
    """{"book"} -> how many combos of at most 20 cards it has."""
    found = count(line.book())
    return {"readings": found.readings, "distinct": found.distinct, "types": found.types}


VERBS: Final[dict[str, Callable[[Line], Answer]]] = {
    "fields": _fields,
    "readings": _readings,
    "beats": _beats,
    "moves": _moves,
    "count": _count,
    "replay": replay,
    "settle": settle,
    "deal": deal,
}


def _found(line: Line) -> Readings:
    """The readings of the line's cards; cards that no deck has are no combo, whatever the book."""
    book, ranks = line.book(), line.ranks("cards")
    return classify(book, pack_ranks(ranks)) if possible(ranks) else ()


def _reading(combo: Combo) -> list[object]:
    return [combo.type, RANKS[combo.rank], combo.body]


@lru_cache(maxsize=100_000)
def _text(move: Packed) -> str:
    return format_ranks(unpack(move))
