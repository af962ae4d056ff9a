"""Calls from process to process, as gRPC through the gateway carries them: each may be late, lost, or come twice.

A request that is lost, an answer that is lost, and a process that dies or sleeps meanwhile look alike to the caller:
silence, after its time-out. What a call asks for is done by the real servicers.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from doudizhu import Refusal
from servicekit.clients import AWAY
from servicekit.remote import Silence

if TYPE_CHECKING:
    from tests.sim.system.processes import Instance
    from tests.sim.system.world import World

Ask = Callable[[Any], Awaitable[Any]]


class Context:
    """What a servicer asks its gRPC context: who calls."""

    def __init__(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        """The headers of the call."""
        return self._metadata


class Net:
    """`ask` calls one instance of a service; `stub` is what the real code calls a service by."""

    def __init__(self, world: World) -> None:
        self._world = world

    def route(self, service: str, key: str) -> Instance | None:
        """The instance that a call reaches: by its key, if it has one, as the gateway hashes; among those that run."""
        running = [one for one in self._world.instances[service] if one.process.alive and one.ready]
        if not running:
            return None
        rng = self._world.chance.rng
        if key and rng.random() < 0.99:
            return running[zlib.crc32(key.encode()) % len(running)]
        return running[rng.randrange(len(running))]

    async def ask(self, service: str, work: Ask, timeout_s: float, key: str = "") -> Any:
        """The answer of `work(instance)`; raises its Refusal, or Silence."""
        world = self._world
        loop, chance = world.loop, world.chance
        answer: asyncio.Future[Any] = loop.create_future()
        timer = loop.call_later(timeout_s, self._silent, answer, service)
        if not chance.strikes("request lost", 0.003):
            loop.call_later(chance.delay_s(), self._arrive, service, work, key, answer, context=world.context)
        if chance.strikes("request twice", 0.004):
            loop.call_later(chance.delay_s(), self._arrive, service, work, key, None, context=world.context)
        try:
            return await answer
        finally:
            timer.cancel()

    @staticmethod
    def _silent(answer: asyncio.Future[Any], service: str) -> None:
        if not answer.done():
            answer.set_exception(Silence(service))

    def _arrive(self, service: str, work: Ask, key: str, answer: asyncio.Future[Any] | None) -> None:
        target = self.route(service, key)
        if target is not None:
            self._world.loop.spawn(target.process, self._serve(target, service, work, answer))
        elif answer is not None:
            self._world.loop.call_later(0.001, self._silent, answer, service, context=self._world.context)

    async def _serve(self, target: Instance, service: str, work: Ask, answer: asyncio.Future[Any] | None) -> None:
        """On the called process: does it, and sends the answer back."""
        world = self._world
        found: Any = None
        refusal: Exception | None = None
        try:
            found = await work(target)
        except Refusal as refused:
            refusal = refused
        except AWAY:  # as the interceptor answers for a server behind it
            refusal = Silence(service)
        except Exception as error:
            world.audit.fault(f"{service} call", error)
            refusal = Silence(service)
        if answer is not None and target.process.alive and not world.chance.strikes("answer lost", 0.003):
            world.loop.call_later(world.chance.delay_s(), self._answer, answer, found, refusal, context=world.context)

    @staticmethod
    def _answer(answer: asyncio.Future[Any], found: Any, refusal: Exception | None) -> None:
        if answer.done():
            return
        if refusal is not None:
            answer.set_exception(refusal)
        else:
            answer.set_result(found)

    def stub(self, service: str, servicer: str) -> Stub:
        """What the generated stub of a servicer is."""
        return Stub(self, service, servicer)


class Stub:
    """Calls a method of the real servicer `servicer` of an instance of `service`."""

    def __init__(self, net: Net, service: str, servicer: str) -> None:
        self._net = net
        self._service = service
        self._servicer = servicer

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        def call(
            request: Any, timeout: float = 5.0, metadata: Sequence[tuple[str, str | bytes]] = ()
        ) -> Awaitable[Any]:
            key = next((str(value) for name, value in metadata if name == "x-table-id"), "")
            context = Context(metadata)

            def work(instance: Any) -> Awaitable[Any]:
                found: Awaitable[Any] = getattr(getattr(instance, self._servicer), method)(request, context)
                return found

            return self._net.ask(self._service, work, timeout, key)

        return call
