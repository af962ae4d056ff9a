"""Any life of a table: random commands, sensible or not, keep its invariants; the codec and folding lose nothing."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from doudizhu import Refusal
from doudizhu.hand import Bid, Call, Pass, Rob, Show
from services.table import commands
from services.table.clocks import wake_at_ms
from services.table.table import SEATS, Stage, Table
from services.table.views import NOBODY, viewer, viewers
from services.table.wire_snapshot import snapshot_to
from tests.services.table.sim import Sim, person, roundtrip, terms


def random_command(sim: Sim, rng: random.Random) -> commands.Command:
    """Something that somebody might do now."""
    number, seat = rng.randrange(1, 7), rng.randrange(3)
    hand = sim.table.hand
    if sim.table.stage is Stage.HAND and hand is not None and hand.turn is not None and rng.random() < 0.7:
        return commands.Act(hand.turn, rng.choice(sim.legal()))  # type: ignore[arg-type]
    moves: list[commands.SeatAction] = [Bid(seat, 1), Call(seat, True), Rob(seat, True), Show(seat, True), Pass(seat)]
    asked: list[commands.Command] = [
        commands.Sit(person(number)),
        commands.Sit(person(number), seat),
        commands.Observe(person(number), seat),
        commands.Leave(f"p{number}"),
        commands.Connect(f"p{number}", f"c{rng.random()}"),
        commands.Disconnect(f"p{number}", _connection(sim.table, f"p{number}")),
        commands.Tick(),
        commands.Act(seat, commands.SetBase(rng.randrange(0, 120))),
        commands.Act(seat, commands.AnswerBase(rng.random() < 0.8)),
        commands.Act(seat, commands.Ready(rng.random() < 0.8)),
        commands.Act(seat, commands.SetTrustee(rng.random() < 0.5)),
        commands.Act(seat, commands.AllowObservers(rng.random() < 0.5)),
        commands.Act(seat, commands.GiveSeed(bytes([seat + 1]))),
        commands.Act(seat, rng.choice(moves)),
    ]
    return rng.choice(asked)


def _connection(table: Table, player_id: str) -> str:
    seat = table.seat_of(player_id)
    return "" if seat is None else table.seats[seat].connection


@settings(max_examples=40, deadline=None)
@given(book=st.sampled_from(["classic", "happy", "rob"]), seed=st.integers(0, 2**32))
def test_any_life_of_a_table_keeps_its_invariants(book: str, seed: int) -> None:
    rng = random.Random(seed)
    matched = book == "rob" and rng.random() < 0.7
    persons = (person(1), person(2), person(3)) if matched else ()
    sim = Sim.open(terms(book, matched=matched), *persons, balance=rng.choice([120, 5_000]), seed=seed)
    for _ in range(rng.randrange(40, 160)):
        if rng.random() < 0.15:
            sim.wait(rng.choice([10, 1_000, 8_000, 61_000]))
        before = sim.table
        command = random_command(sim, rng)
        if isinstance(command, commands.Act) and before.seats[command.seat].person is None:
            continue  # a command of somebody who sits nowhere does not get so far
        try:
            sim.do(command)
        except Refusal:
            assert sim.table is before
        check(sim)
    for one in sim.log:
        assert roundtrip(one) == one


def check(sim: Sim) -> None:
    """What must hold whatever happens."""
    table = sim.table
    ids = [seat.person.player_id for seat in table.seats if seat.person]
    assert len(set(ids)) == len(ids), "an account has one seat"
    assert [one.seq for one in sim.log] == list(range(1, table.seq + 1)), "the log has no gap"
    assert min(sim.balances.values()) >= 0
    wake = wake_at_ms(table)
    if table.stage in (Stage.HAND, Stage.COUNTDOWN):
        assert wake is not None, "whatever is played waits for a clock"
    if table.stage is Stage.HAND:
        assert len(ids) == len(SEATS), "nobody plays with an empty seat"
    if table.stage is not Stage.CLOSED and not ids:
        assert wake is not None, "an empty table will be closed"
    places = viewers(table)
    for player_id in (*ids, *(one.person.player_id for one in table.observers), "stranger"):
        assert places.get(player_id, NOBODY) == viewer(table, player_id)
        snapshot_to(table, viewer(table, player_id), epoch=1, now_ms=sim.now_ms)
