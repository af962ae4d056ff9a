"""The rule books as data: every field cites its section of RULES.md, and the engine branches on fields only.

A fourth book is a RuleBook value like these three, made from a file (`load`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Auction = Literal["bid", "bid_rob", "call_rob"]
AllPass = Literal["void", "void_redeal", "redeal"]


@dataclass(frozen=True, slots=True)
class RuleBook:
    """One book. The comment of each field is its source."""

    id: str
    # Combos (3)
    ace_low_chains: bool  # A2345, AA2233, AAA222; 2 in chains
    wing_from_body: bool  # D-01
    wings_repeat: bool  # D-01
    rocket_as_wings: bool  # D-01
    quad_as_two_pairs: bool  # D-01
    four_kickers: tuple[str, ...]  # D-01: single, two_singles, two_pairs, single_pair
    fours_compare_across: bool  # S0 1.7.2, last line on type 11
    # How many bombs and rockets a farmer may play by his bid (S0 1.6.1): not reached, pass, 1, 2; None = unlimited.
    bomb_allowance: tuple[int | None, int | None, int | None, int | None]
    # Deal (5) and auction (6)
    marked_card: bool
    auction: Auction
    all_pass: AllPass
    max_redeals: int  # D-08: the carried factor is at most redeal_factor ** max_redeals
    show_window: bool  # 5, 7: anybody may show after the deal
    landlord_shows: bool  # 7
    # Multiplier (9); 1 = does not multiply
    redeal_factor: int
    marked_joker_factor: int
    rob_factor: int
    show_factor: int
    bomb_factor: int
    rocket_factor: int  # D-14
    spring_factor: int
    anti_spring_factor: int  # D-15
    # Settlement (10)
    shortage: Literal["equal", "proportional"]
    winner_bounded: bool  # D-10
    rake: bool
    flee_rob_factors: bool  # a fleeing farmer pays the rob factors too
    flee_whole_bombs: bool  # bombs still whole in the hands double a flee
    early_flee_s: int  # before this many seconds a flee pays the system; 0 = never
    rated: bool
    # Table life (4)
    negotiated_base: bool
    minimum_bases: int  # `classic`: 3 x base to sit; 0 = the room's minimum alone
    ready_to_start: bool
    countdown_after_void: bool


CLASSIC: Final = RuleBook(
    id="classic",
    ace_low_chains=True,
    wing_from_body=False,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("two_singles", "two_pairs", "single_pair"),
    fours_compare_across=True,
    bomb_allowance=(None, None, None, None),
    marked_card=True,
    auction="bid_rob",
    all_pass="void_redeal",
    max_redeals=6,
    show_window=False,
    landlord_shows=True,
    redeal_factor=2,
    marked_joker_factor=2,
    rob_factor=2,
    show_factor=2,
    bomb_factor=1,
    rocket_factor=1,
    spring_factor=1,
    anti_spring_factor=1,
    shortage="equal",
    winner_bounded=False,
    rake=False,
    flee_rob_factors=False,
    flee_whole_bombs=False,
    early_flee_s=0,
    rated=False,
    negotiated_base=True,
    minimum_bases=3,
    ready_to_start=False,
    countdown_after_void=True,
)

HAPPY: Final = RuleBook(
    id="happy",
    ace_low_chains=False,
    wing_from_body=True,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("single", "two_singles", "two_pairs"),
    fours_compare_across=False,
    bomb_allowance=(None, None, None, None),
    marked_card=False,
    auction="bid",
    all_pass="void",
    max_redeals=0,
    show_window=False,
    landlord_shows=False,
    redeal_factor=1,
    marked_joker_factor=1,
    rob_factor=1,
    show_factor=1,
    bomb_factor=2,
    rocket_factor=2,
    spring_factor=2,
    anti_spring_factor=2,
    shortage="equal",
    winner_bounded=False,
    rake=False,
    flee_rob_factors=True,
    flee_whole_bombs=False,
    early_flee_s=60,
    rated=False,
    negotiated_base=False,
    minimum_bases=0,
    ready_to_start=True,
    countdown_after_void=False,
)

ROB: Final = RuleBook(
    id="rob",
    ace_low_chains=False,
    wing_from_body=False,
    wings_repeat=True,
    rocket_as_wings=True,
    quad_as_two_pairs=False,
    four_kickers=("two_singles", "two_pairs"),
    fours_compare_across=False,
    bomb_allowance=(None, None, None, None),
    marked_card=False,
    auction="call_rob",
    all_pass="redeal",
    max_redeals=0,
    show_window=True,
    landlord_shows=True,
    redeal_factor=1,
    marked_joker_factor=1,
    rob_factor=2,
    show_factor=3,
    bomb_factor=2,
    rocket_factor=2,
    spring_factor=2,
    anti_spring_factor=2,
    shortage="proportional",
    winner_bounded=True,
    rake=True,
    flee_rob_factors=True,
    flee_whole_bombs=True,
    early_flee_s=0,
    rated=True,
    negotiated_base=False,
    minimum_bases=0,
    ready_to_start=False,
    countdown_after_void=False,
)

BOOKS: Final = {book.id: book for book in (CLASSIC, HAPPY, ROB)}
