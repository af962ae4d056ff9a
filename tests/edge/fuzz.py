"""`make fuzz`: random messages and random bytes for every public call, through the gateway, beside a live hand.

No call may end by a fault of ours, no process may end or tell of one, and the hand, its players' points and the books
must be as before. Each request follows from the seed and its number, so that a finding can be had again. The last line
is JSON; the exit status is 1 when something did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
import uvloop
from google.protobuf.descriptor import MethodDescriptor

from ddz.ledger.v1 import ledger_pb2
from ddzclient import Gateway, Session
from deploy.local import folders
from deploy.local.leash import Leash
from deploy.local.stack import Stack
from tests.edge import fort, rest
from tests.edge.calls import FAULTS, end
from tests.edge.messages import METHODS, Messages, spoilt

_SLOW: Final = {"Login", "Register"}  # a password takes a tenth of a second to look at
_IN_FLIGHT: Final = 24
_REST: Final = 0.1  # how many go by REST
_CHANNELS: Final = 4
# Two cannot start a hand: whatever they do, no point moves.
_FUZZERS: Final = 2


class Fuzz:
    """Sends requests and counts how they end."""

    def __init__(self, seed: int, known: Mapping[str, Sequence[str]], headers: list[list[tuple[str, Any]]]) -> None:
        self._seed = seed
        self._known = known
        self._headers = headers
        self._address = ""
        self._channels: list[Any] = []
        self.ends: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def request(
        self, number: int, *, spoil: bool
    ) -> tuple[MethodDescriptor, list[bytes], tuple[str, str, bytes] | None]:
        """The method and the messages of a number; verb, path and body when it goes by REST instead."""
        source = random.Random(f"{self._seed} {number} {spoil}")
        method = source.choice(METHODS)
        while method.name in _SLOW and source.random() < 0.8:
            method = source.choice(METHODS)
        messages = Messages(source, self._known)
        count = source.randrange(1, 6) if method.client_streaming else 1
        made = [messages.message(method.input_type) for _ in range(count)]
        sent = [one.SerializeToString() for one in made]
        if source.random() < _REST and rest.has_rest(method):
            verb, path, body = rest.as_rest(method, made[0])
            return method, sent, (verb, path, spoilt(source, body) if spoil and body else body)
        return method, [spoilt(source, one) for one in sent] if spoil else sent, None

    async def run(self, address: str, count: int, *, spoil: bool) -> None:
        """Sends the requests 0 to `count` - 1."""
        numbers = iter(range(count))
        self._address = address
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
        async with contextlib.AsyncExitStack() as held:
            self._channels = [
                await held.enter_async_context(grpc.aio.insecure_channel(address, options=options))
                for _ in range(_CHANNELS)
            ]
            async with asyncio.TaskGroup() as group:
                for _ in range(_IN_FLIGHT):
                    group.create_task(self._work(numbers, spoil))

    async def _work(self, numbers: Any, spoil: bool) -> None:
        for number in numbers:
            method, sent, by_rest = self.request(number, spoil=spoil)
            headers = self._headers[number % len(self._headers)]
            if by_rest is None:
                code, details = await end(self._channels[number % _CHANNELS], method, sent, headers)
            else:
                code, details = await _rest_end(self._address, by_rest, headers), "REST"
                sent = [part if isinstance(part, bytes) else part.encode() for part in by_rest]
            self.ends[code] += 1
            if code in FAULTS or code.startswith("HTTP 5"):
                what = "bytes" if spoil else "message"
                self.wrong.append(
                    f"{what} {number} for {method.name} ended {code} ({details}): {b' '.join(sent)[:200]!r}"
                )


async def _rest_end(address: str, request: tuple[str, str, bytes], headers: list[tuple[str, Any]]) -> str:
    """The status, as HTTP has it."""
    host, _, port = address.rpartition(":")
    return f"HTTP {await rest.status(host, int(port), *request, headers)}"


async def fuzz(stack: Stack, messages: int, raw: int, seed: int) -> dict[str, Any]:
    """So many messages, then so many bytes; `wrong` tells in sentences what did not hold."""
    began = time.monotonic()
    async with fort.bystanders(stack) as hand, Gateway(stack.address) as door:
        fuzzers = [await Session.guest(door, f"fuzzer-{uuid.uuid4()}") for _ in range(_FUZZERS)]
        own = await fuzzers[0].create_table(fort.ROOM)
        known = _known(hand, own.table_id)
        headers = [list(await one.metadata()) for one in fuzzers]
        for number, one in enumerate(headers):  # good for as long as it takes
            one[0] = ("authorization", f"Bearer {fort.token(stack, fuzzers[number].player_id)}")
        before, books = await hand.look(), await fort.audit(stack)
        chips = [(await one.balance()).chips for one in fuzzers]
        fuzzing = Fuzz(seed, known, headers)
        await fuzzing.run(stack.address, messages, spoil=False)
        await fuzzing.run(stack.address, raw, spoil=True)
        wrong = fuzzing.wrong
        wrong += [] if await hand.look() == before else ["the hand or its players' points have changed"]
        wrong += [] if [(await one.balance()).chips for one in fuzzers] == chips else ["the fuzzers' points changed"]
        wrong += _differences(books, await fort.audit(stack))
    wrong += await fort.unhealthy(stack)
    told: dict[str, Any] = {"messages": messages, "bytes": raw, "seed": seed, "ends": dict(fuzzing.ends)}
    return told | {"seconds": round(time.monotonic() - began), "wrong": wrong}


def _known(hand: fort.Bystanders, table_id: str) -> dict[str, list[str]]:
    players = [player.player_id for player in hand.players]
    return {
        "table_id": [table_id, hand.table_id],
        "room_id": ["", "classic-beginner", "happy-beginner", "rob-beginner", "rob-master"],
        "hand_id": [f"{hand.table_id}-1", f"{table_id}-1"],
        "ticket_id": [f"{player}-1" for player in players],
        "player_id": ["", *players],
        "command_id": ["a", "b", "c"],
        "request_id": ["a", "b"],
        "device_key": ["d" * 20, "e" * 20],
        "name": ["somebody", "地主"],
        "password": ["password1", "password2"],
        "book": ["", "classic", "happy", "rob"],
        "unit": ["", "rating", "chips"],
        "code": ["ABCD", "2345"],
        "page_token": [""],
    }


def _differences(before: ledger_pb2.AuditResponse, after: ledger_pb2.AuditResponse) -> list[str]:
    """What may not differ in the books; new accounts, with their sign-up chips, may."""
    found = [f"audit: {fault}" for fault in after.faults]
    for name in ("hands_settled", "hands_voided", "hands_open", "hands_reversed", "chips_sum", "rating_sum"):
        was, now = getattr(before, name), getattr(after, name)
        found += [] if was == now else [f"{name} was {was} and is {now}"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = folders.scratch()
    with Leash(folder) as leash, fort.fort(leash, folder / "fort") as running:
        result = uvloop.run(fuzz(running, arguments.messages, arguments.bytes, arguments.seed))
    for sentence in result["wrong"][:50]:
        print(f"WRONG {sentence}")
    print(json.dumps(result | {"wrong": len(result["wrong"])}))
    raise SystemExit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
