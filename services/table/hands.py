"""The hands of a table: opened by the ledger, dealt from seeds, played by the rules core, settled or void.

A step that needs the world outside is `pending` (life.py); its answer arrives here as a command. An answer that comes
late, or twice, finds another stage or another hand and changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import doudizhu
from doudizhu import Illegal, bot
from doudizhu.hand import Action, CloseShowWindow, DealCards, Dealt, Fled, Flee, Redealing, Voided, Won
from doudizhu.hand import Phase as HandPhase
from doudizhu.refusal import Reason as RuleReason
from services.table import commands, events
from services.table.clocks import awaits_commitment
from services.table.draft import Draft
from services.table.seating import absent, free_absent, free_seat, may_start, proceed, start
from services.table.table import SEATS, Result, Stage, Table, Trustee
from services.table.terms import Reason

# Deals of one hand in which everybody passes, before it is void where the trustee plays for all three, and at all: its
# record must not grow too large to be settled. After so many void hands in a row comes a countdown in any book: there a
# log can be cut (0010).
MAX_DEALS: Final = 20
MOST_DEALS: Final = 200
HANDS_AT_ONCE: Final = 20
MISSES: Final = 2  # time-outs in a row that turn the trustee on (D-06)


def ledger_opened(draft: Draft, command: commands.LedgerOpened) -> None:
    """The hand lives. Who asked to leave meanwhile leaves now: freely before the deal; in a match the first flees."""
    table = draft.table
    if table.stage is not Stage.OPENING or table.hand_id != command.hand_id:
        return
    draft.emit(events.HandOpened(command.carried))
    leaving = [number for number in SEATS if draft.table.seats[number].leaving]
    if leaving and table.terms.matched:
        move(draft, Flee(min(leaving, key=lambda number: draft.table.seats[number].leaving), 0))
    elif leaving:
        void(draft, "left")


def ledger_refused(draft: Draft, command: commands.LedgerRefused) -> None:
    """No hand. Who is to blame loses the seat; when nobody is, the next attempt comes after a countdown."""
    table = draft.table
    if table.stage is not Stage.OPENING or table.hand_id != command.hand_id:
        return
    void(draft, "refused")
    number = table.seat_of(command.player_id)
    if number is not None:
        seat = table.seats[number]
        assert seat.person is not None
        minimum, balance = (table.minimum_chips, command.balance) if command.reason == Reason.BELOW_MINIMUM else (0, 0)
        draft.emit(events.SeatLeft(number, seat.person.player_id, command.reason, minimum, balance))
        if table.negotiated and table.base_setter == number:
            draft.emit(events.BaseReset())
    elif not any(seat.leaving for seat in table.seats):
        draft.emit(events.CountdownStarted())
    _free_leaving(draft)
    proceed(draft)


def commit(draft: Draft, command: commands.Commit) -> None:
    """Publishes the commitment to the server seed; then clients may give theirs, if the room leaves them time."""
    table = draft.table
    if not awaits_commitment(table) or command.deal_id != deal_id(table):
        return
    draft.emit(events.Committed(command.deal_id, doudizhu.commitment(command.server_seed), command.server_seed))
    if not table.terms.clocks.seed_ms:
        deal(draft)


def deal_id(table: Table) -> str:
    """The id of the next deal: the hand's for the first, with a number behind it for each redeal."""
    assert table.hand is not None
    return f"{table.hand_id}.{table.hand.deals}" if table.hand.deals else table.hand_id


def give_seed(draft: Draft, number: int, action: commands.GiveSeed) -> None:
    """A client's seed for the next deal, once. The deal follows when nobody's is waited for any more."""
    table = draft.table
    if table.stage is not Stage.HAND or table.hand is None or table.hand.phase is not HandPhase.AWAIT_DEAL:
        raise Illegal(RuleReason.WRONG_PHASE, "seeds are given before the deal, once its commitment is published")
    if awaits_commitment(table):
        raise Illegal(RuleReason.WRONG_PHASE, "the commitment is not published yet")
    if table.proofs[-1].client_seeds[number]:
        raise Illegal(RuleReason.WRONG_PHASE, "you have given your seed for this deal")
    draft.emit(events.SeedGiven(number, action.seed))
    if all(_seed_is_settled(draft.table, seat) for seat in SEATS):
        deal(draft)


def _seed_is_settled(table: Table, number: int) -> bool:
    return bool(table.proofs[-1].client_seeds[number]) or table.seats[number].trustee is not None


def deal(draft: Draft) -> None:
    """Deals from the seeds (D-07)."""
    proof = draft.table.proofs[-1]
    dealt = doudizhu.deal_cards(draft.table.book, proof.deal_id, proof.server_seed, proof.client_seeds)
    move(draft, DealCards(dealt))


def act(draft: Draft, number: int, action: commands.HandAction) -> None:
    """A player's move in the hand. Raises what the rules raise, WRONG_PHASE when there is no hand."""
    table = draft.table
    if table.stage is not Stage.HAND:
        raise Illegal(
            RuleReason.WRONG_PHASE, f"no hand is played now, the table is in {table.phase}", phase=table.phase
        )
    seat = table.seats[number]
    moves = _decided(table, action, by_trustee=False)
    if seat.trustee is Trustee.AWAY:
        draft.emit(events.TrusteeSet(number, None))
    _emit_moves(draft, moves)


def flee(draft: Draft, number: int) -> None:
    """Leaving while the hand is live (RULES.md section 10)."""
    dealt_at_ms = draft.table.dealt_at_ms
    elapsed_s = (draft.now_ms - dealt_at_ms) // 1000 if dealt_at_ms else 0
    move(draft, Flee(number, max(elapsed_s, 0)))


def expire(draft: Draft) -> None:
    """The clock of the hand has run out: the default acts (section 4), for the seat on turn or for the table."""
    table = draft.table
    assert table.hand is not None
    if table.hand.phase is HandPhase.AWAIT_DEAL:
        deal(draft)
        return
    action = _expired(table)
    if isinstance(action, CloseShowWindow):
        move(draft, action)
        return
    number = table.hand.turn
    assert number is not None
    move(draft, action, by_trustee=True)
    seat = draft.table.seats[number]
    if seat.trustee is None and seat.misses >= MISSES:
        draft.emit(events.TrusteeSet(number, Trustee.MISSES))


def _expired(table: Table) -> Action:
    """What the table does for the seat on turn: a trustee plays with sense, on leads for anybody (D-06).

    In the auction it passes and never shows: what raises the stakes is the player's own decision.
    """
    hand = table.hand
    assert hand is not None
    if (
        hand.phase is HandPhase.PLAY
        and hand.turn is not None
        and (hand.on_table is None or table.seats[hand.turn].trustee is not None)
    ):
        return bot.choose(doudizhu.view(hand, hand.turn), hand.turn)
    return doudizhu.default_action(hand)


def move(draft: Draft, action: Action, *, by_trustee: bool = False) -> None:
    """Decides an action of the hand and emits what it leads to."""
    _emit_moves(draft, _decided(draft.table, action, by_trustee=by_trustee))


def _decided(table: Table, action: Action, *, by_trustee: bool) -> list[events.Move]:
    assert table.hand is not None
    first, *following = doudizhu.decide(table.hand, action)
    return [events.Move(first, by_trustee), *(events.Move(event) for event in following)]


def _emit_moves(draft: Draft, moves: list[events.Move]) -> None:
    for one in moves:
        draft.emit(_completed(draft.table, one))
    last = moves[-1].event
    if isinstance(last, Redealing):
        _void_without_people(draft)


def void(draft: Draft, reason: str) -> None:
    """The hand ends without a result; what it was dealt from is told to all (D-07)."""
    draft.emit(events.HandVoided(reason, draft.table.redeals, draft.table.proofs))


def _completed(table: Table, one: events.Move) -> events.Move:
    """Adds the proof to a deal and to a hand in which all have passed, the outcome to an end."""
    event = one.event
    if isinstance(event, Dealt):
        return events.Move(event, proof=replace(table.proofs[-1], server_seed=b""))
    if isinstance(event, Voided):
        return events.Move(event, one.by_trustee, proof=table.proofs[-1])
    if isinstance(event, Won | Fled):
        assert table.hand is not None
        over = doudizhu.evolve(table.hand, event)
        return events.Move(event, one.by_trustee, outcome=doudizhu.outcome(over), factors=over.factors)
    return one


def _void_without_people(draft: Draft) -> None:
    """A hand in which all pass is dealt again until somebody calls, as long as somebody plays himself (section 6)."""
    table = draft.table
    assert table.hand is not None
    if not all(seat.trustee for seat in table.seats):
        if table.hand.deals >= MOST_DEALS:
            void(draft, "endless")
        return
    if table.hand.deals >= MAX_DEALS or not any(seat.connection for seat in table.seats):
        void(draft, "absent")


def ledger_settled(draft: Draft, command: commands.LedgerSettled) -> None:
    """Shows the settlement, starts the countdown, unseats who is below the minimum."""
    table = draft.table
    if table.stage is not Stage.SETTLING or table.hand_id != command.hand_id:
        return
    result = Result(
        command.hand_id,
        command.chips,
        command.rake,
        command.balances,
        command.rating,
        command.ratings_after,
        command.system,
        table.proofs,
    )
    draft.emit(events.HandSettled(result))
    draft.emit(events.CountdownStarted())
    _free_leaving(draft)
    for number in draft.table.seated:
        balance = draft.table.seats[number].balance
        if balance is not None and balance < table.minimum_chips:
            free_seat(draft, number, Reason.BELOW_MINIMUM, table.minimum_chips)
    proceed(draft)


def ledger_voided(draft: Draft, command: commands.LedgerVoided) -> None:
    """The void hand is closed: on to the next, after a countdown where the book has one."""
    table = draft.table
    if table.stage is not Stage.SETTLING or table.hand_id != command.hand_id:
        return
    assert table.hand is not None
    if not table.hand.voided:
        void(draft, "refused")
    all_passed = table.hand.voided and table.hand.phase is HandPhase.OVER and table.hand.deals > 0
    at_once = all_passed and not table.book.countdown_after_void and table.unsettled % HANDS_AT_ONCE
    if at_once and may_start(draft) and not absent(table):
        start(draft)
        return
    draft.emit(events.CountdownStarted())
    _free_leaving(draft)
    proceed(draft)


def countdown_over(draft: Draft) -> None:
    """The next hand, if all three are still seated and nothing is to be asked; otherwise the table waits."""
    free_absent(draft)
    proceed(draft)
    if draft.table.stage is not Stage.COUNTDOWN:
        return
    if may_start(draft):
        start(draft)
    else:
        draft.emit(events.CountdownEnded())


def _free_leaving(draft: Draft) -> None:
    for number in draft.table.seated:
        if draft.table.seats[number].leaving:
            free_seat(draft, number)
