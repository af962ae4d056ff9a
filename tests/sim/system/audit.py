"""The auditor: sees every append, every commit and every frame, and says at once when one of them cannot be right.

What it knows it has from the log and the ledger alone, never from a process: each table is folded again from the bytes
of its log, each balance is added up from the commits. Its rules are those that players are promised:

    chips are conserved, and nobody is below 0        a hand is settled once, or void and never settled
    a player is in one open hand at most              what was settled is what was played
    nobody is told a card, or a seed, too early       what is told or acknowledged is in the log
    a command acts once                               a clock that runs out was due, and clocks never go back
    logs replay to the state that the nodes have      no table is stuck; news arrive, and count once
    a ticket leads to one table                       sign-up chips are given once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from doudizhu import Outcome
from services.ledger.grants import Given
from services.ledger.ledger import Opened, Settled, Voided
from services.table.clocks import wake_at_ms
from services.table.table import Stage
from tests.sim.system.frames import Frame
from tests.sim.system.redis import wall_ms
from tests.sim.system.rooms import SIGNUP_CHIPS
from tests.sim.system.tables import Known, Violation

if TYPE_CHECKING:
    from tests.sim.system.postgres import Change
    from tests.sim.system.streams import Link
    from tests.sim.system.world import World

_STUCK_MS: Final = 60_000
_STUCK_AT_REST_MS: Final = 8_000
_LOST_S: Final = 6.0  # so long after it was lost a connection may still stand in a log; while its node lives,
_LOST_WITH_NODE_S: Final = 40.0  # and when its node has died with it: a lease, and a look at all tables
_COUNTED_AFTER_S: Final = 8.0  # so long after a settlement its news has arrived, when nothing fails
_CHECK_S: Final = 2.0
_BUSY: Final = (Stage.OPENING, Stage.HAND, Stage.SETTLING, Stage.COUNTDOWN)


class Audit:
    """`hands` counts those that are over in the ledger, settled or void; `books` and `ends` say of which kind.

    `sent`: the action of every command, by its person and id; `links`: every connection to a node, by its name.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.tables: dict[str, Known] = {}
        self.sent: dict[tuple[str, str], str] = {}
        self.links: dict[str, Link] = {}
        self.hands = 0
        self.books: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.closing = False
        self.logged: BaseException | None = None  # by the real code, last
        self._unexplained = False
        self._open: dict[str, str] = {}  # player -> hand
        self._state: dict[str, str] = {}  # hand -> open, settled, voided
        self._opened_s: dict[str, float] = {}
        self._settled_s: dict[str, float] = {}
        self._players: dict[str, tuple[str, ...]] = {}
        self._balances: dict[str, int] = {}
        self._granted: Counter[str] = Counter()
        self._system = 0
        self._matched: dict[str, str] = {}  # ticket -> table
        self._next_check_s = 0.0
        self._violation: Violation | None = None

    # ---- what went wrong inside of somebody else's call -------------------------------------------------------------

    def blame(self, message: str, cause: BaseException | None = None) -> None:
        """Notes a violation; it is raised at the next check, since the call it was found in may swallow it."""
        if self._violation is None and not self.closing:
            self._violation = Violation(f"{self._world.loop.time():.3f} s: {message}")
            self._violation.__cause__ = cause

    def fault(self, where: str, error: BaseException | None) -> None:
        """The real code has caught a fault of its own, or a call has ended with an unexpected exception."""
        if not self.closing:
            self._unexplained = error is None  # then it is logged, right after
            self.blame(f"a fault of our own in {where}: {error!r}", error)

    # ---- the log ----------------------------------------------------------------------------------------------------

    def appended(
        self, table_id: str, version: int, new: int, entry: bytes, deadline: int | str, keep: int | str
    ) -> None:
        """An entry has been appended to a log that ended at `version`."""
        world = self._world
        world.trace.add(world.loop.time(), f"append {table_id}", entry)
        known = self.tables.get(table_id)
        if known is None:
            known = self.tables[table_id] = Known(table_id, self.sent)
        try:
            known.append(version, new, entry, world.loop.time())
            self._check_results(known)
        except Violation as violation:
            self.blame(str(violation))
        except Exception as error:
            self.blame(f"the log of {table_id} cannot be replayed: {error!r}", error)
        if (deadline == "") != (keep != ""):
            self.blame(f"{table_id}: a table that lives has a deadline, one that is closed has none")

    def _check_results(self, known: Known) -> None:
        """What the table has just told of a hand's end is what the ledger has."""
        for result in known.new_results:
            if self._state.get(result.hand_id) != "settled":
                raise Violation(f"{result.hand_id} is told as settled, and is {self._state.get(result.hand_id)}")
            hand = self._world.postgres.tables.hands[result.hand_id]
            if hand.end is None or hand.end.chips != result.chips:
                raise Violation(f"{result.hand_id} is told otherwise than it was settled")
        for hand_id in known.new_voids:
            if self._state.get(hand_id) == "settled":
                raise Violation(f"{hand_id} is void at its table, and settled in the ledger")

    # ---- the ledger -------------------------------------------------------------------------------------------------

    def committed(self, changes: Sequence[Change]) -> None:
        """A transaction of the ledger has been committed."""
        for change in changes:
            try:
                match change:
                    case Opened():
                        self._opened(change)
                    case Settled():
                        self._settled(change)
                    case Voided():
                        self._end(change.hand.hand_id, "voided")
                        self.ends["void"] += 1
                    case Given():
                        self._given(change)
            except Violation as violation:
                self.blame(str(violation))
        self._conserved()

    def _trace(self, what: str, detail: str) -> None:
        self._world.trace.add(self._world.loop.time(), what, detail)

    def _opened(self, opened: Opened) -> None:
        hand = opened.hand
        self._trace("opened", f"{hand.hand_id} {hand.player_ids} {hand.carried}")
        for player_id in hand.player_ids:
            if player_id in self._open:
                raise Violation(f"{player_id} is in {self._open[player_id]} and in {hand.hand_id}")
            self._open[player_id] = hand.hand_id
        self._state[hand.hand_id] = "open"
        self._opened_s[hand.hand_id] = self._world.loop.time()
        self._players[hand.hand_id] = hand.player_ids

    def _settled(self, settled: Settled) -> None:
        hand, end = settled.hand, settled.hand.end
        assert end is not None
        self._end(hand.hand_id, "settled")
        self._settled_s[hand.hand_id] = self._world.loop.time()
        outcome = settled.request.outcome
        self.books[settled.request.book.id] += 1
        self.ends["won" if outcome.fled is None else "fled"] += 1
        self._trace("settled", f"{hand.hand_id} {end.chips} {end.rake} {end.flee_chips}")
        for player_id, before, change in zip(hand.player_ids, end.balance_before, end.chips, strict=True):
            if self._balances.get(player_id, 0) != before:
                raise Violation(f"{hand.hand_id}: {player_id} had {self._balances.get(player_id, 0)}, not {before}")
            self._balances[player_id] = before + change
        self._system += sum(end.rake) + end.flee_chips
        played = self._played(hand.table_id, hand.hand_id)
        if played != outcome:
            raise Violation(f"{hand.hand_id} is settled as {outcome}, and was {played}")

    def _played(self, table_id: str, hand_id: str) -> Outcome | None:
        """How a hand ended at its table; None when it was void or is not over."""
        known = self.tables.get(table_id)
        return known.outcomes.get(hand_id) if known is not None else None

    def _end(self, hand_id: str, how: str) -> None:
        if self._state.get(hand_id) != "open":
            raise Violation(f"{hand_id} is {how} after it was {self._state.get(hand_id)}")
        self._state[hand_id] = how
        self.hands += 1
        for player_id in self._players[hand_id]:
            del self._open[player_id]

    def _given(self, given: Given) -> None:
        self._trace("given", f"{given.key} {given.chips}")
        self._granted[given.player_id] += 1
        if self._granted[given.player_id] > 1 or given.chips != SIGNUP_CHIPS:
            raise Violation(f"{given.player_id} is given sign-up chips twice")
        self._balances[given.player_id] = self._balances.get(given.player_id, 0) + given.chips
        self._system -= given.chips

    def _conserved(self) -> None:
        """Every chip is somewhere: by the auditor's own sums, and by the ledger's."""
        tables = self._world.postgres.tables
        stored = sum(player.chips for player in tables.players.values())
        system = sum(amount for (_, unit), amount in tables.system.items() if unit == "chips")
        if stored + system or stored != sum(self._balances.values()) or system != self._system:
            self.blame(f"players have {stored} chips and the system {system}, by the commits {self._system}")
        if any(player.chips < 0 or player.rating < 0 for player in tables.players.values()):
            self.blame("somebody is below 0")

    # ---- what people are told ---------------------------------------------------------------------------------------

    def told(self, link: Link, raw: bytes, frame: Frame) -> None:
        """A frame has arrived at a person's end."""
        known = self.tables.get(link.table_id)
        if known is None:
            if frame.events or frame.snapshot is not None:
                self.blame(f"{link.player_id} is told of {link.table_id}, which is in no log")
            return
        try:
            known.told(link, raw, frame)
        except Violation as violation:
            self.blame(str(violation))

    def answered(self, table_id: str, player_id: str, command_id: str, seq: int) -> None:
        """A command was acknowledged by a call of its own."""
        known = self.tables.get(table_id)
        try:
            if known is None:
                raise Violation(f"{command_id} is acknowledged at {table_id}, which is in no log")
            known.accepted(player_id, command_id, seq)
        except Violation as violation:
            self.blame(str(violation))

    # ---- tickets ----------------------------------------------------------------------------------------------------

    def matched(self, room: str, claim: str, table_id: str) -> None:
        """Three tickets have been matched."""
        self._trace("matched", f"{room} {claim} {table_id}")
        for ticket in claim.split(","):
            if self._matched.setdefault(ticket, table_id) != table_id:
                self.blame(f"ticket {ticket} leads to {self._matched[ticket]} and to {table_id}")

    # ---- from time to time ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises the first violation; now and then looks for tables that are stuck."""
        if self._violation is not None:
            cause = self._violation.__cause__ or (self.logged if self._unexplained else None)
            raise self._violation from cause
        now_s = self._world.loop.time()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + _CHECK_S
            self._not_stuck(_STUCK_MS)

    def _not_stuck(self, limit_ms: int) -> None:
        now_ms = wall_ms(self._world)
        for known in self.tables.values():
            table = known.table
            if table is None or table.stage is Stage.CLOSED:
                continue
            wake = wake_at_ms(table)
            since = known.appended_ms
            if table.stage in _BUSY and now_ms - since > limit_ms and (wake is None or now_ms - wake > limit_ms):
                raise Violation(f"{known.table_id} is stuck in {table.stage} since {now_ms - since} ms")
            if wake is not None and now_ms - wake > limit_ms:
                raise Violation(f"{known.table_id} has slept through a deadline for {now_ms - wake} ms")

    def at_rest(self) -> None:
        """Nothing has failed for a while: nobody is stuck, news have arrived once, nodes have what the log says."""
        self.check()
        self._not_stuck(_STUCK_AT_REST_MS)
        self._nothing_left_open()
        self._nobody_is_a_phantom()
        self._news_have_arrived()
        for instance in self._world.instances["table"]:
            for known in self.tables.values():
                actor = instance.node._actors.get(known.table_id)
                if actor is not None and actor.table is not None and not known.same(actor.table):
                    raise Violation(f"{instance.process.name} has another {known.table_id} than its log")
        for person in self._world.people:
            person.is_up_to_date()

    def _nothing_left_open(self) -> None:
        """An open hand of the ledger is the live hand of its table."""
        until_s = self._world.loop.time() - _COUNTED_AFTER_S
        for hand_id, state in self._state.items():
            table_id = hand_id.rpartition("-")[0]
            known = self.tables.get(table_id)
            table = known.table if known is not None else None
            live = table is not None and table.hand_id == hand_id and table.stage in _BUSY
            since_s = max(self._opened_s[hand_id], known.appended_s if known is not None else 0.0)
            if state == "open" and not live and since_s < until_s:
                raise Violation(f"{hand_id} is open in the ledger, and over at its table")

    def _nobody_is_a_phantom(self) -> None:
        """Who is connected, by a table's log, has that connection: it was not lost long ago."""
        now_s = self._world.loop.time()
        for known in self.tables.values():
            table = known.table
            for player_id, connection in [] if table is None or table.stage is Stage.CLOSED else table.connections:
                link = self.links[connection]
                if link.player_id != player_id or link.table_id != known.table_id:
                    raise Violation(f"{player_id} is connected to {known.table_id} by a connection of {link.player_id}")
                limit_s = _LOST_S if link.instance.process.alive else _LOST_WITH_NODE_S
                if not link.open and now_s - link.closed_s > limit_s:
                    lost_s = now_s - link.closed_s
                    raise Violation(f"{player_id} is connected to {known.table_id} by what he lost {lost_s:.0f} s ago")

    def _news_have_arrived(self) -> None:
        """Every settled hand is in the statistics, once."""
        tables, until_s = self._world.postgres.tables, self._world.loop.time() - _COUNTED_AFTER_S
        for hand_id, settled_s in self._settled_s.items():
            if settled_s < until_s and hand_id not in tables.counted:
                raise Violation(f"the news of {hand_id} has never arrived")
        counted: Counter[str] = Counter()
        for hand_id in tables.counted:
            counted.update(self._players[hand_id])
        if dict(counted) != tables.statistics:
            raise Violation("the statistics are not those of the hands that were counted")


__all__ = ["Audit", "Violation"]
