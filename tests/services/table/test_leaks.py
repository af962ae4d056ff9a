"""Nobody is ever sent a card that he may not know: proved on every frame of whole hands, for everybody who watches.

Rows of area `leak` in the reports of other systems: BR-110, 111, 113 to 117.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ddz.common.v1 import hand_pb2
from ddz.table.v1 import events_pb2, table_pb2
from services.table import log
from services.table.events import Committed
from tests.services.table.bots import begin, play_hands
from tests.services.table.stack import Client, Stack, act, look, metadata, terms, until

# Every field of the contract that holds cards. A new one must be named here, or the test fails.
CARD_FIELDS = {
    "ddz.common.v1.Combo.cards",
    "ddz.common.v1.PlayCards.cards",
    "ddz.table.v1.SeatCards.cards",
    "ddz.table.v1.Dealt.bottom",
    "ddz.table.v1.Dealt.marked_card",
    "ddz.table.v1.Shown.cards",
    "ddz.table.v1.LandlordSet.bottom",
    "ddz.table.v1.Snapshot.bottom",
    "ddz.table.v1.Snapshot.marked_card",
}
NUMBERS = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64}


def fields(message: Message) -> Iterator[tuple[str, Any]]:
    """Every field that is set, however deep: its full name and value."""
    for descriptor, value in message.ListFields():
        if descriptor.type == FieldDescriptor.TYPE_MESSAGE:
            for one in value if descriptor.is_repeated else [value]:
                yield from fields(one)
        else:
            yield descriptor.full_name, list(value) if descriptor.is_repeated else value


def cards_in(message: Message) -> set[int]:
    """Every card that a message names."""
    found: set[int] = set()
    for name, value in fields(message):
        if name in CARD_FIELDS:
            found |= set(value if isinstance(value, list) else [value])
    return found


class Knowledge:
    """The cards of a hand that one person may know, told from the rules and the log alone: none of the code that
    decides what is sent has a say in it.
    """

    def __init__(self, player_id: str) -> None:
        self.known: set[int] = set()
        self._player_id = player_id
        self._hands: list[set[int]] = []
        self._bottom: set[int] = set()
        self._own: int | None = None  # the seat he plays this hand on
        self._sits: int | None = None
        self._observes: int | None = None
        self._allowed: set[int] = set()

    def take(self, message: events_pb2.Event) -> None:
        """One more event of the log."""
        match message.WhichOneof("event"):
            case "seat_taken" if message.seat_taken.player.player_id == self._player_id:
                self._sits = message.seat_taken.seat
            case "seat_left" if message.seat_left.player_id == self._player_id:
                self._sits = None
            case "observer_joined" if message.observer_joined.observer.player_id == self._player_id:
                self._observes = message.observer_joined.seat
            case "cards_allowed":
                change = self._allowed.add if message.cards_allowed.allow else self._allowed.discard
                change(message.cards_allowed.seat)
            case "dealt":
                self._hands = [set(cards.cards) for cards in message.dealt.hands]
                self._bottom, self._own = set(message.dealt.bottom), self._sits
                self.known = {message.dealt.marked_card} if message.dealt.HasField("marked_card") else set()
            case "landlord_set":
                self._hands[message.landlord_set.seat] |= self._bottom
                self.known |= self._bottom
            case "played":
                self.known |= set(message.played.combo.cards)
            case "shown":
                self.known |= self._hands[message.shown.seat]
            case "hand_won":
                self.known |= set().union(*self._hands)
        for seat in (self._own, self._observes if self._observes in self._allowed else None):
            if seat is not None and self._hands:
                self.known |= self._hands[seat]


async def log_of(stack: Stack, table_id: str) -> list[log.Entry]:
    store = stack.nodes[0].service.node.store
    return [log.decode(table_id, entry) for entry in await store.read(table_id)]


def check_frames(client: Client, entries: list[log.Entry]) -> int:
    """Every frame names only cards that its person knew by then, and no seed before the hand is over."""
    known_by_seq: dict[int, set[int]] = {}
    secret_until: dict[bytes, int] = {}
    knowledge = Knowledge(client.player_id)
    for told in (message for entry in entries for message in entry.messages):
        knowledge.take(told)
        known_by_seq[told.seq] = set(knowledge.known)
        if told.HasField("committed"):
            secret_until[told.committed.server_seed] = 1 << 60
        for proof in (*told.hand_settled.proofs, *told.hand_voided.proofs):
            secret_until[proof.server_seed] = min(secret_until[proof.server_seed], told.seq)
    checked = 0
    for frame, raw in zip(client.frames, client.raw, strict=True):
        messages: list[Message] = [frame.snapshot] if frame.HasField("snapshot") else list(frame.events.events)
        for message in messages:
            seq = message.seq  # type: ignore[attr-defined]
            assert cards_in(message) <= known_by_seq[seq], (client.player_id, seq, message)
            checked += 1
            for seed, end in secret_until.items():
                assert seq >= end or (seed not in message.SerializeToString()), "a seed before its time"
        if not messages:
            assert not any(seed in raw for seed in secret_until)
    return checked


@pytest.mark.parametrize("book", ["classic", "happy", "rob"])
async def test_no_frame_of_whole_hands_holds_a_card_that_its_person_may_not_know(stack: Stack, book: str) -> None:
    players = await stack.players(count=6)
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms(book), players[:3])
    for number, observer in enumerate(players[3:]):
        request = table_pb2.ObserveRequest(table_id=table_id, observer=observer, seat=number)
        await stack.nodes[number % 2].internal.Observe(request)
    clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
    await clients[1].act(allow_observers=table_pb2.AllowObservers(allow=True))
    await begin(clients[:3], book)
    await play_hands(stack.nodes, table_id, ids[:3], hands=2)
    await until(lambda: min(client.names().count("hand_settled") for client in clients) >= 2)
    entries = await log_of(stack, table_id)
    for client in clients:
        assert check_frames(client, entries) > 60
        assert not any(event.committed.server_seed for event in client.events)
        dealt = client.last("dealt")
        assert not dealt.bottom
        assert not dealt.proof.server_seed
    seen = [sorted(len(cards.cards) for cards in client.last("dealt").hands) for client in clients]
    assert seen == [[0, 0, 17]] * 3 + [[0, 0, 0], [0, 0, 17], [0, 0, 0]]
    for client in clients:
        await client.close()


def test_every_field_that_can_hold_cards_is_checked() -> None:
    named = {
        f"{message.full_name}.{field.name}"
        for file in (events_pb2.DESCRIPTOR, table_pb2.DESCRIPTOR, hand_pb2.DESCRIPTOR)
        for message in file.message_types_by_name.values()
        for field in message.fields
        if field.type in NUMBERS and ("card" in field.name or field.name == "bottom")
    }
    counts = {"ddz.table.v1.Played.cards_left"}
    assert named - counts == CARD_FIELDS


async def dealt_table(stack: Stack) -> tuple[str, list[str], list[Client]]:
    """A `happy` hand that has been dealt, with a client for each player and each of three observers of seats 0 to 2."""
    players = await stack.players(count=6)
    ids = [player.player_id for player in players]
    table_id = await stack.open(terms("happy"), players[:3])
    for number, observer in enumerate(players[3:]):
        await stack.nodes[0].internal.Observe(
            table_pb2.ObserveRequest(table_id=table_id, observer=observer, seat=number)
        )
    clients = [await stack.client(one, table_id, node=number % 2).open() for number, one in enumerate(ids)]
    await begin(clients[:3], "happy")
    for client in clients:
        await client.until_told("dealt")
    return table_id, ids, clients


async def test_br_110_a_watcher_sees_no_hand_and_the_bottom_only_after_the_landlord_is_fixed(stack: Stack) -> None:
    table_id, ids, clients = await dealt_table(stack)
    snapshot = await look(stack.nodes[1], table_id, ids[3])
    assert [len(seat.cards.cards) for seat in snapshot.seats] == [0, 0, 0]
    assert [seat.cards.count for seat in snapshot.seats] == [17, 17, 17]
    assert not snapshot.bottom
    turn = snapshot.clock.seat
    await act(stack.nodes[0], table_id, ids[turn], bid=hand_pb2.Bid(level=3))
    assert len((await look(stack.nodes[1], table_id, ids[3])).bottom) == 3
    for client in clients:
        await client.close()


async def test_br_111_cards_left_count_the_bottom_as_long_as_it_is_hidden(stack: Stack) -> None:
    table_id, ids, clients = await dealt_table(stack)
    snapshot = await look(stack.nodes[0], table_id, ids[0])
    seen = set(snapshot.seats[0].cards.cards)
    assert len(seen) == 17
    assert 54 - len(seen) == sum(seat.cards.count for seat in snapshot.seats[1:]) + 3
    for client in clients:
        await client.close()


async def test_br_113_an_observer_cannot_act(stack: Stack) -> None:
    table_id, ids, clients = await dealt_table(stack)
    before = await look(stack.nodes[0], table_id, ids[0])
    for action in ({"bid": hand_pb2.Bid(level=3)}, {"trustee": table_pb2.Trustee(on=True)}, {"pass": hand_pb2.Pass()}):
        refused = await clients[3].act(**action)
        assert refused.refusal.reason == 40, "NOT_A_PLAYER"
    after = await look(stack.nodes[0], table_id, ids[0])
    before.at_ms = after.at_ms
    assert after == before
    for client in clients:
        await client.close()


async def test_br_114_a_flee_opens_no_hand(stack: Stack) -> None:
    _table_id, _ids, clients = await dealt_table(stack)
    await clients[0].act(leave=table_pb2.Leave())
    await until(lambda: clients[1].last("hand_settled"))
    own = set(clients[1].last("dealt").hands[1].cards)
    fled = next(event for event in clients[1].events if event.HasField("hand_fled"))
    assert cards_in(fled) == set()
    for event in clients[1].events:
        assert cards_in(event) <= own
    for client in clients:
        await client.close()


async def test_br_115_no_identity_of_a_face_down_card_before_the_landlord(stack: Stack) -> None:
    _, _ids, clients = await dealt_table(stack)
    for seat, client in enumerate(clients[:3]):
        own = set(client.last("dealt").hands[seat].cards)
        assert len(own) == 17
        for frame in client.frames:
            assert cards_in(frame) <= own
    for client in clients:
        await client.close()


async def test_br_116_a_second_account_that_watches_the_own_table_sees_no_hands(stack: Stack) -> None:
    _, _, clients = await dealt_table(stack)
    for observer in clients[3:]:
        for frame in observer.frames:
            assert cards_in(frame) == set()
    for client in clients:
        await client.close()


async def test_br_117_after_a_reconnect_roles_and_masks_are_rebuilt(stack: Stack) -> None:
    table_id, ids, clients = await dealt_table(stack)
    for number in (0, 3):
        await clients[number].close()
        clients[number] = await stack.client(ids[number], table_id, node=1 - number % 2).open()
    player, observer = clients[0].snapshot, clients[3].snapshot
    assert player is not None
    assert observer is not None
    assert (player.you, player.observing, observer.you, observer.observing) == (0, False, 0, True)
    assert [len(seat.cards.cards) for seat in player.seats] == [17, 0, 0]
    assert [len(seat.cards.cards) for seat in observer.seats] == [0, 0, 0]
    refused = await clients[3].act(bid=hand_pb2.Bid(level=3))
    assert refused.refusal.reason == 40, "NOT_A_PLAYER"
    for client in clients:
        await client.close()


async def test_a_leave_shows_the_cards_to_the_seats_observers_and_taking_it_back_hides_them(
    stack: Stack,
) -> None:
    _table_id, _, clients = await dealt_table(stack)
    observer = clients[3]
    await clients[0].act(allow_observers=table_pb2.AllowObservers(allow=True))
    await until(lambda: observer.snapshot and len(observer.snapshot.seats[0].cards.cards) == 17)
    assert observer.snapshot is not None
    assert [len(seat.cards.cards) for seat in observer.snapshot.seats] == [17, 0, 0]
    other = clients[4].snapshot
    assert other is not None
    assert [len(seat.cards.cards) for seat in other.seats] == [0, 0, 0]
    await clients[0].act(allow_observers=table_pb2.AllowObservers(allow=False))
    await until(lambda: observer.snapshot and not observer.snapshot.seats[0].cards.cards)
    for client in clients:
        await client.close()


async def test_who_takes_the_seat_of_one_who_has_fled_sees_none_of_his_cards(stack: Stack) -> None:
    table_id, ids, clients = await dealt_table(stack)
    await clients[0].act(leave=table_pb2.Leave())
    await until(lambda: clients[1].last("hand_settled"))
    newcomer, watcher = await stack.players(count=2)
    await stack.nodes[1].internal.Sit(table_pb2.SitRequest(table_id=table_id, player=newcomer, seat=0))
    client = await stack.client(newcomer.player_id, table_id, node=1).open()
    await client.act(allow_observers=table_pb2.AllowObservers(allow=True))
    await stack.nodes[1].internal.Observe(table_pb2.ObserveRequest(table_id=table_id, observer=watcher, seat=0))
    observer = await stack.client(watcher.player_id, table_id).open()
    for one in (client, observer):
        assert one.snapshot is not None
        assert one.snapshot.you == 0
        assert cards_in(one.snapshot) == set()
    kept = await look(stack.nodes[0], table_id, ids[1])
    assert [len(seat.cards.cards) for seat in kept.seats] == [0, 17, 0]
    for each in (*clients, client, observer):
        await each.close()


async def test_a_stranger_sees_nothing(stack: Stack) -> None:
    table_id, _, clients = await dealt_table(stack)
    (stranger,) = await stack.players(count=1)
    client = await stack.client(stranger.player_id, table_id).open()
    assert client.error is not None
    assert client.error.code().name == "PERMISSION_DENIED"
    call = stack.nodes[0].stub.Watch(table_pb2.WatchRequest(table_id=table_id), metadata=metadata(stranger.player_id))
    with pytest.raises(Exception, match="sit down or observe"):
        await call.read()
    for each in clients:
        await each.close()


async def test_logs_hold_no_cards_of_live_hands(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="ddz")
    table_id, _ids, clients = await dealt_table(stack)
    secrets = {
        stamped.event.server_seed.hex()
        for entry in await log_of(stack, table_id)
        for stamped in entry.stamped
        if isinstance(stamped.event, Committed)
    }
    await clients[0].act(play=hand_pb2.PlayCards(cards=[0]))
    text = "".join(str(vars(record)) for record in caplog.records if record.name.startswith("ddz"))
    assert not any(secret in text for secret in secrets)
    assert "cards" not in text
    for client in clients:
        await client.close()
