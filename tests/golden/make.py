"""`make golden`: adds what this release stores of tables and hands to tests/golden; never writes a file anew.

A file that is there is a promise: tables in Redis and records in Postgres that an old release has written are read by
every later one. When something that is stored changes, raise the version in pyproject.toml and run this.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.json_format import MessageToDict

import doudizhu
from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2
from ddzclient.books import book_of
from ddzclient.verify import replay
from deploy.local.folders import ROOT
from doudizhu import Stakes
from services.table import commands, events, life, log, wire
from services.table.table import SEATS, Stage, Table
from services.table.views import viewer
from services.table.wire_checkpoint import may_checkpoint
from services.table.wire_snapshot import snapshot_to
from tests.services.table.sim import Sim, person, terms

FOLDER: Final = ROOT / "tests" / "golden"
BOOKS: Final = ("classic", "happy", "rob")
SEED: Final = 20_261_130
NUMBER: Final = {1: "p1", 2: "p2", 3: "p3"}
_LEFT_OPEN: Final = 12  # actions of the last hand, which is not over


@dataclass
class Recorder(Sim):
    """A table that also keeps its log as it is stored: entries, and a checkpoint wherever one could have been made."""

    entries: list[bytes] = field(default_factory=list)
    checkpoints: list[tuple[int, bytes]] = field(default_factory=list)  # after how many entries
    answers: log.Answers = field(default_factory=log.Answers)

    def decide(self, command: commands.Command, draw: int) -> list[events.Event]:
        before = len(self.log)
        found = super().decide(command, draw)
        new = self.log[before:]
        if new:
            key = (self.table.players[0].player_id if self.table.players else "", f"c{len(self.entries)}")
            self.answers.add(key, new[-1].seq)
            self.entries.append(entry(key, new))
            if may_checkpoint(self.table):
                self.checkpoints.append((len(self.entries), log.encode_checkpoint(self.table, self.answers)))
        return found


def entry(key: log.Key, stamped: list[events.Stamped]) -> bytes:
    """An entry of the log as it is stored."""
    return log.encode(log.Entry(key, stamped, [wire.event_to(one, None) for one in stamped]))


def snapshots(table: Table) -> list[dict[str, Any]]:
    """What each seat and a passer-by see of a table, in JSON's form."""
    who = [table.seats[number].person for number in SEATS]
    ids = ["" if one is None else one.player_id for one in who] + ["nobody"]
    found = (snapshot_to(table, viewer(table, player_id), epoch=1, now_ms=0) for player_id in ids)
    return [MessageToDict(one, preserving_proto_field_name=True) for one in found]


def folded(table_id: str, entries: list[str], table: Table | None = None) -> Table:
    """The table after these entries of its log."""
    for text in entries:
        found = log.decode(table_id, bytes.fromhex(text))
        table = found.checkpoint or table
        for one in found.stamped:
            table = log.fold(table_id, table, one)
    assert table is not None
    return table


def table_of(book: str, seed: int) -> Recorder:
    """A table on which three have sat down."""
    persons = tuple(person(number) for number in NUMBER) if book == "rob" else ()
    stamped, table = life.open_table("t1", terms(book), persons, idle_ms=60_000, now_ms=1_000_000, draw=seed)
    sim = Recorder(table, list(stamped), rng=random.Random(seed))
    sim.entries.append(entry(log.NOBODY, stamped))
    sim.balances = dict.fromkeys(NUMBER.values(), 10_000)
    sim.settle_pending()
    if book != "rob":
        for number in NUMBER:
            sim.sit(number)
    sim.connect_all()
    if book == "classic":
        sim.act(0, commands.SetBase(10))
        for seat in (1, 2):
            sim.act(seat, commands.AnswerBase(True))
    return sim


def choose(sim: Sim, rng: random.Random) -> None:
    """The seat on turn does something legal; where nobody is, time passes."""
    hand = sim.table.hand
    if hand is None or hand.turn is None:
        sim.wait_for_clock()
    else:
        sim.act(hand.turn, rng.choice(sim.legal()))  # type: ignore[arg-type]


def get_ready(sim: Sim) -> None:
    """Brings the next hand about."""
    while sim.table.stage is not Stage.HAND:
        if sim.table.stage is Stage.WAITING:
            for seat in SEATS:
                if not sim.table.seats[seat].ready:
                    sim.act(seat, commands.Ready(True))
        else:
            sim.wait_for_clock()


def played(book: str) -> Recorder:
    """Two whole hands, and a third that is left open with a seat that has lost its connection."""
    sim = table_of(book, SEED)
    sim.do(commands.Observe(person(7), 0))
    for _ in range(2):
        get_ready(sim)
        sim.play_hand()
    get_ready(sim)
    sim.do(commands.Disconnect("p2", "c1"))
    for _ in range(_LEFT_OPEN):
        hand = sim.table.hand
        if hand is not None and hand.turn == 1:
            sim.wait_for_clock()
        else:
            choose(sim, random.Random(0))
    return sim


def fled(book: str) -> Recorder:
    """A hand that ends because a seat leaves it."""
    sim = table_of(book, SEED + 1)
    get_ready(sim)
    while sim.table.hand is not None and sim.table.hand.landlord is None:
        choose(sim, sim.rng)
    sim.wait(4_000)
    sim.do(commands.Leave("p3"))
    return sim


def hands(sim: Sim) -> Iterator[dict[str, Any]]:
    """The records of a table's hands as the ledger stores them, with a settlement and what they come to."""
    for record in sim.records:
        assert isinstance(record, hand_pb2.HandRecord)
        yield {
            "record": record.SerializeToString().hex(),
            "settlement": settlement(record).SerializeToString().hex(),
            "outcome": MessageToDict(record.outcome, preserving_proto_field_name=True),
        }


def settlement(record: hand_pb2.HandRecord) -> ledger_pb2.Settlement:
    """What the ledger makes of a record between three players with 5,000 chips and a rating of 30."""
    book = book_of(record.terms)
    chips, ratings = (5_000, 5_000, 5_000), (30, 30, 30)
    stakes = Stakes(record.base_chips, record.terms.rake_chips, chips, chips, ratings)
    right = doudizhu.settle(book, doudizhu.outcome(replay(record)), stakes)
    made = ledger_pb2.Settlement(hand_id=record.hand_id, system_chips=right.system, settled_at_ms=record.ended_at_ms)
    for seat, player in enumerate(record.players):
        rating = right.rating[seat] if right.rating else 0
        made.seats.add(
            player_id=player.player_id, chips=right.chips[seat], rake_chips=right.rake[seat], carried_chips=5_000,
            balance_before_chips=5_000, balance_after_chips=5_000 + right.chips[seat], rating=rating, rating_before=30,
            rating_after=30 + rating,
        )  # fmt: skip
    return made


def cut(sim: Recorder, after: int, checkpoint: bytes) -> dict[str, Any]:
    """A log whose first entries were cut off, and what it then folds to: cards of a hand that is over are not kept."""
    log_then = [checkpoint.hex(), *(one.hex() for one in sim.entries[after:])]
    return {
        "after": after,
        "checkpoint": checkpoint.hex(),
        "seen": snapshots(folded(sim.table.table_id, log_then)),
    }


def content(book: str) -> dict[str, Any]:
    """Everything of one book."""
    whole, short = played(book), fled(book)
    return {
        "tables": [
            {
                "table_id": sim.table.table_id,
                "log": [entry.hex() for entry in sim.entries],
                "seen": snapshots(sim.table),
                "cuts": [cut(sim, *last) for last in sim.checkpoints[-1:]],
            }
            for sim in (whole, short)
        ],
        "hands": [*hands(whole), *hands(short)],
    }


def version() -> str:
    """The project's."""
    found = re.search('^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def main() -> None:
    for book in BOOKS:
        path = FOLDER / f"{book}-{version()}.json"
        if path.exists():
            print(f"{path.name} is there, and stays as it is.")
            continue
        path.write_text(json.dumps(content(book), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name} is new.")


if __name__ == "__main__":
    main()
