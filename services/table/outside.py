"""What a table waits for outside of itself, brought about once at a time: ledger calls, and seeds that are drawn.

A task goes on in the trace of the command that made it pending; taken up from a dead node it begins one of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from servicekit import logs, metrics, traces
from servicekit.pipe import StoreLost
from services.table import commands, life

if TYPE_CHECKING:
    from services.table.actor import Actor
    from services.table.node import Node

log = logs.get("outside")

_STORE_PAUSE_S: Final = 0.1
_FAULT_PAUSE_S: Final = 1.0


class Outside:
    """`see_to` begins what is pending, once; the answer is told to the table.

    It is the actor's and does not hold him, so that whoever lets go of an actor has let go of all of it.
    """

    def __init__(self, node: Node) -> None:
        self.task: asyncio.Task[None] | None = None
        self._node = node
        self._effect: life.Effect | None = None

    def see_to(self, actor: Actor, effect: life.Effect | None) -> None:
        """Begins what is pending; ends what is no more."""
        if effect == self._effect:
            return
        self.close()
        self._effect = effect
        if isinstance(effect, life.DrawSeed):
            actor.tell(commands.Commit(effect.deal_id, self._node.seeds.draw(effect.deal_id)))
        elif effect is not None:
            self.task = asyncio.create_task(self._bring_about(actor, effect))

    async def _bring_about(self, actor: Actor, effect: life.Effect) -> None:
        while True:
            try:
                hand_id = "" if isinstance(effect, life.DrawSeed) else effect.hand_id
                with traces.span(type(effect).__name__, table=actor.table_id, hand=hand_id):
                    command = await self._node.bring_about(effect, actor)
            except StoreLost:
                await asyncio.sleep(_STORE_PAUSE_S)
            except Exception as error:
                metrics.FAULTS.labels("outside").inc()
                log.error("unexpected exception", exc_info=error, extra={"table": actor.table_id})
                await asyncio.sleep(_FAULT_PAUSE_S)
            else:
                self.task = None
                actor.tell(command)
                return

    def forget(self) -> None:
        """Lets what is pending begin again, unless it is under way: its answer may have been lost."""
        if self.task is None:
            self._effect = None

    def close(self) -> None:
        """Ends what is under way."""
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._effect = None
