"""What the auditor knows of one table: its log folded again from its bytes, and who may know which card since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from doudizhu import Outcome
from doudizhu.hand import Dealt, Fled, LandlordSet, Played, Redealing, Shown, Voided, Won
from services.table import events, log
from services.table.table import Result, Table
from tests.chaos.acknowledged import ALWAYS_LOGGED
from tests.sim.system.frames import Frame, Told, cards_of_snapshot, mask_of
from tests.sim.system.loop import EPOCH_MS, GREATEST_SKEW_MS
from tests.sim.system.places import Places
from tests.sim.system.waits import Waits

if TYPE_CHECKING:
    from tests.sim.system.streams import Link

_ALL: Final = (1 << 54) - 1
_MOMENTS_KEPT: Final = 600  # by event, for frames that are still on their way


class Violation(AssertionError):
    """Something has happened that must never happen."""


@dataclass(frozen=True, slots=True)
class Moment:
    """After an event: the cards that everybody, and each seat, knows by then, and who may see those of a seat."""

    public: int
    own: tuple[int, int, int]
    places: Places


class Known:
    """`append` takes entries in as they come into the log; `told` checks what a person is sent.

    `sent`: the action of every command, by its message's name.
    """

    def __init__(self, table_id: str, sent: Mapping[log.Key, str]) -> None:
        self.table_id = table_id
        self._sent = sent
        self.table: Table | None = None
        self.outcomes: dict[str, Outcome] = {}
        self.new_results: list[Result] = []
        self.new_voids: list[str] = []
        self.appended_s = 0.0
        self._moments: dict[int, Moment] = {}
        self._public = 0
        self._own = (0, 0, 0)
        self._places = Places()
        self._waits = Waits()
        self._commands: dict[log.Key, int] = {}
        self._ends: set[int] = set()
        self._seeds: dict[bytes, int] = {}  # server seed -> the event that reveals it; 0 = not yet

    @property
    def appended_ms(self) -> int:
        """When the last entry came, on a clock without skew."""
        return EPOCH_MS + int(self.appended_s * 1000)

    # ---- the log ----------------------------------------------------------------------------------------------------

    def append(self, version: int, new: int, raw: bytes, now_s: float) -> None:
        """One entry. Raises Violation."""
        entry = log.decode(self.table_id, raw)
        self.appended_s = now_s
        self.new_results, self.new_voids = [], []
        if [one.seq for one in entry.stamped] != list(range(version + 1, new + 1)):
            raise Violation(f"{self.table_id}: an entry after {version} that ends at {new} has a gap")
        if self.table is not None and self.table.seq != version:
            raise Violation(f"{self.table_id}: two nodes have appended after event {version}")
        if entry.key != log.NOBODY:
            if entry.key in self._commands:
                raise Violation(f"{self.table_id}: the command {entry.key} has acted twice")
            self._commands[entry.key] = new
        self._ends.add(new)
        for one in entry.stamped:
            self._fold(one)

    def _fold(self, one: events.Stamped) -> None:
        before = self.table
        if before is not None:
            self._in_time(before, one)
        table = self.table = log.fold(self.table_id, before, one)
        self._waits.take(one, None if before is None else before.hand, table.hand)
        self._learn(one.event, table)
        self._places = self._places.after(one.event)
        self._moments[one.seq] = Moment(self._public, self._own, self._places)
        self._moments.pop(one.seq - _MOMENTS_KEPT, None)

    def _in_time(self, before: Table, one: events.Stamped) -> None:
        """No clock goes back, none is further ahead than nodes' clocks are, and no wait ends before its time."""
        if one.at_ms < before.since_ms:
            raise Violation(f"{self.table_id}: event {one.seq} is from before what it follows on")
        if one.at_ms > self.appended_ms + GREATEST_SKEW_MS:
            raise Violation(f"{self.table_id}: event {one.seq} is from {one.at_ms - self.appended_ms} ms ahead")
        early = self._waits.early(one, before.hand)
        if early:
            raise Violation(f"{self.table_id}: {early}")

    def _learn(self, event: events.Event, table: Table) -> None:
        """Who knows which cards now, and what is told of ends."""
        if isinstance(event, events.Move):
            self._learn_move(event, table)
        elif isinstance(event, events.HandOpening):
            self._public, self._own = 0, (0, 0, 0)
            self._seeds = {seed: revealed for seed, revealed in self._seeds.items() if not revealed}
        elif isinstance(event, events.Committed):
            self._seeds[event.server_seed] = 0
        elif isinstance(event, events.HandSettled):
            self.new_results.append(event.result)
            self._reveal(table.seq)
        elif isinstance(event, events.HandVoided):
            self._void(table)

    def _learn_move(self, move: events.Move, table: Table) -> None:
        match move.event:
            case Played(combo=combo):
                self._public |= mask_of(combo.cards)
            case Dealt(hands=(one, two, three), marked=marked):
                self._own = mask_of(one or ()), mask_of(two or ()), mask_of(three or ())
                self._public = 0 if marked is None else 1 << marked
            case LandlordSet(bottom=bottom):
                self._public |= mask_of(bottom)
            case Shown(cards=cards):
                self._public |= mask_of(cards)
            case Redealing():
                self._public, self._own = 0, (0, 0, 0)
            case Voided():
                self._void(table)
            case Won():
                self._public = _ALL
        if isinstance(move.event, Won | Fled):
            assert move.outcome is not None
            self.outcomes[table.hand_id] = move.outcome

    def _void(self, table: Table) -> None:
        self.new_voids.append(table.hand_id)
        self._reveal(table.seq)

    def _reveal(self, seq: int) -> None:
        for seed, revealed in self._seeds.items():
            self._seeds[seed] = revealed or seq

    def same(self, table: Table) -> bool:
        """Whether a node's state is the one that the log gives; what a cut leaves out of a finished hand aside."""
        assert self.table is not None
        ours, theirs = self.table, table
        if ours.seq != theirs.seq:
            return True  # the node has not heard yet
        return (ours.seats, ours.stage, ours.base, ours.observers, ours.last_result, ours.players) == (
            theirs.seats,
            theirs.stage,
            theirs.base,
            theirs.observers,
            theirs.last_result,
            theirs.players,
        ) and (theirs.hand is None or ours.hand == theirs.hand)

    # ---- frames -----------------------------------------------------------------------------------------------------

    def told(self, link: Link, raw: bytes, frame: Frame) -> None:
        """A frame that a person gets. Raises Violation."""
        assert self.table is not None
        for event in frame.events:
            self._event(link, event)
        if frame.snapshot is not None:
            self._snapshot(link, frame)
        for command_id, seq in frame.accepted:
            self.accepted(link.player_id, command_id, seq)
        for seed, revealed in self._seeds.items():
            if seed in raw and (not revealed or link.seq < revealed):
                raise Violation(f"{link.player_id} is told the seed of {self.table_id} at event {link.seq}")

    def _event(self, link: Link, event: Told) -> None:
        assert self.table is not None
        if event.seq > self.table.seq:
            raise Violation(f"{link.player_id} is told event {event.seq} of {self.table_id}, which is not in the log")
        if link.seq and event.seq > link.seq + 1:
            raise Violation(f"{link.player_id} is told event {event.seq} of {self.table_id} after {link.seq}")
        self._may_know(link, event.seq, event.cards, event.name)
        link.seq = max(link.seq, event.seq)

    def _snapshot(self, link: Link, frame: Frame) -> None:
        snapshot = frame.snapshot
        assert snapshot is not None
        assert self.table is not None
        if snapshot.seq > self.table.seq:
            raise Violation(f"{link.player_id} is shown {self.table_id} at {snapshot.seq}, which is not in the log")
        self._may_know(link, snapshot.seq, cards_of_snapshot(snapshot), "snapshot")
        link.seq = snapshot.seq

    def _may_know(self, link: Link, seq: int, cards: int, what: str) -> None:
        moment = self._moments.get(seq)
        if not cards or moment is None or not cards & ~moment.public:
            return
        secret = cards & ~moment.public
        seats = moment.places.sees(link.player_id)
        if moment.own == self._own:  # what he has missed is told as he may see it now
            seats += self._places.sees(link.player_id)
        for seat in seats:
            secret &= ~moment.own[seat]
        if secret:
            found = [card for card in range(54) if secret >> card & 1]
            raise Violation(f"{link.player_id} is told the cards {found} by {what} {seq} of {self.table_id}")

    def accepted(self, player_id: str, command_id: str, seq: int) -> None:
        """A command was acknowledged: it is in the log, where it was said to be. Raises Violation."""
        assert self.table is not None
        if seq > self.table.seq:
            raise Violation(f"{command_id} is acknowledged at event {seq} of {self.table_id}, which is not in the log")
        acted = self._commands.get((player_id, command_id))
        action = self._sent[player_id, command_id]
        if acted is None and action in ALWAYS_LOGGED:
            raise Violation(f"{command_id} of {player_id}, a {action}, is acknowledged at {seq}, and was thrown away")
        if acted is not None and acted != seq:
            raise Violation(f"{command_id} is acknowledged at event {seq}, and acted at {acted}")
