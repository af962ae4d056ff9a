"""The rules of Dou Dizhu: pure values and functions, no clock, no randomness, no I/O (docs/architecture.md).

This is the public door: what is listed here is what other packages may rely on. The actions and events of a hand are
in `doudizhu.hand`, combos and legal moves in `doudizhu.combos` and `doudizhu.moves`.
"""

from doudizhu.combo import Combo
from doudizhu.deal import Deal, commitment, deal_cards
from doudizhu.decider import decide, evolve, outcome, start
from doudizhu.hand import Action, Cards, Choice, Event, Factor, Factors, Hand, Phase, Side
from doudizhu.legal import default_action, legal_actions
from doudizhu.refusal import Ambiguous, Illegal, Malformed, Reason, Refusal
from doudizhu.rulebook import (
    BOOKS,
    CLASSIC,
    HAPPY,
    ROB,
    RuleBook,
    book_of,
    dump,
    fits_int64,
    greatest_multiplier,
    load,
    override,
)
from doudizhu.settle import Outcome, Settlement, Stakes, settle
from doudizhu.titles import TITLES, Title, title
from doudizhu.view import view, view_event

__all__ = [
    "BOOKS",
    "CLASSIC",
    "HAPPY",
    "ROB",
    "TITLES",
    "Action",
    "Ambiguous",
    "Cards",
    "Choice",
    "Combo",
    "Deal",
    "Event",
    "Factor",
    "Factors",
    "Hand",
    "Illegal",
    "Malformed",
    "Outcome",
    "Phase",
    "Reason",
    "Refusal",
    "RuleBook",
    "Settlement",
    "Side",
    "Stakes",
    "Title",
    "book_of",
    "commitment",
    "deal_cards",
    "decide",
    "default_action",
    "dump",
    "evolve",
    "fits_int64",
    "greatest_multiplier",
    "legal_actions",
    "load",
    "outcome",
    "override",
    "settle",
    "start",
    "title",
    "view",
    "view_event",
]
