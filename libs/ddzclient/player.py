"""A player that plays by itself: it answers whatever the table asks of its seat, and leaves after so many hands."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Set
from typing import Final

from ddz.common.v1.hand_pb2 import Show
from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import HandSettled, Snapshot
from ddz.table.v1.table_pb2 import AnswerBase, GiveSeed, Leave, Ready, SetBase, Trustee
from ddzclient import bot
from ddzclient.errors import TableGone
from ddzclient.policy import Policy, hand_of, in_hand, to_wire
from ddzclient.session import Session
from ddzclient.table import Action, TableView
from doudizhu.hand import CloseShowWindow, Phase
from doudizhu.refusal import Refusal

# The state that the bot acted on was no longer the table's: a clock was faster, and the news is on its way.
_STALE: Final = {"NOT_YOUR_TURN", "WRONG_PHASE", "HAND_OVER", "INVALID_PASS", "DOES_NOT_BEAT", "SHOW_NOT_ALLOWED"}
# Others have left first, and a table of matched players does not outlive them.
_ALREADY_GONE: Final = {"TABLE_CLOSED", "NOT_A_PLAYER"}


class Player:
    """One seat's answers. `seed` makes the seeds that it adds to deals (RULES.md D-07), and the bot's temper."""

    def __init__(self, policy: Policy | None = None, *, seed: int = 0) -> None:
        self._policy = policy or (lambda view, seat: bot.choose(view, seat, seed))
        self._seed = seed
        self._seeded = ""  # the deal that it has given its seed for

    def answer(self, state: Snapshot) -> Action | None:
        """What the seat does now; None while the table does not wait for it."""
        seat = state.seats[state.you]
        if seat.trustee:
            return Trustee(on=False)
        match state.clock.phase:
            case events_pb2.PHASE_BASE if state.clock.seat == state.you:
                return SetBase(base_chips=state.terms.base_min_chips)
            case events_pb2.PHASE_AGREE if not seat.agreed:
                return AnswerBase(agree=True)
            case events_pb2.PHASE_READY if not seat.ready:
                return Ready(ready=True)
            case events_pb2.PHASE_SEED if state.proof.deal_id not in ("", self._seeded):
                return GiveSeed(
                    seed=hashlib.sha256(f"{self._seed}.{state.proof.deal_id}.{state.you}".encode()).digest()
                )
        return self._choose(state) if in_hand(state) else None

    def _choose(self, state: Snapshot) -> Action | None:
        hand = hand_of(state)
        if hand.phase is not Phase.SHOW_WINDOW and hand.turn != state.you:
            return None
        action = self._policy(hand, state.you)
        if action is None or isinstance(action, CloseShowWindow):
            return None
        command = to_wire(action)
        return None if isinstance(command, Show) and state.seats[state.you].shown else command

    async def play(
        self, table: TableView, hands: int, settled: Callable[[HandSettled], None] = lambda _: None
    ) -> list[str]:
        """Plays until `hands` hands have been settled and leaves, freely, before the next one; returns their ids.

        Void hands do not count. `settled` is told of each. Ends early when the seat is lost (below the minimum, say)
        or the table is closed. Raises what `TableView.act` raises, but for refusals that say that the table was
        faster.
        """
        done: list[str] = []
        known = (0, 0)
        last = table.state.last_result.hand_id
        leaving = False
        with contextlib.suppress(TableGone):
            while len(done) < hands:
                state = await table.newer(known)
                known = (state.epoch, state.seq)
                if state.last_result.hand_id != last:
                    last = state.last_result.hand_id
                    done.append(last)
                    settled(state.last_result)
                elif state.you < 0 or state.observing:
                    return done
                elif len(done) == hands - 1 and not leaving and _won(state):
                    leaving = True  # the hand is over: he goes, freely, as soon as it is settled
                    await _ask(table, Leave(), _ALREADY_GONE)
                else:
                    await self._act(table, state)
            if not leaving:
                await _ask(table, Leave(), _ALREADY_GONE)
        return done

    async def _act(self, table: TableView, state: Snapshot) -> None:
        action = self.answer(state)
        if action is None:
            return
        if isinstance(action, GiveSeed):
            self._seeded = state.proof.deal_id
        await _ask(table, action, _STALE)


async def _ask(table: TableView, action: Action, harmless: Set[str]) -> None:
    """Acts; that the table is gone is found out by who waits for its next state, after all that it still said."""
    try:
        await table.act(action)
    except TableGone:
        pass
    except Refusal as refusal:
        if refusal.reason not in harmless:
            raise


async def find_table(session: Session, room_id: str) -> str:
    """Queues for a room and waits for a table of three; returns its id. Raises Refusal, TicketEnded."""
    ticket = await session.join(room_id)
    return await session.matched(ticket.ticket_id)


async def play_room(session: Session, room_id: str, player: Player, hands: int) -> list[str]:
    """From the queue to the last of `hands` settled hands; returns their ids."""
    async with session.table(await find_table(session, room_id)) as table:
        return await player.play(table, hands)


def _won(state: Snapshot) -> bool:
    """Whether somebody has put down his last card and the ledger has not answered yet."""
    return state.clock.phase == events_pb2.PHASE_SETTLING and any(not seat.cards.count for seat in state.seats)
