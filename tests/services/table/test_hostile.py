"""Null, wrong types, huge, repeated, unheld and foreign input. Rows of area `proto`: BR-119 to 135.

The sender gets a typed refusal, the hand stays bit-identical, the process lives, everybody else is untouched.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import table_pb2
from tests.services.table.stack import PASS, Client, Stack, act, fresh, look, metadata, until
from tests.services.table.test_leaks import log_of
from tests.services.table.test_rooms import reason
from tests.services.table.test_streams import close, happy_hand, same, to_play

REASON = common_pb2.Reason
PLAY = "/ddz.table.v1.TableService/Play"
ACT = "/ddz.table.v1.TableService/Act"


async def lead_table(stack: Stack) -> tuple[str, list[str], list[Client], int]:
    """A hand whose landlord is to lead."""
    table_id, ids, clients = await happy_hand(stack)
    return table_id, ids, clients, await to_play(stack, table_id, ids)


async def refused_play(stack: Stack, cards: list[int], **named: str) -> int:
    """Lets the landlord play these; the reason of the refusal, after it was seen that nothing has changed."""
    table_id, ids, clients, landlord = await lead_table(stack)
    before = [await look(stack.nodes[number % 2], table_id, one) for number, one in enumerate(ids)]
    answer = await clients[landlord].act(play=hand_pb2.PlayCards(cards=cards, **named))
    assert isinstance(answer, table_pb2.Refused)
    after = [await look(stack.nodes[number % 2], table_id, one) for number, one in enumerate(ids)]
    assert all(same(one, other) for one, other in zip(before, after, strict=True))
    await close(clients)
    return answer.refusal.reason


@pytest.mark.parametrize("data", [b"null", b"5", b'"x"', b"[]", b"\xff" * 40, b"\x0a\xff", bytes(1000)], ids=range(7))
async def test_br_119_br_122_bytes_that_are_no_message_end_the_call_and_nothing_else(stack: Stack, data: bytes) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    async with grpc.aio.insecure_channel(stack.nodes[0].target) as channel:
        unary: Any = channel.unary_unary(ACT)
        with pytest.raises(grpc.aio.AioRpcError):
            await unary(data, metadata=metadata(ids[0]), timeout=5)
        streaming: Any = channel.stream_stream(PLAY)(metadata=metadata(ids[0]))
        await streaming.write(table_pb2.PlayRequest(table_id=table_id).SerializeToString())
        await streaming.read()
        await streaming.write(data)
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await streaming.read() is not grpc.aio.EOF:
                pass
    snapshot = await look(stack.nodes[0], table_id, ids[1])
    assert [seat.cards.count for seat in snapshot.seats] == [20 if seat == landlord else 17 for seat in range(3)]
    await close(clients)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (table_pb2.Command(command_id="c"), "command.action"),
        (table_pb2.Command(trustee=table_pb2.Trustee(on=True)), "command.command_id"),
        (table_pb2.Command(command_id="x" * 65, ready=table_pb2.Ready()), "command.command_id"),
        (table_pb2.Command(command_id="c", bid=hand_pb2.Bid(level=4)), "command.bid.level"),
        (table_pb2.Command(command_id="c", bid=hand_pb2.Bid(level=-1)), "command.bid.level"),
        (table_pb2.Command(command_id="c", play=hand_pb2.PlayCards()), "command.play.cards"),
        (table_pb2.Command(command_id="c", play=hand_pb2.PlayCards(cards=[54])), "command.play.cards"),
        (table_pb2.Command(command_id="c", play=hand_pb2.PlayCards(cards=list(range(21)))), "command.play.cards"),
        (table_pb2.Command(command_id="c", give_seed=table_pb2.GiveSeed()), "command.give_seed.seed"),
        (table_pb2.Command(command_id="c", set_base=table_pb2.SetBase(base_chips=0)), "command.set_base.base_chips"),
    ],
)
async def test_br_123_a_command_that_breaks_the_contract_is_refused_with_the_field(
    stack: Stack, command: table_pb2.Command, field: str
) -> None:
    table_id, ids, clients = await happy_hand(stack)
    await clients[0].send_raw(table_pb2.PlayRequest(command=command))
    await until(lambda: any(frame.HasField("refused") for frame in clients[0].frames))
    refused = next(frame.refused for frame in clients[0].frames if frame.HasField("refused"))
    assert (refused.refusal.reason, refused.refusal.field) == (REASON.REASON_INVALID, field)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stack.nodes[1].stub.Act(
            table_pb2.ActRequest(table_id=table_id, command=command), metadata=metadata(ids[0])
        )
    assert reason(error.value) == "INVALID"
    assert not clients[0].ended
    await close(clients)


async def test_br_123_closing_before_the_first_request_harms_nobody(stack: Stack) -> None:
    _table_id, ids, clients = await happy_hand(stack)
    for _ in range(3):
        call = stack.nodes[0].stub.Play(metadata=metadata(ids[0]))
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        stack.nodes[0].stub.Play(metadata=metadata(ids[0])).cancel()
    assert not any(client.ended for client in clients)
    await close(clients)


async def test_br_124_br_125_a_card_that_is_not_held(stack: Stack) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    held = (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards
    foreign = next(card for card in range(54) if card not in held)
    for number in range(3):
        answer = await clients[landlord].act(play=hand_pb2.PlayCards(cards=[foreign]))
        assert answer.refusal.reason == REASON.REASON_CARD_NOT_HELD, number
    await close(clients)


async def test_br_126_br_127_the_same_card_twice_or_four_times(stack: Stack) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    held = (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards[0]
    for times in (2, 4, 20):
        answer = await clients[landlord].act(play=hand_pb2.PlayCards(cards=[held] * times))
        assert answer.refusal.reason == REASON.REASON_DUPLICATE_CARD
    assert (await look(stack.nodes[1], table_id, ids[landlord])).seats[landlord].cards.count == 20
    await close(clients)


@pytest.mark.parametrize("cards", [[54], [2**31 - 1], [-1]])
async def test_br_128_a_card_beyond_the_deck(stack: Stack, cards: list[int]) -> None:
    assert await refused_play(stack, cards) == REASON.REASON_INVALID


@pytest.mark.parametrize("named", [{"rank": "1"}, {"type": "nonsense"}, {"rank": "X", "type": "rocket"}])
async def test_a_reading_that_does_not_exist(stack: Stack, named: dict[str, str]) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    held = (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards[0]
    answer = await clients[landlord].act(play=hand_pb2.PlayCards(cards=[held], **named))
    assert answer.refusal.reason in (REASON.REASON_MALFORMED, REASON.REASON_AMBIGUOUS_COMBO)
    await close(clients)


async def test_br_132_concurrent_commands_are_done_one_after_the_other(stack: Stack) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    held = (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards
    racing = [
        act(stack.nodes[number % 2], table_id, ids[landlord], play=hand_pb2.PlayCards(cards=[held[number]]))
        for number in range(6)
    ]
    answers = await asyncio.gather(*racing, return_exceptions=True)
    assert sum(isinstance(answer, int) for answer in answers) == 1
    assert (await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.count == 19
    await close(clients)


@pytest.mark.parametrize("table_id", ["-1", "0", "2147483648", "no-such-table"])
async def test_br_133_a_table_that_does_not_exist(stack: Stack, table_id: str) -> None:
    (player,) = await stack.players(count=1)
    for call in (
        look(stack.nodes[0], table_id, player.player_id),
        act(stack.nodes[1], table_id, player.player_id, ready=table_pb2.Ready(ready=True)),
        stack.nodes[0].internal.Sit(table_pb2.SitRequest(table_id=table_id, player=player)),
        stack.nodes[1].internal.Observe(table_pb2.ObserveRequest(table_id=table_id, observer=player)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
        assert reason(error.value) == "NOT_FOUND"
    client = await stack.client(player.player_id, table_id).open()
    assert reason(client.error) == "NOT_FOUND"


@pytest.mark.parametrize("table_id", ["", "../etc", "a b", "x" * 65, "t\x00"])
async def test_a_table_id_that_cannot_be(stack: Stack, table_id: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await look(stack.nodes[0], table_id, "p")
    assert reason(error.value) == "INVALID"


async def test_br_134_the_hand_is_bit_identical_after_any_rejected_play(stack: Stack) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    held = list((await look(stack.nodes[0], table_id, ids[landlord])).seats[landlord].cards.cards)
    before = await log_of(stack, table_id)
    for cards in ([held[0], held[0]], held[:19], [held[0], held[-1], held[5], held[9]], list(range(20))):
        answer = await clients[landlord].act(play=hand_pb2.PlayCards(cards=cards))
        assert isinstance(answer, table_pb2.Refused), cards
    after = await log_of(stack, table_id)
    assert [entry.messages for entry in after] == [entry.messages for entry in before]
    assert list((await look(stack.nodes[1], table_id, ids[landlord])).seats[landlord].cards.cards) == held
    await close(clients)


async def test_br_135_54_distinct_cards_at_all_times(stack: Stack) -> None:
    table_id, ids, clients, landlord = await lead_table(stack)
    played: set[int] = set()
    for number in range(4):
        seat = (await look(stack.nodes[0], table_id, ids[0])).clock.seat
        own = await look(stack.nodes[number % 2], table_id, ids[seat])
        if seat == landlord:
            card = own.seats[seat].cards.cards[0]
            command_id, play = fresh("c"), hand_pb2.PlayCards(cards=[card])
            for _ in range(3):  # the answer is lost, and it is asked again
                await act(stack.nodes[number % 2], table_id, ids[seat], command_id, play=play)
            played.add(card)
        else:
            await act(stack.nodes[number % 2], table_id, ids[seat], **PASS)
        views = [await look(stack.nodes[seat % 2], table_id, one) for seat, one in enumerate(ids)]
        hands = [set(view.seats[view.you].cards.cards) for view in views]
        assert sum(len(cards) for cards in hands) + len(played) == 54
        assert len(set.union(*hands, played)) == 54
    await close(clients)


async def test_a_stream_is_of_one_table(stack: Stack) -> None:
    _, _, clients = await happy_hand(stack)
    command = table_pb2.Command(command_id="c", trustee=table_pb2.Trustee(on=True))
    await clients[0].send_raw(table_pb2.PlayRequest(table_id="another", command=command))
    refused = await until(lambda: clients[0].answer("c"))
    assert refused.refusal.field == "table_id"
    await close(clients)


async def test_nobody_acts_without_being_logged_in(stack: Stack) -> None:
    table_id, _, clients = await happy_hand(stack)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stack.nodes[0].stub.GetTable(table_pb2.GetTableRequest(table_id=table_id))
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await close(clients)
