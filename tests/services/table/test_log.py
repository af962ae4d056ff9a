"""Logs that are cut, commands that come twice, and people who send too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import table_pb2
from services.table import log
from services.table.budget import Budget
from services.table.commands import Ready
from services.table.table import Stage
from tests.services.table.sim import Sim, classic_table, happy_table
from tests.services.table.stack import Stack, act, fresh, look, table_node, terms, until


def waiting() -> Sim:
    """A table of two, of whom one is ready."""
    sim = happy_table(1, 2)
    sim.act(0, Ready(True))
    return sim


def after_a_hand() -> Sim:
    """A table whose countdown runs."""
    sim = classic_table(1, 2, 3)
    sim.play_hand()
    return sim


@pytest.mark.parametrize(("make", "stage"), [(waiting, Stage.WAITING), (after_a_hand, Stage.COUNTDOWN)])
def test_a_cut_log_begins_with_what_outlives_the_hand_and_its_answers(make: object, stage: Stage) -> None:
    assert callable(make)
    table = make().table
    answers = log.Answers()
    answers.add(("p1", "c1"), 3)
    found = log.decode(table.table_id, log.encode_checkpoint(table, answers))
    assert found.checkpoint is not None
    assert (found.checkpoint.stage, found.checkpoint.seats, found.checkpoint.seq) == (stage, table.seats, table.seq)
    assert (found.checkpoint.hand_id, found.checkpoint.last_result) == (table.hand_id, table.last_result)
    assert found.answers is not None
    assert dict(found.answers.known) == {("p1", "c1"): 3}


@pytest.mark.parametrize("cut_at", [0, 100, 4_990])
def test_the_last_answers_are_known_also_after_a_cut_and_no_more_than_so_many(cut_at: int) -> None:
    answers = log.Answers()
    for number in range(5_000):
        answers.add(("p1", str(number)), number)
        answers.add(log.NOBODY, number)
        if number == cut_at:
            answers = log.Answers(answers.known)
    known = [number for number in range(5_000) if answers.get(("p1", str(number))) == number]
    assert known == list(range(5_000 - len(known), 5_000))
    assert len(known) == log.ANSWERS_KEPT


def test_nobody_can_have_the_answers_to_another_forgotten() -> None:
    answers = log.Answers()
    answers.add(("p1", "c1"), 1)
    for number in range(2, 5_000):
        answers.add(("p2", str(number)), number)
    assert log.Answers(answers.known).get(("p1", "c1")) == answers.get(("p1", "c1")) == 1


def test_the_answers_to_those_who_have_been_gone_for_long_are_forgotten() -> None:
    answers = log.Answers()
    for number in range(5_000):
        answers.add((f"p{number}", "c"), number)
        answers.add(("always there", str(number)), number)
    assert len(answers.known) < 2 * log.ANSWERS_KEPT
    assert answers.get(("always there", "4999")) == 4_999
    assert answers.get(("p4999", "c")) == 4_999


@given(st.lists(st.floats(0, 10), max_size=300))
def test_a_budget_lets_through_its_burst_and_its_rate_and_no_more(pauses_s: list[float]) -> None:
    budget, now_s, taken = Budget(2.0, 5), 100.0, 0
    assert [budget.take(now_s) for _ in range(6)] == [True] * 5 + [False]
    for pause_s in pauses_s:
        now_s += pause_s
        taken += budget.take(now_s)
    assert taken <= 2.0 * (now_s - 100.0) + 1e-6


def test_a_budget_says_when_there_is_one_to_take() -> None:
    budget = Budget(per_s=4.0, burst=1)
    assert budget.take(10.0)
    assert not budget.take(10.0)
    assert budget.wait_s() == pytest.approx(0.25)
    assert budget.take(10.0 + budget.wait_s())


async def test_who_sends_too_much_is_refused_and_others_are_not(stack: Stack) -> None:
    async with table_node(
        stack.redis_url, stack.nats_url, stack.ledger_port, commands_per_s=0.5, commands_burst=5
    ) as node:
        players = await stack.players()
        table_id = await stack.open(terms("happy"), players[:2])
        streams = [stack.client(player.player_id, table_id) for player in players[:2]]
        for stream in streams:
            stream.stub = node.stub
            await stream.open()
        ids = [await streams[0].send(ready=table_pb2.Ready(ready=number % 2 == 0)) for number in range(4)]
        ids += [await streams[0].send(fresh("c"), play=hand_pb2.PlayCards(cards=[99])) for _ in range(2)]
        await until(lambda: streams[0].answer(ids[-1]))
        answers = [streams[0].answer(one) for one in ids]
        assert [isinstance(one, table_pb2.Accepted) for one in answers] == [True] * 4 + [False] * 2
        reasons = [common_pb2.Reason.Name(one.refusal.reason) for one in answers[4:]]
        assert reasons == ["REASON_INVALID", "REASON_RATE_LIMITED"], "what cannot be counts as well"
        assert isinstance(await streams[1].act(ready=table_pb2.Ready(ready=True)), table_pb2.Accepted)
        for stream in streams:
            await stream.close()


async def test_a_repeat_gets_its_first_answer_after_the_log_was_cut_and_when_nothing_happened(stack: Stack) -> None:
    one, other = stack.nodes
    players = await stack.players()
    table_id, player_id = await stack.open(terms("happy"), players[:2]), players[0].player_id
    yes, no = table_pb2.Ready(ready=True), table_pb2.Ready(ready=False)
    first = fresh("c")
    told = await act(one, table_id, player_id, first, ready=yes)
    await act(one, table_id, player_id, ready=no)
    actor = one.service.node.actor(table_id)
    assert actor.table is not None
    packed = log.encode_checkpoint(actor.table, actor._replica.answers)
    assert await one.service.node.store.cut(table_id, actor.table.seq, packed, 0)
    assert len((await one.service.node.store.parts(table_id))[-1]) == 1
    assert await act(other, table_id, player_id, first, ready=yes) == told

    nothing = fresh("c")
    unchanged = await act(other, table_id, player_id, nothing, ready=no)
    await act(other, table_id, player_id, ready=yes)
    assert await act(other, table_id, player_id, nothing, ready=no) == unchanged
    assert (await look(other, table_id, player_id)).seats[0].ready


async def test_a_cut_keeps_the_events_since_the_cut_before(stack: Stack) -> None:
    (player,) = await stack.players(count=1)
    table_id = await stack.open(terms("happy"), [player])
    node = stack.nodes[0]
    store, actor = node.service.node.store, node.service.node.actor(table_id)
    cuts = []
    for _ in range(3):
        await act(node, table_id, player.player_id, ready=table_pb2.Ready(ready=True))
        await act(node, table_id, player.player_id, ready=table_pb2.Ready(ready=False))
        await actor._replica.cut(1)
        assert actor.table is not None
        cuts.append(actor.table.seq)
    decoded = [log.decode(table_id, entry) for entry in await store.read(table_id, 1)]
    kept = [one.seq for entry in decoded for one in entry.stamped]
    assert kept == list(range(cuts[1] + 1, cuts[2] + 1))
    assert [entry.checkpoint.seq for entry in decoded if entry.checkpoint] == cuts[1:]
    assert len((await store.parts(table_id))[-1]) == 1
