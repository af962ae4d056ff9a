"""At a table: follows it on the screen, and does what is typed, for a player, his bot, or an observer."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Coroutine
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import Snapshot
from ddz.table.v1.table_pb2 import GiveSeed, Leave
from ddzclient.cli import words
from ddzclient.cli.asks import YOURS, asks, spoken
from ddzclient.cli.happened import Lasts, lasts_of, sentence
from ddzclient.cli.look import Look, table_view
from ddzclient.cli.result import due, result
from ddzclient.cli.terminal import Terminal
from ddzclient.cli.typed import Unclear, Watch, Wish, Word, read
from ddzclient.cli.words import sorry
from ddzclient.errors import ClientError, TableGone
from ddzclient.fold import fold
from ddzclient.player import Player
from ddzclient.session import Session
from ddzclient.table import Action, TableView, Update
from doudizhu.refusal import Refusal

_FREE: Final = {
    events_pb2.PHASE_SEATING, events_pb2.PHASE_BASE, events_pb2.PHASE_AGREE, events_pb2.PHASE_READY,
    events_pb2.PHASE_COUNTDOWN, events_pb2.PHASE_CLOSED,
}  # fmt: skip
_SEATLESS: Final = {"NOT_A_PLAYER", "TABLE_CLOSED"}  # refused so, a seat is gone already
_NEWS: Final = 4  # sentences that stay on the screen


class AtTable:
    """One person at one table. `run` ends when he leaves, quits, or the table is gone; it says why."""

    def __init__(self, session: Session, table: TableView, terminal: Terminal, code: str = "") -> None:
        self._session = session
        self.quit = False  # the person wants to end the command, not only this table
        self._table = table
        self._terminal = terminal
        self._code = code
        self._state = Snapshot()
        self._lasts = Lasts()
        self._result: RenderableType | None = None
        self._news: list[str] = []
        self._note = ""
        self._ahead_ms: int | None = None  # how far the servers' clock is ahead of ours
        self._suggested: tuple[events_pb2.Clock, Action] | None = None
        self._sure = False
        self._seeded = ""
        self._told = ""
        self._settled = ""
        self._doing: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._bot: Player | None = None

    async def run(self, bot: Player | None = None, hands: int = 0) -> str:
        """Until the end of it; with a bot it plays, `hands` settled hands or (0) for ever. Returns a sentence.

        Raises Refusal, ClientError when the table cannot be followed at all.
        """
        self._terminal.view = self.view
        self._bot = bot
        parts = [asyncio.create_task(self._follow()), asyncio.create_task(self._type())]
        self._doing.add(asyncio.create_task(self._announce()))
        if bot is not None:
            parts.append(asyncio.create_task(self._play(bot, hands)))
        try:
            done, _ = await asyncio.wait([*parts, self._broken], return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for task in (*parts, *self._doing):
                task.cancel()
            await asyncio.gather(*parts, *self._doing, return_exceptions=True)

    # ---- what is seen ---------------------------------------------------------------------------------------------

    def view(self) -> RenderableType:
        """The table as it is now."""
        now_ms = int(time.time() * 1000) + (self._ahead_ms or 0)
        notes = (*self._news[-_NEWS:], self._note)
        look = Look(now_ms, self._lasts, self._session.player_id, self._table.connected, notes)
        line = words.WATCH_LINE if self._state.observing else words.TABLE_LINE
        return Group(table_view(self._state, look), Text(line, "dim"))

    def last_result(self) -> RenderableType | None:
        """The result of the last hand that was told, to be kept in sight when the screen is given back."""
        return self._result

    async def _follow(self) -> str:
        async for update in self._table.updates():
            self._take(update)
            self._terminal.draw()
            self._tell()
        try:
            await self._table.until(lambda _: False)
        except TableGone as gone:
            self.quit = gone.why == "replaced"  # coming back would only throw the other one out
            return words.ENDS.get(gone.why, str(gone))
        raise AssertionError("a stream ends for a reason")

    async def _announce(self) -> None:
        """Says what operators tell to all."""
        async for told in self._table.notices():
            self._news.append(words.notice(told))
            self._terminal.say(self._news[-1])
            self._terminal.draw()

    def _take(self, update: Update) -> None:
        ahead_ms = update.at_ms - int(time.time() * 1000)
        self._ahead_ms = ahead_ms if self._ahead_ms is None else max(self._ahead_ms, ahead_ms)
        if isinstance(update, Snapshot):
            self._state.CopyFrom(update)
            self._lasts = lasts_of(update)
        else:
            self._lasts = self._lasts.after(update, following=self._state.HasField("on_table"))
            fold(self._state, update, self._session.player_id)
            if said := sentence(self._state, update):
                self._news.append(said)
                self._terminal.say(said)
        self._give_seed()

    def _tell(self) -> None:
        """Where no screen is held: each result, and the whole table whenever it waits for this person."""
        if self._state.last_result.hand_id != self._settled:
            self._settled = self._state.last_result.hand_id
            if due(self._state, self._session.player_id):
                self._result = result(self._state, self._session.player_id)
                self._terminal.say(self._result)
        question = asks(self._state)
        if question != self._told and question.startswith(YOURS) and self._bot is None:
            self._terminal.say(self.view())
        self._told = question

    # ---- what is done ---------------------------------------------------------------------------------------------

    def _give_seed(self) -> None:
        """A seed of one's own for each deal, so that nobody can have chosen the cards (RULES.md D-07)."""
        state = self._state
        deal_id = state.proof.deal_id
        if state.clock.phase != events_pb2.PHASE_SEED or state.you < 0 or state.observing or deal_id == self._seeded:
            return
        self._seeded = deal_id
        if not state.seats[state.you].trustee:
            self._start(self._try(GiveSeed(seed=secrets.token_bytes(16)), quietly=True))

    def _start(self, deed: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(deed)
        self._doing.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._doing.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(bug)

    async def _try(self, action: Action, *, quietly: bool = False) -> None:
        """Asks the servers; what they refuse is a note on the screen. `quietly`: it may well come too late."""
        try:
            await self._table.act(action)
        except (Refusal, ClientError) as error:
            if not quietly:
                self._say(sorry(error))

    def _say(self, note: str) -> None:
        self._note = note
        self._terminal.say(note)
        self._terminal.draw()

    async def _play(self, bot: Player, hands: int) -> str:
        done = await bot.play(self._table, hands or sys.maxsize)
        return f"打完 {len(done)} 局 {len(done)} hands played."

    async def _type(self) -> str:
        while (line := await self._terminal.line()) is not None:
            self._note = ""
            try:
                wish = read(line, self._state)
            except Unclear as unclear:
                self._say(str(unclear))
                continue
            sure, self._sure = self._sure, False
            if wish is Word.QUIT:
                self.quit = True
                return "座位留着 Your seat stays; `ddz play` comes back to it."
            if wish is Word.LEAVE and await self._leave(sure):
                return words.ENDS["left"]
            if wish is not Word.LEAVE:
                await self._do(wish)
            self._terminal.draw()
        if self._bot is None and self._state.you >= 0 and not self._state.observing:
            self.quit = True
            return "输入完了 Nothing more will be typed: your seat stays; `ddz play` comes back to it."
        await asyncio.Event().wait()  # a bot and an observer need no keys; the table ends it
        raise AssertionError("never set")

    async def _do(self, wish: Wish) -> None:
        match wish:
            case Word.HELP:
                self._say("\n".join(words.WATCH_HELP if self._state.observing else words.TABLE_HELP))
            case Word.HINT:
                self._hint()
            case Word.TAKE:
                if self._suggested is not None and self._suggested[0] == self._state.clock:
                    self._start(self._try(self._suggested[1]))
                self._suggested = None
            case Watch():
                self._start(self._observe(wish.seat))
            case Word():
                raise AssertionError(f"{wish} is done elsewhere")
            case _:
                self._start(self._try(wish))

    async def _observe(self, seat: int) -> None:
        try:
            await self._session.observe(self._table.table_id, seat, self._code)
        except (Refusal, ClientError) as error:
            self._say(sorry(error))

    def _hint(self) -> None:
        """What the library's bot would do, for Enter to do it."""
        state = self._state
        action = Player().answer(state) if state.you >= 0 and not state.observing else None
        if action is None or isinstance(action, GiveSeed):
            self._say("现在没有可提示的 Nothing to suggest now.")
            return
        clock = events_pb2.Clock()
        clock.CopyFrom(state.clock)
        self._suggested = (clock, action)
        self._say(f"提示 hint: {spoken(action)} · 回车照办 Enter does it")

    async def _leave(self, sure: bool) -> bool:
        """Gives the seat up; in a live hand only when asked twice. Whether the person is away now."""
        state = self._state
        matched = state.terms.matched and not state.last_result.hand_id
        if not (sure or state.observing or state.you < 0) and (state.clock.phase not in _FREE or matched):
            self._sure = True
            self._say("现在离开算逃跑，要赔积分 Leaving now is a flee and costs chips: 再写一次 type it again, leave")
            return False
        return state.you < 0 or await self._give_up()

    async def _give_up(self) -> bool:
        """Leaves the seat; whether it is no longer the person's. Why it still is, is a note on the screen."""
        try:
            await self._table.act(Leave())
        except Refusal as refusal:
            if refusal.reason not in _SEATLESS:
                self._say(sorry(refusal))
                return False
        except ClientError as error:
            self._say(sorry(error))
            return False
        return True
