"""A simulated NATS: core subjects that lose, delay and reorder, and one JetStream stream with its durable consumers.

Modelled: the client of nats-py as far as the services use it, and the server. Core messages come at most once.
JetStream drops repeats by message id for a while (here: seconds, so that repeats come through too) and brings a message
again that was not acknowledged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import nats.errors

from servicekit.clients import AWAY
from tests.sim.system.loop import PROCESS, Process

if TYPE_CHECKING:
    from tests.sim.system.world import World

_DEDUPLICATE_S: Final = 5.0
_AGAIN_S: Final = 3.0
_OWN_IGNORED: Final = "ddz.table."

Heard = Callable[["Message"], Awaitable[None]]


class Message:
    """A message as its receiver has it."""

    def __init__(self, bus: Bus, subject: str, data: bytes, number: int = 0) -> None:
        self.subject = subject
        self.data = data
        self.headers = None  # nobody traces here
        self.number = number
        self._bus = bus

    async def ack(self) -> None:
        """Tells the stream that it need not come again; the acknowledgement may be lost."""
        if not self._bus.world.chance.strikes("ack lost", 0.02):
            self._bus.acknowledged[self.number] = None


class Subscription:
    """One subscription of one client. `subject` may end in a wildcard."""

    def __init__(self, bus: Bus, subject: str, heard: Heard, process: Process) -> None:
        self.prefix = subject.removesuffix("*")
        self.exact = self.prefix == subject
        self.heard = heard
        self.process = process
        self._bus = bus

    async def unsubscribe(self) -> None:
        """Hears nothing more."""
        self._bus.drop(self)


class Bus:
    """The server: subscriptions by their subject, wildcards apart; and the stream."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.up = True
        self.messages: list[tuple[str, bytes]] = []
        self.acknowledged: dict[int, None] = {}
        self._known: dict[str, float] = {}  # message ids and when they came
        self._exact: dict[str, list[Subscription]] = {}
        self._wild: list[Subscription] = []

    def add(self, subscription: Subscription) -> None:
        """Takes a subscription in."""
        where = self._exact.setdefault(subscription.prefix, []) if subscription.exact else self._wild
        where.append(subscription)

    def drop(self, subscription: Subscription) -> None:
        """Lets go of a subscription."""
        where = self._exact.get(subscription.prefix, []) if subscription.exact else self._wild
        if subscription in where:
            where.remove(subscription)
            if not where and subscription.exact:
                del self._exact[subscription.prefix]

    def forget(self, process: Process) -> None:
        """A process is gone, and its connection with it."""
        mine = [one for subscriptions in self._exact.values() for one in subscriptions] + self._wild
        for subscription in mine:
            if subscription.process is process:
                self.drop(subscription)

    def send(self, subject: str, data: bytes) -> None:
        """Delivers to who listens now, each message by its own way."""
        chance, loop, sender = self.world.chance, self.world.loop, PROCESS.get()
        for subscription in (*self._exact.get(subject, ()), *self._wild):
            if subscription.process is sender and subject.startswith(_OWN_IGNORED):
                continue  # which node tells it is in the message, and it would be dropped on arrival
            if subscription.exact or subject.startswith(subscription.prefix):
                if chance.strikes("news lost", 0.01):
                    continue
                loop.call_later(
                    chance.delay_s(), self._deliver, subscription, subject, data, context=self.world.context
                )

    def _deliver(self, subscription: Subscription, subject: str, data: bytes) -> None:
        if self.up and subscription.process.alive:
            self.world.loop.spawn(subscription.process, self._hear(subscription, Message(self, subject, data)))

    async def _hear(self, subscription: Subscription, message: Message) -> None:
        """Runs a callback; as in the real client the subscription goes on when it fails."""
        try:
            await subscription.heard(message)
        except AWAY:
            self.world.chance.faults["news not taken in"] += 1
        except Exception as error:
            self.world.audit.fault(f"what hears {message.subject}", error)

    def store(self, subject: str, data: bytes, message_id: str) -> None:
        """Takes a message into the stream, unless it is a repeat of the last seconds."""
        now_s = self.world.loop.time()
        known_s = self._known.get(message_id)
        if known_s is None or now_s - known_s > _DEDUPLICATE_S:
            self._known[message_id] = now_s
            self.messages.append((subject, data))
            self.world.trace.add(now_s, "news", f"{subject} {message_id}")


class Client:
    """What nats.aio.client.Client is to a process."""

    def __init__(self, world: World) -> None:
        process = PROCESS.get()
        assert process is not None, "a client belongs to a process"
        self._world = world
        self._bus = world.bus
        self._process = process
        self.is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether the server is there."""
        return self._bus.up and self._process.alive

    def new_inbox(self) -> str:
        """A subject for answers."""
        return f"_INBOX.{self._process.name}"

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Sends; nobody knows whether it comes. What is for the stream is acknowledged to `reply`."""
        if not self.is_connected:
            raise nats.errors.ConnectionClosedError
        if reply:
            assert headers is not None
            loop, chance = self._world.loop, self._world.chance
            if not chance.strikes("news lost", 0.03):
                arguments = (subject, payload, headers["Nats-Msg-Id"], reply)
                loop.call_later(chance.delay_s(), self._stored, *arguments, context=self._world.context)
        else:
            self._bus.send(subject, payload)

    def _stored(self, subject: str, payload: bytes, message_id: str, reply: str) -> None:
        if self._bus.up:
            self._bus.store(subject, payload, message_id)
            self._bus.send(reply, json.dumps({"stream": "DDZ"}).encode())

    async def subscribe(self, subject: str, cb: Heard) -> Subscription:
        """Calls `cb` for what comes."""
        if not self.is_connected:
            raise nats.errors.ConnectionClosedError
        subscription = Subscription(self._bus, subject, cb, self._process)
        self._bus.add(subscription)
        return subscription

    async def request(self, subject: str, timeout: float = 0.5) -> None:
        """Nobody listens to what services ask: the server says so, once it has all that was sent before."""
        await asyncio.sleep(self._world.chance.delay_s())
        if not self.is_connected:
            raise nats.errors.TimeoutError
        raise nats.errors.NoRespondersError

    def jetstream(self, timeout: float = 1.0) -> JetStream:
        """The stream's side of the client."""
        return JetStream(self._world, self)


class JetStream:
    """What nats.js.JetStreamContext is: the stream is there; publishes are answered, or not."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client

    async def stream_info(self, _name: str) -> None:
        """The stream has been made; raises as publish when the server is away."""
        await self._trip()

    async def _trip(self) -> None:
        await asyncio.sleep(self._world.chance.delay_s())
        if not self._client.is_connected:
            raise nats.errors.ConnectionClosedError

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        """Returns when the stream has it; raises TimeoutError when one does not know."""
        await self._trip()
        if self._world.chance.strikes("news lost", 0.01):
            raise nats.errors.TimeoutError
        self._world.bus.store(subject, payload, headers["Nats-Msg-Id"])
        if self._world.chance.strikes("news stored but not acknowledged", 0.01):
            raise nats.errors.TimeoutError

    async def pull_subscribe(self, subject: str, durable: str, stream: str) -> Pull:
        """The durable consumer of a subject."""
        await self._trip()
        return Pull(self._world, self._client, subject)


class Pull:
    """A durable consumer: what was brought and not acknowledged comes again after a while, to whoever asks."""

    def __init__(self, world: World, client: Client, subject: str) -> None:
        self._world = world
        self._client = client
        self._subject = subject

    async def fetch(self, batch: int, timeout: float) -> list[Message]:
        """The next messages; raises TimeoutError when there are none."""
        await asyncio.sleep(self._world.chance.delay_s())
        bus, brought = self._world.bus, self._world.brought
        if not self._client.is_connected:
            raise nats.errors.ConnectionClosedError
        now_s = self._world.loop.time()
        found = []
        for number, (subject, data) in enumerate(bus.messages):
            if (
                subject == self._subject
                and number not in bus.acknowledged
                and brought.get(number, -_AGAIN_S) <= now_s - _AGAIN_S
            ):
                if number in brought:
                    self._world.chance.faults["news brought again"] += 1
                brought[number] = now_s
                found.append(Message(bus, subject, data, number))
        if not found:
            await asyncio.sleep(timeout)
            raise nats.errors.TimeoutError
        return found[:batch]

    async def unsubscribe(self) -> None:
        """Nothing is kept for this instance."""


@asynccontextmanager
async def bus_of(world: World) -> AsyncIterator[Client]:
    """In the place of servicekit.clients.nats_bus: waits until the server is there."""
    client = Client(world)
    while not client.is_connected:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    yield client
