"""What the terminal shows of a table: all that matters to who sits there, and nothing that he may not know."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from google.protobuf import json_format
from rich.console import Console, RenderableType

from ddz.common.v1 import hand_pb2
from ddz.common.v1.common_pb2 import Notice, Player, Terms
from ddz.common.v1.hand_pb2 import Combo, FactorProduct, Outcome
from ddz.ledger.v1.ledger_pb2 import Balance
from ddz.lobby.v1.lobby_pb2 import Room
from ddz.matchmaking.v1.matchmaking_pb2 import Ticket
from ddz.table.v1 import events_pb2
from ddz.table.v1.events_pb2 import (
    Clock,
    Event,
    HandSettled,
    ObserverView,
    Passed,
    Played,
    SeatCards,
    SeatView,
    Snapshot,
)
from ddzclient.cli import main
from ddzclient.cli.asks import YOURS, asks
from ddzclient.cli.frames import frames
from ddzclient.cli.happened import Lasts, lasts_of, sentence
from ddzclient.cli.look import Look, card_text, table_view
from ddzclient.cli.menu import rooms_view, waiting_view
from ddzclient.cli.replay import step_to, verdict
from ddzclient.verify import verify
from doudizhu import BOOKS
from tests.client.test_fold import PEOPLE, simulate
from tests.client.test_verify import recorded

NAMES = ("老王", "Anna", "机器三号")


def shown(what: RenderableType) -> str:
    """What stands on a wide screen, as text."""
    console = Console(file=io.StringIO(), width=160, height=60, highlight=False)
    console.print(what, markup=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cards_on(text: str) -> set[int]:
    """The cards that can be read in a text."""
    return {card for card in range(54) if re.search(rf"(?<!\w){re.escape(card_text(card).plain)}", text)}


def table(phase: events_pb2.Phase.ValueType, turn: int = 0, book: str = "rob") -> Snapshot:
    """Three at a table, the viewer on seat 0 with six cards."""
    cards = [SeatCards(cards=[0, 1, 2, 28, 52, 53], count=6), SeatCards(count=11), SeatCards(count=17)]
    return Snapshot(
        table_id="m1",
        hand_id="m1-1",
        seq=45,
        terms=Terms(room_id="r", book=book, base_min_chips=5, base_max_chips=20, initial_multiplier=1),
        clock=Clock(phase=phase, seat=turn, deadline_ms=17_000),
        seats=[
            SeatView(seat=seat, player=Player(player_id=f"p{seat}", display_name=name), connected=True, cards=held)
            for seat, (name, held) in enumerate(zip(NAMES, cards, strict=True))
        ],
        players=[Player(player_id=f"p{seat}", display_name=name) for seat, name in enumerate(NAMES)],
        you=0,
        base_chips=10,
        multiplier=12,
        factors=[
            FactorProduct(factor=hand_pb2.FACTOR_ROB, product=4),
            FactorProduct(factor=hand_pb2.FACTOR_SHOW, product=3),
        ],
    )


def test_a_player_sees_his_cards_the_turn_the_clock_and_what_multiplies() -> None:
    state = table(events_pb2.PHASE_PLAY)
    state.landlord, state.level = 1, 2
    state.on_table.CopyFrom(Combo(cards=[4, 5, 6, 8], type="trio_single", rank="4", body=1))
    state.on_table_seat = 2
    state.bottom.extend([12, 16, 20])
    lasts = Lasts().put(2, state.on_table).put(1, "pass")
    text = shown(table_view(state, Look(now_ms=10_500, lasts=lasts, notes=("somebody sat down",))))
    assert "你的牌 your cards (6)" in text
    assert "X大王 x小王 10♠ 3♠ 3♥ 3♣" in text
    assert "倍数 multiplier ×12 = 抢地主 robs 4 × 明牌 shows 3" in text
    assert "底分 base 10 · 档 level 2" in text
    assert "底牌 bottom 8♠ 7♠ 6♠" in text
    assert f"{YOURS} · 打牌 playing: 压 beat 三带一 trio + 1 5 4 4 4 / 不要 pass / 提示 hint ⏱ 7 s" in text
    anna, third = (next(line for line in text.splitlines() if name in line) for name in NAMES[1:])
    assert re.search(r"1 +Anna +地主 landlord +11 +不要 pass", anna)
    assert re.search(r"农民 farmer +17 +5♠ 4♠ 4♥ 4♣ +三带一 trio \+ 1", third)
    assert "somebody sat down" in text
    assert "m1-1 #45" in text


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (events_pb2.PHASE_BASE, "base 5–20"),
        (events_pb2.PHASE_AGREE, "底分 base 10: 同意 agree / 不同意 disagree"),
        (events_pb2.PHASE_READY, "准备 ready"),
        (events_pb2.PHASE_SHOW_WINDOW, "明牌 show ×3"),
        (events_pb2.PHASE_BID, "2 / 3 / 不叫 pass"),
        (events_pb2.PHASE_CALL, "叫地主 call / 不叫 pass"),
        (events_pb2.PHASE_ROB, "抢地主 rob ×2 / 不抢 pass"),
        (events_pb2.PHASE_SHOW, "摊打 show ×3 / 不 no, 或领出 or lead"),
        (events_pb2.PHASE_PLAY, "领出 lead / 提示 hint"),
    ],
)
def test_whoever_is_asked_is_told_what_he_may_say(phase: events_pb2.Phase.ValueType, said: str) -> None:
    state = table(phase)
    state.level = 1
    if phase == events_pb2.PHASE_READY:
        assert not asks(state).startswith(YOURS), "hands of this book begin by themselves"
        state.terms.book = "happy"
    assert asks(state).startswith(YOURS)
    assert said in asks(state)
    state.you = 1
    assert not asks(table(phase, turn=2)).startswith(YOURS)
    state.observing = True
    assert not asks(state).startswith(YOURS)


def test_marks_say_who_is_away_who_shows_and_whom_the_trustee_plays_for() -> None:
    state = table(events_pb2.PHASE_PLAY, turn=1)
    state.seats[0].trustee = True
    state.seats[1].connected = False
    state.seats[2].shown = True
    state.seats[2].cards.cards.extend([40, 41])
    state.observers.append(ObserverView(observer=Player(display_name="看客"), seat=0))
    text = shown(table_view(state, Look()))
    assert asks(state) == "托管中 The trustee plays for you: trustee 收回 takes over"
    for mark in ("托管 trustee", "离线 away", "明牌 shown", "机器三号: K♠ K♥", "旁观 watching: 看客"):
        assert mark in text


def test_a_lost_connection_is_told() -> None:
    state = table(events_pb2.PHASE_PLAY)
    assert "Connection lost, reconnecting" in shown(table_view(state, Look(connected=False)))
    assert "Connection lost" not in shown(table_view(state, Look()))


def test_the_result_has_the_points_by_seat_and_by_factor() -> None:
    state = table(events_pb2.PHASE_COUNTDOWN, turn=-1)
    state.last_result.CopyFrom(
        HandSettled(
            hand_id="m1-1", chips=[235, -125, -125], balances_chips=[10_235, 9_875, 9_875], rating=[12, -12, -12],
            ratings_after=[12, 0, 0], system_chips=15,
        )
    )  # fmt: skip
    state.last_outcome.CopyFrom(
        Outcome(winner=hand_pb2.SIDE_LANDLORD, landlord=0, level=1, multiplier=12, factors=state.factors)
    )
    state.seats[1].ClearField("player")  # has left since
    text = shown(table_view(state, Look(player_id="p0")))
    assert "地主胜 The landlord wins · 你赢了 You win!" in text
    assert re.search(r"老王（你 you） +地主 landlord +\+235 +\+12 +10,235", text)
    assert re.search(r"Anna +农民 farmer +-125 +-12 +9,875", text)
    assert "底分 base 10 × 档 level 1 × 倍数 multiplier 12 = 120" in text
    assert "抢地主 robs ×4" in text
    assert "明牌 shows ×3" in text
    assert "系统回收 to the system 15" in text
    state.seats[1].player.CopyFrom(Player(player_id="p9", display_name="Nowhere before"))
    state.you = 1  # and somebody who did not play has sat down there: it is no result of his
    assert "结果 Result" not in shown(table_view(state, Look(player_id="p9")))
    state.you = -1  # who has lost his seat by the hand reads what he lost
    lost = shown(table_view(state, Look(player_id="p1")))
    assert "你输了 You lose." in lost
    assert re.search(r"Anna（你 you） +农民 farmer +-125", lost)
    state.clock.phase = events_pb2.PHASE_PLAY
    assert "结果 Result" not in shown(table_view(state, Look(player_id="p0")))


def test_names_cannot_command_the_terminal() -> None:
    state = table(events_pb2.PHASE_PLAY)
    state.seats[1].player.display_name = "\x1b[2Jevil\x07[bold]"
    text = shown(table_view(state, Look()))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "evil" in text
    assert "[bold]" in text


def test_lasts_stay_until_the_next_lead() -> None:
    combo = Combo(cards=[0], type="single", rank="3", body=1)
    played, passed = Event(played=Played(seat=1, combo=combo)), Event(passed=Passed(seat=2))
    lasts = Lasts().after(played, following=False).after(passed, following=True)
    assert lasts.seats == (None, combo, "pass")
    assert lasts_of(Snapshot(trick=[played, passed])) == lasts
    assert lasts.after(Event(played=Played(seat=0, combo=combo)), following=False).seats == (combo, None, None)


def test_a_sentence_says_who_did_what() -> None:
    state = table(events_pb2.PHASE_PLAY)
    combo = Combo(cards=[0, 1, 28], type="trio", rank="3", body=1)
    event = Event(played=Played(seat=0, combo=combo, cards_left=3, by_trustee=True))
    assert sentence(state, event) == "你 you: 三张 trio 10 3 3, 剩 3 left （托管 trustee）"
    assert sentence(state, Event(passed=Passed(seat=1))) == "Anna: 不要 pass"
    assert sentence(state, Event(bid_made=events_pb2.BidMade(seat=1, level=0))) == "Anna: 不叫 pass"
    voided = Event(hand_voided=events_pb2.HandVoided(reason="all_passed"))
    assert sentence(state, voided) == "没人叫牌，重新发牌 nobody wanted it: a new deal"
    assert sentence(state, Event()) == ""


@pytest.mark.parametrize("book", sorted(BOOKS))
def test_nothing_hidden_is_shown(book: str) -> None:
    """While hands are played, to players, observers and strangers: no card that the rules hide from them."""
    looked = hidden = 0
    for number in range(12):
        simulation = simulate(book, number)
        for step in range(200):
            if looked == 80 or not simulation.step() or (hand := simulation.table.hand) is None or step % 3:
                continue
            person = PEOPLE[looked % len(PEOPLE)]
            state = simulation.states[person.player_id]
            known = {card for seat in state.seats for card in seat.cards.cards} | {*state.bottom, *state.on_table.cards}
            known |= {state.marked_card} if state.HasField("marked_card") else set()
            secret = {card for cards in hand.hands for card in cards or ()} - known
            text = shown(table_view(state, Look(lasts=lasts_of(state))))
            assert not secret & cards_on(text)
            looked += 1
            hidden += bool(secret)
    assert hidden > 10


def test_rooms_are_numbered_and_say_what_they_cost() -> None:
    terms = table(events_pb2.PHASE_PLAY).terms
    terms.minimum_chips, terms.maximum_chips, terms.rake_chips = 200, 50_000, 5
    room = Room(room_id="rob-beginner", name_zh="初级场", name_en="beginners", terms=terms, players=7)
    text = shown(
        rooms_view("老王", Balance(chips=10_000, rating=120, title="farmhand"), [room, room], "no such number")
    )
    assert "老王 · 10,000 筹码 chips · 120 长工 Farmhand" in text
    assert re.search(r"2 +初级场 beginners +抢地主 Rob +5–20 +200–50,000 +5 +7", text)
    assert "no such number" in text
    assert "系统维护" not in text
    told = Notice(maintenance=True, message="back at noon")
    assert "系统维护 Maintenance: back at noon" in shown(rooms_view("老王", Balance(), [room], told=told))


def test_waiting_tells_the_estimate() -> None:
    text = shown(waiting_view("初级场", Ticket(position=2, estimate_ms=11_500), 3_200))
    assert "已等 waited 3 s · 预计 estimate 12 s · 排位 place 2" in text
    assert "不知道 not known" in shown(waiting_view("初级场", Ticket(), 0))


@pytest.mark.parametrize("book", ["classic", "happy", "rob"])
def test_a_record_is_looked_at_step_by_step(book: str) -> None:
    hand = recorded(BOOKS[book], 7)
    found = frames(hand)
    assert len(found) == len(hand.record.actions)
    assert [len(seat.cards.cards) for seat in found[0].state.seats] == [17, 17, 17]
    for frame in found[::9]:
        assert shown(table_view(frame.state, Look(lasts=frame.lasts, notes=(frame.said,))))
    last = shown(table_view(found[-1].state, Look()))
    assert "结果 Result" in last
    assert f"{hand.settlement.seats[0].chips:+,}" in last
    assert "✓ 结算一致 the settlement is right" in shown(verdict(hand, verify(hand.record, hand.settlement)))


def test_a_false_record_is_shown_up_to_its_fault() -> None:
    hand = recorded(BOOKS["happy"], 7)
    play = next(number for number, action in enumerate(hand.record.actions) if action.HasField("play"))
    hand.record.actions[play].play.cards[:] = [0, 5]
    assert len(frames(hand)) == play
    faults = verify(hand.record, hand.settlement)
    assert f"Action {play + 1}" in faults[0]
    assert "✗" in shown(verdict(hand, faults))
    assert "✓" not in shown(verdict(hand, faults))


def test_a_file_is_replayed_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand = recorded(BOOKS["classic"], 7)
    file = tmp_path / "hand.json"
    file.write_text(json_format.MessageToJson(hand))
    assert main(["replay", str(file), "--plain"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1. 发牌 the deal\n2. ")
    assert "✓ 结算一致 the settlement is right" in out
    hand.settlement.seats[0].chips += 1
    file.write_text(json_format.MessageToJson(hand))
    assert main(["replay", str(file), "--plain"]) == 1
    assert "✗ Seat 0's chips is recorded as" in capsys.readouterr().out


def test_steps_go_on_back_and_to_a_number() -> None:
    assert [step_to(line, 3, 9) for line in ("", "n", "b", "7", "0", "99999999999", "end", "what")] == [
        4, 4, 2, 6, 0, 9, 9, 3,
    ]  # fmt: skip
    assert step_to("b", 0, 9) == 0
    assert step_to("", 9, 9) is None
    assert step_to("quit", 3, 9) is None
