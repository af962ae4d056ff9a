"""What operators do to a table: hands that are held back, and tables that are ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from doudizhu.hand import Dealt
from services.table import commands, events, life, wire
from services.table.push import told_of
from services.table.table import Phase, Stage
from tests.services.table.sim import Sim, classic_table, happy_table, rob_match

MAKE: dict[str, Callable[[], Sim]] = {
    "classic": lambda: classic_table(1, 2, 3),
    "happy": lambda: happy_table(1, 2, 3),
    "rob": rob_match,
}


@pytest.mark.parametrize("book", MAKE)
def test_in_maintenance_a_hand_is_played_out_and_the_next_one_waits(book: str) -> None:
    sim = MAKE[book]()
    assert sim.table.stage is Stage.HAND
    sim.closed = True
    while sim.table.stage is Stage.HAND:  # a hand in which all pass is void, and another one would follow at once
        sim.play_hand()
    hand_id = sim.table.hand_id
    sim.wait(60_000)
    assert (sim.table.stage, sim.table.hand_id, sim.table.seated) == (Stage.WAITING, hand_id, (0, 1, 2))
    sim.do(commands.Proceed())
    assert sim.table.stage is Stage.WAITING
    sim.closed = False
    [opening] = [event for event in sim.do(commands.Proceed()) if isinstance(event, events.HandOpening)]
    assert opening.hand_id != hand_id


def test_who_comes_in_maintenance_begins_no_hand() -> None:
    sim = happy_table(1, 2)
    sim.closed = True
    sim.sit(3)
    sim.connect_all()
    sim.act(2, commands.Ready(True))
    assert (sim.table.stage, sim.table.phase) == (Stage.WAITING, Phase.READY)
    sim.closed = False
    assert any(isinstance(event, events.HandOpening) for event in sim.do(commands.Proceed()))


def test_who_comes_back_after_maintenance_begins_the_hand() -> None:
    sim = happy_table(1, 2)
    sim.closed = True
    sim.sit(3)
    sim.connect_all()
    sim.act(2, commands.Ready(True))
    sim.do(commands.Disconnect("p1", "c0"))
    sim.closed = False
    assert any(isinstance(event, events.HandOpening) for event in sim.do(commands.Connect("p1", "c9")))


@pytest.mark.parametrize("book", MAKE)
def test_a_hand_that_was_held_back_waits_until_everybody_is_back(book: str) -> None:
    """All processes were restarted in maintenance, and who comes back last is still on his way."""
    sim = MAKE[book]()
    sim.connect_all()
    sim.closed = True
    while sim.table.stage is Stage.HAND:
        sim.play_hand()
    sim.wait(10_000)
    for number in range(3):
        sim.do(commands.Disconnect(f"p{number + 1}", f"c{number}"))
    sim.closed = False
    assert sim.do(commands.Proceed()) == []
    for number in range(3):
        found = sim.do(commands.Connect(f"p{number + 1}", f"d{number}"))
        assert any(isinstance(event, events.HandOpening) for event in found) is (number == 2)


def test_nothing_follows_where_nothing_was_held_back() -> None:
    for sim in (happy_table(1, 2), happy_table(1, 2, 3), rob_match()):
        assert sim.do(commands.Proceed()) == []


@pytest.mark.parametrize("book", MAKE)
def test_a_void_table_voids_its_live_hand_and_closes(book: str) -> None:
    sim = MAKE[book]()
    balances = dict(sim.balances)
    voided, closed = sim.do(commands.VoidTable())
    assert isinstance(voided, events.HandVoided)
    assert (voided.reason, closed) == ("operator", events.Closed("operator"))
    assert (sim.table.stage, life.pending(sim.table), sim.balances) == (Stage.CLOSED, None, balances)
    assert sim.do(commands.VoidTable()) == []


def test_a_hand_that_is_over_is_left_to_the_ledger() -> None:
    sim = rob_match()
    while sim.table.stage is not Stage.SETTLING:
        hand = sim.table.hand
        assert hand is not None
        if hand.turn is None:
            sim.wait_for_clock()
        else:
            sim.decide(commands.Leave(f"p{hand.turn + 1}"), 0)
    assert sim.decide(commands.VoidTable(), 0) == [events.Closed("operator")]
    assert life.pending(sim.table) is None


def test_the_log_of_a_live_hand_is_told_without_its_secrets() -> None:
    sim = rob_match()
    messages = [wire.event_to(one, None) for one in sim.log]
    told = [told_of(message, sim.table.hand_seq) for message in messages]
    whole = [told_of(message, sim.table.seq + 1) for message in messages]
    for one, hidden, shown in zip(sim.log, told, whole, strict=True):
        if isinstance(one.event, events.Move) and isinstance(one.event.event, Dealt):
            assert [len(hand.cards) for hand in hidden.dealt.hands] == [0, 0, 0]
            assert [len(hand.cards) for hand in shown.dealt.hands] == [17, 17, 17]
        if isinstance(one.event, events.Committed):
            assert (hidden.committed.server_seed, shown.committed.server_seed) == (b"", one.event.server_seed)
        for message in (hidden, shown):
            assert not message.presence_set.connection
