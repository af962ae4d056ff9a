"""What the page makes of a table's events is what the SDK makes of them, at every step of a whole hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from ddz.table.v1.events_pb2 import Snapshot
from ddzclient.client import Gateway
from ddzclient.errors import TableGone
from ddzclient.fold import fold
from ddzclient.player import Player, find_table
from ddzclient.session import Session
from deploy.local.stack import Stack
from tests.browser.person import Crowd, Person, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

# Follows a table as the page does, and keeps every state.
_FOLLOW = """async (tableId) => {
  const { Session } = await import("/app/net/session.js");
  const { Table } = await import("/app/net/table.js");
  const { kindOf } = await import("/app/game/fold.js");
  const session = new Session();
  await session.logIn();
  await session.call("POST", `/v1/tables/${tableId}/observe`, { seat: 1 });
  window.followed = { states: {}, kinds: [], ended: false };
  const table = new Table(session, tableId, {
    changed: (event) => {
      window.followed.states[table.state.seq] = structuredClone(table.state);
      if (event) window.followed.kinds.push(kindOf(event));
    },
    ended: () => { window.followed.ended = true; },
  });
  table.run();
}"""


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state without what is written in two ways, or differs from one person to the other."""
    same = {name: value for name, value in state.items() if name != "atMs"}
    same["seq"] = int(state["seq"])
    same["seats"] = [{"cards": {"cards": [], "count": 0}} | seat for seat in state["seats"]]
    same["trick"] = [
        {name: step[name] for name in step if name not in ("seq", "atMs", "clock")} for step in state["trick"]
    ]
    return same


async def follow(session: Session, table_id: str, states: dict[int, dict[str, Any]]) -> None:
    """Keeps every state of a table as the SDK folds it."""
    state = Snapshot()
    try:
        async with session.table(table_id) as table:
            async for update in table.updates():
                if isinstance(update, Snapshot):
                    state.CopyFrom(update)
                else:
                    fold(state, update, session.player_id)
                states[state.seq] = MessageToDict(state, always_print_fields_with_no_presence=True)
    except TableGone:
        return


@pytest.mark.parametrize("book", ["rob", "happy", "classic"])
async def test_the_page_folds_like_the_sdk(crowd: Crowd, stack: Stack, book: str) -> None:
    person = await crowd.person()
    await person.see(".room")
    async with Gateway(stack.address) as gateway:
        names = ("one", "two", "three", "looker")
        *bots, looker = [await Session.guest(gateway, f"fold-{book}-{name}".ljust(20, ".")) for name in names]
        tables = set(await asyncio.gather(*[find_table(bot, f"{book}-beginner") for bot in bots]))
        assert len(tables) == 1
        table_id = tables.pop()
        await looker.observe(table_id, 1)
        await person.page.evaluate(_FOLLOW, table_id)
        await until(lambda: _has_state(person), "the page has come to the table")
        theirs: dict[int, dict[str, Any]] = {}
        async with asyncio.timeout(200), asyncio.TaskGroup() as group:
            following = group.create_task(follow(looker, table_id, theirs))
            playing = [group.create_task(_play(bot, table_id, seed)) for seed, bot in enumerate(bots)]
            await asyncio.wait(playing)
            await until(lambda: _knows(person, max(theirs)), "the page knows the end")
            following.cancel()
    followed = await person.page.evaluate("window.followed")
    mine = {int(seq): state for seq, state in followed["states"].items()}
    both = sorted(set(mine) & set(theirs))
    assert len(both) > 30
    for seq in both:
        one, other = plain(mine[seq]), plain(theirs[seq])
        assert one["seats"] == other["seats"], f"after event {seq}"
        assert one == other, f"after event {seq}"
    assert {"dealt", "landlordSet", "played", "passed", "handSettled"} <= set(followed["kinds"])


async def _play(bot: Session, table_id: str, seed: int) -> None:
    async with bot.table(table_id) as table:
        await Player(seed=seed).play(table, 1)


async def _has_state(person: Person) -> bool:
    return bool(await person.page.evaluate("Object.keys(window.followed.states).length"))


async def _knows(person: Person, seq: int) -> bool:
    return bool(await person.page.evaluate("seq => window.followed.ended || seq in window.followed.states", seq))
