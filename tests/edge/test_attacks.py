"""What people try on a table and on services, through the gateway; the hand that they attack must not notice.

Tokens, paths and internal calls: tests/deploy/test_gateway.py. Slow senders, retries, limits of the gateway alone:
tests/deploy/test_gateway_routes.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ddz.common.v1 import hand_pb2
from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from ddz.table.v1 import table_pb2
from ddz.table.v1.events_pb2 import Snapshot
from ddzclient import Gateway, Refusal, Session
from deploy.local.stack import Stack
from servicekit import errors
from tests.edge import fort
from tests.edge.calls import FAULTS, end
from tests.edge.fort import Bystanders
from tests.edge.messages import METHODS

COMMANDS: list[dict[str, Any]] = [
    {"set_base": table_pb2.SetBase(base_chips=10)},
    {"answer_base": table_pb2.AnswerBase(agree=True)},
    {"ready": table_pb2.Ready(ready=True)},
    {"bid": hand_pb2.Bid(level=3)},
    {"call": hand_pb2.Call(call=True)},
    {"rob": hand_pb2.Rob(rob=True)},
    {"show": hand_pb2.Show(show=True)},
    {"play": hand_pb2.PlayCards(cards=[0])},
    {"pass": hand_pb2.Pass()},
    {"leave": table_pb2.Leave()},
    {"trustee": table_pb2.Trustee(on=True)},
    {"allow_observers": table_pb2.AllowObservers(allow=True)},
    {"give_seed": table_pb2.GiveSeed(seed=b"x")},
]


@pytest.fixture(autouse=True)
async def _the_hand_does_not_notice(hand: Bystanders) -> AsyncIterator[None]:
    before = await hand.look()
    yield
    assert await hand.look() == before


@pytest.fixture(autouse=True, scope="module")
async def _nothing_breaks(walls: Stack) -> AsyncIterator[None]:
    yield
    assert await fort.unhealthy(walls) == []


@pytest.fixture(scope="module")
async def attacker(walls: Stack) -> AsyncIterator[Session]:
    async with Gateway(walls.address) as gateway:
        yield await Session.guest(gateway, f"attacker-{uuid.uuid4()}")


@pytest.fixture(scope="module")
async def raw(walls: Stack) -> AsyncIterator[Any]:
    """A channel for any bytes."""
    async with grpc.aio.insecure_channel(walls.address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield channel


def command(action: dict[str, Any], command_id: str = "") -> table_pb2.Command:
    return table_pb2.Command(command_id=command_id or uuid.uuid4().hex, **action)


async def act(
    session: Session, table_id: str, sent: table_pb2.Command, **headers: str
) -> tuple[grpc.StatusCode, str, int]:
    """How one command ends: the status, the reason of a refusal, the answer's seq."""
    metadata = [*(await session.metadata(headers.pop("route", table_id))), *headers.items()]
    request = table_pb2.ActRequest(table_id=table_id, command=sent)
    try:
        answer = await session.gateway.table.Act(request, metadata=tuple(metadata), timeout=10)
    except grpc.aio.AioRpcError as error:
        refusal = errors.from_rpc_error(error)
        return error.code(), refusal.reason if refusal else "", 0
    return grpc.StatusCode.OK, "", answer.accepted.seq


@pytest.mark.parametrize("action", COMMANDS, ids=lambda action: next(iter(action)))
async def test_a_stranger_acts_for_nobody(hand: Bystanders, attacker: Session, action: dict[str, Any]) -> None:
    """Nor with headers that name the seat on turn, nor by way of another table's node."""
    turn = hand.players[hand.turn].player_id
    tries: list[dict[str, str]] = [{}, {"x-player-id": turn}, {"X-Player-Id".lower(): turn, "x-player-name": "x"}]
    for headers in [*tries, {"route": "another-table"}]:
        code, reason, _ = await act(attacker, hand.table_id, command(action), **headers)
        assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_A_PLAYER")


async def test_a_player_moves_no_other_seat(hand: Bystanders) -> None:
    landlord = hand.players[hand.turn]
    held = list(hand.tables[hand.turn].state.seats[hand.turn].cards.cards)
    for other in hand.players:
        if other is not landlord:
            played = command({"play": hand_pb2.PlayCards(cards=held[:1])})
            assert (await act(other, hand.table_id, played))[1] in {"NOT_YOUR_TURN", "CARD_NOT_HELD"}


async def test_nobody_sits_or_watches_or_looks_without_the_code(hand: Bystanders, attacker: Session) -> None:
    for seat in (None, 0, 1, 2):
        with pytest.raises(Refusal) as refused:
            await attacker.sit(hand.table_id, seat, code="0000")
        assert refused.value.reason in {"FORBIDDEN", "RATE_LIMITED"}
    with pytest.raises(Refusal) as refused:
        await attacker.observe(hand.table_id, 0)
    assert refused.value.reason in {"FORBIDDEN", "RATE_LIMITED"}
    code, seen = await looked(attacker, hand.table_id)
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND}
    assert not any(seat.cards.cards for seat in seen.seats)


async def looked(session: Session, table_id: str) -> tuple[grpc.StatusCode, Snapshot]:
    """What a person sees of a table."""
    request = table_pb2.GetTableRequest(table_id=table_id)
    try:
        answer = await session.gateway.table.GetTable(request, metadata=tuple(await session.metadata(table_id)))
    except grpc.aio.AioRpcError as error:
        return error.code(), Snapshot()
    return grpc.StatusCode.OK, answer.snapshot


async def test_an_observer_changes_nothing(walls: Stack) -> None:
    """Of a hand of its own: observers of the hand under watch would be seen there."""
    async with fort.bystanders(walls) as other, Gateway(walls.address) as gateway:
        observer = await Session.guest(gateway, f"observer-{uuid.uuid4()}")
        await observer.observe(other.table_id, 1, code=other.code)
        before = await other.look()
        for action in COMMANDS:
            if "leave" not in action:  # he may stop observing
                assert (await act(observer, other.table_id, command(action)))[1] == "NOT_A_PLAYER"
        assert await other.look() == before
        async with observer.table(other.table_id) as watching:
            assert watching.state.observing
            assert not any(seat.cards.cards for seat in watching.state.seats)


async def test_a_command_that_is_replayed_gets_the_first_answer_and_does_nothing_more(walls: Stack) -> None:
    async with fort.bystanders(walls) as other:
        seat = (other.turn + 1) % 3
        player, stranger = other.players[seat], other.players[other.turn]
        first = command({"allow_observers": table_pb2.AllowObservers(allow=True)}, "replayed")
        answers = [await act(player, other.table_id, first) for _ in range(3)]
        assert answers[0][0] is grpc.StatusCode.OK
        assert answers == [answers[0]] * 3
        state = await other.look()
        changed = command({"allow_observers": table_pb2.AllowObservers(allow=False)}, "replayed")
        answer = await act(player, other.table_id, changed)
        assert answer in (answers[0], (grpc.StatusCode.ALREADY_EXISTS, "KEY_CONFLICT", 0))
        assert await other.look() == state
        assert (await act(stranger, other.table_id, first))[0] is grpc.StatusCode.OK  # an id is each player's own


async def test_a_refresh_token_that_is_replayed_ends_nothing_of_others(walls: Stack, attacker: Session) -> None:
    async with grpc.aio.insecure_channel(walls.address) as channel:
        lobby = lobby_pb2_grpc.LobbyServiceStub(channel)
        login = lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key=f"refresh-{uuid.uuid4()}"))
        old = (await lobby.Login(login)).session.refresh_token
        new = [(await lobby.Refresh(lobby_pb2.RefreshRequest(refresh_token=old))).session for _ in range(2)]
        assert new[0].refresh_token == new[1].refresh_token
        await lobby.Refresh(lobby_pb2.RefreshRequest(refresh_token=new[0].refresh_token))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await lobby.Refresh(lobby_pb2.RefreshRequest(refresh_token=old + "x"))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (await attacker.balance()).player_id == attacker.player_id


BODIES = {
    "huge": json.dumps({"command_id": "x" * 2_000_000}).encode(),
    "not json": b"\x00\xff\xfe not json",
    "deep list": b"[" * 20_000 + b"]" * 20_000,
    "deep object": b'{"bid":' * 5_000 + b"1" + b"}" * 5_000,
    "null": b"null",
    "number": b"5",
    "string": b'"x"',
    "list": b"[]",
    "wrong types": b'{"command_id": 5, "play": {"cards": "all"}}',
    "huge number": b'{"command_id": "a", "bid": {"level": 1e400}}',
    "two actions": b'{"command_id": "a", "bid": {"level": 1}, "call": {"call": true}}',
    "twice": b'{"command_id": "a", "command_id": "b", "pass": {}}',
    "cut off": b'{"command_id": "a", "pass": {',
    "bad utf-8": b'{"command_id": "\xc3\x28", "pass": {}}',
    "surrogate": b'{"command_id": "\\ud800", "pass": {}}',
    "infinity": b'{"command_id": "a", "bid": {"level": Infinity}}',
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_is_no_command_is_refused(hand: Bystanders, walls: Stack, name: str) -> None:
    player = hand.players[hand.turn]
    headers = {key: str(value) for key, value in await player.metadata(hand.table_id)}
    headers |= {"content-type": "application/json"}
    status, text = await asyncio.to_thread(
        post, walls.address, f"/v1/tables/{hand.table_id}/actions", BODIES[name], headers
    )
    assert 400 <= status < 500, text


def post(address: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        try:
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
        except ConnectionError:  # closed before all of a huge body was sent
            return 413, b""
        return answer.status, answer.read()


NO_REQUESTS = [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", bytes(1000), b"\x0a" + b"\x80" * 20, b"x" * 1_000_000]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_bytes_that_are_no_request_are_the_callers_mistake(
    attacker: Session, raw: Any, method: MethodDescriptor
) -> None:
    for data in NO_REQUESTS:
        code, details = await end(raw, method, [data], await attacker.metadata())
        assert code not in FAULTS, (data[:40], details)


METACHARACTERS = [
    "'; DROP TABLE ledger.transfers; --",
    "' OR '1'='1",
    '" OR ""="',
    "$1); DELETE FROM lobby.accounts; --",
    "\\'; SELECT pg_sleep(30); --",
    "%s%d%n{0}{player}${jndi:ldap://x}",
    '"}, redis.call("FLUSHALL"), {"',
    "]] redis.call('FLUSHALL') --[[",
    "a\r\nFLUSHALL\r\n",
    "m*.>{tag}",
    "../../../etc/passwd",
    "\u202e\u0000\uffff\U0001f0cf",
    "<script>alert(1)</script>",
]


def strings(descriptor: Descriptor) -> Iterator[list[FieldDescriptor]]:
    """The way to every text in a message, those in messages within it too."""
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from ([field, *rest] for rest in strings(field.message_type))
        elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            yield [field]


def with_text(method: MethodDescriptor, way: list[FieldDescriptor], text: str) -> Message:
    """A request with the text there, and good values wherever else a call needs one to get that far."""
    request = GetMessageClass(method.input_type)()
    good = {"room_id": fort.ROOM, "table_id": "t1", "command_id": "c1", "request_id": "r1", "ticket_id": "x-1"}
    good |= {"name": "somebody", "password": "long enough", "device_key": "k" * 20, "hand_id": "h-1", "code": "ABCD"}
    for field in request.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING and field.name in good:
            setattr(request, field.name, good[field.name])
    target: Any = request
    for field in way[:-1]:
        target = getattr(target, field.name)
        target.SetInParent()
    value = text.encode() if way[-1].type == FieldDescriptor.TYPE_BYTES else text
    if way[-1].is_repeated:
        getattr(target, way[-1].name).append(value)
    else:
        setattr(target, way[-1].name, value)
    return request


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_no_text_is_more_than_text(walls: Stack, attacker: Session, raw: Any, method: MethodDescriptor) -> None:
    before = await fort.audit(walls)
    for way, text in itertools.product(strings(method.input_type), METACHARACTERS):
        request = with_text(method, way, text)
        code, details = await end(raw, method, [request.SerializeToString()], await attacker.metadata())
        assert code not in FAULTS, (way[-1].full_name, text, details)
    after = await fort.audit(walls)
    assert (list(after.faults), after.chips_sum) == ([], 0)
    assert (after.hands_settled, after.hands_open) == (before.hands_settled, before.hands_open)


async def test_a_name_comes_back_as_it_was_given_and_reaches_others_as_text(attacker: Session) -> None:
    for text in ("';DROP TABLE x", '"}]]--x', "<b>地主</b>"):
        request = lobby_pb2.UpdateProfileRequest(display_name=text, avatar_id=1)
        shown = (await attacker.call(attacker.gateway.lobby.UpdateProfile, request)).profile.player.display_name
        assert shown == text
        await attacker.renew()  # the name is in the token
        assert (await attacker.profile()).player.display_name == text


def test_the_lists_are_whole() -> None:
    actions = {field.name for field in table_pb2.Command.DESCRIPTOR.oneofs_by_name["action"].fields}
    assert {next(iter(action)) for action in COMMANDS} == actions
    assert len(METHODS) >= 24
