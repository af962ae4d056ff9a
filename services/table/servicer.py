"""Protobuf in, one call of the node, protobuf out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ddz.table.v1 import table_pb2, table_pb2_grpc
from doudizhu import Refusal
from servicekit import errors, identity, ids, metrics, traces
from servicekit.errors import Trouble
from services.table.actor import Actor
from services.table.fanout import EXPIRED, Stream
from services.table.node import Node
from services.table.steward import Steward
from services.table.terms import Reason
from services.table.views import viewer
from services.table.wire_snapshot import snapshot_to
from services.table.wire_values import person_from, terms_from

_BACK_S: Final = 10.0  # so long a player whose token has run out may take to come back with a new one


class TableServicer:
    """What players and observers call. Streams yield frames that are encoded already (fanout.py)."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the service; generated code would encode every frame once more."""
        service = table_pb2.DESCRIPTOR.services_by_name["TableService"]
        codec = {method.name: _codec(method) for method in service.methods}
        handlers = {
            "Play": grpc.stream_stream_rpc_method_handler(self.Play, codec["Play"][0], bytes),
            "Watch": grpc.unary_stream_rpc_method_handler(self.Watch, codec["Watch"][0], bytes),
            "Act": grpc.unary_unary_rpc_method_handler(self.Act, *codec["Act"]),
            "GetTable": grpc.unary_unary_rpc_method_handler(self.GetTable, *codec["GetTable"]),
        }
        assert handlers.keys() == codec.keys(), "a method of the contract is not served"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    async def Play(self, requests: AsyncIterator[table_pb2.PlayRequest], context: Any) -> AsyncIterator[bytes]:
        player_id, ends_at = identity.player_id(context), identity.ends_at(context)
        try:
            first = await anext(requests)
        except StopAsyncIteration:
            return
        except DecodeError:
            raise Refusal(Trouble.INVALID, "these bytes are no request") from None
        errors.validate(first)
        if not first.table_id:
            raise Refusal(Trouble.INVALID, "the first request names the table", field="table_id")
        ids.bind(table=first.table_id)
        actor, stream = await self._node.attach(first.table_id, player_id, first.after_seq, first.epoch)
        with self._attached(actor, stream, ends_at):
            reader = asyncio.create_task(self._read(first, requests, stream))
            try:
                async for frame in stream.frames():
                    yield frame
            finally:
                reader.cancel()

    @contextlib.contextmanager
    def _attached(self, actor: Actor, stream: Stream, ends_at: float | None) -> Iterator[None]:
        """Says goodbye when the caller's token ends (by the loop's clock), and lets go of the stream in the end."""
        loop = asyncio.get_running_loop()
        end = None if ends_at is None else loop.call_at(ends_at, stream.goodbye_expired)
        try:
            yield
        finally:
            if end is not None:
                end.cancel()
            if stream.said_goodbye == EXPIRED:
                self._node.background(self._detach_late(actor, stream))
            else:
                self._node.detach(actor, stream)

    async def _detach_late(self, actor: Actor, stream: Stream) -> None:
        """He is on his way back with a new token: only if he is not here in time the trustee takes his seat."""
        await asyncio.sleep(_BACK_S)
        self._node.detach(actor, stream)

    async def _read(
        self, first: table_pb2.PlayRequest, requests: AsyncIterator[table_pb2.PlayRequest], stream: Stream
    ) -> None:
        """Does a stream's commands one after the other; who sends faster waits. After a goodbye none is done: a
        client may leave it unread and go on sending.
        """
        request = first
        while not stream.said_goodbye:
            if request.HasField("command"):
                with traces.span(f"Play {request.command.WhichOneof('action')}"):
                    await self._command(first.table_id, request, stream)
            try:
                request = await anext(requests)
            except StopAsyncIteration:
                stream.goodbye("done", reconnect=False)
                return
            except DecodeError:
                stream.goodbye("malformed", reconnect=False)
                return

    async def _command(self, table_id: str, request: table_pb2.PlayRequest, stream: Stream) -> None:
        command = request.command
        try:
            if not stream.budget.take(time.monotonic()):
                # The next command is read when there is one to take: whoever sends faster is held up by the network.
                await asyncio.sleep(stream.budget.wait_s())
                raise Refusal(Reason.RATE_LIMITED, "you send too many commands; wait a second")
            if request.table_id not in ("", table_id):
                raise Refusal(Trouble.INVALID, "a stream is of one table", field="table_id")
            errors.validate(request)
            seq = await self._node.act(table_id, stream.player_id, command)
        except Refusal as refusal:
            metrics.REFUSALS.labels(refusal.reason).inc()
            refused = table_pb2.Refused(command_id=command.command_id, refusal=errors.to_proto(refusal))
            stream.push("refused", refused)
        except Exception:
            # It is recorded where it happened; the client asks again and finds out.
            stream.goodbye("fault", reconnect=True)
        else:
            stream.push_accepted(table_pb2.Accepted(command_id=command.command_id, seq=seq))

    async def Act(self, request: table_pb2.ActRequest, context: Any) -> table_pb2.ActResponse:
        player_id = identity.player_id(context)
        seq = await self._node.act(request.table_id, player_id, request.command)
        return table_pb2.ActResponse(accepted=table_pb2.Accepted(command_id=request.command.command_id, seq=seq))

    async def Watch(self, request: table_pb2.WatchRequest, context: Any) -> AsyncIterator[bytes]:
        player_id, ends_at = identity.player_id(context), identity.ends_at(context)
        actor, stream = await self._node.attach(
            request.table_id, player_id, request.after_seq, request.epoch, table_pb2.WatchResponse
        )
        with self._attached(actor, stream, ends_at):
            async for frame in stream.frames():
                yield frame

    async def GetTable(self, request: table_pb2.GetTableRequest, context: Any) -> table_pb2.GetTableResponse:
        player_id = identity.player_id(context)
        table = await self._node.look(request.table_id, player_id)
        snapshot = snapshot_to(
            table, viewer(table, player_id), epoch=self._node.store.epoch, now_ms=self._node.now_ms()
        )
        return table_pb2.GetTableResponse(snapshot=snapshot)


def _codec(method: MethodDescriptor) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """Decodes the request of a method, and encodes its response."""
    request, response = (GetMessageClass(kind) for kind in (method.input_type, method.output_type))
    return request.FromString, response.SerializeToString


class TableInternalServicer(table_pb2_grpc.TableInternalServiceServicer):
    """What other services call."""

    def __init__(self, node: Node, steward: Steward) -> None:
        self._node = node
        self._steward = steward

    async def Open(self, request: table_pb2.OpenRequest, _context: Any) -> table_pb2.OpenResponse:
        persons = tuple(person_from(player) for player in request.players)
        return table_pb2.OpenResponse(seq=await self._node.open(request.table_id, terms_from(request.terms), persons))

    async def Sit(self, request: table_pb2.SitRequest, _context: Any) -> table_pb2.SitResponse:
        seat = request.seat if request.HasField("seat") else None
        return table_pb2.SitResponse(seat=await self._node.sit(request.table_id, person_from(request.player), seat))

    async def Observe(self, request: table_pb2.ObserveRequest, _context: Any) -> table_pb2.ObserveResponse:
        seq = await self._node.observe(request.table_id, person_from(request.observer), request.seat)
        return table_pb2.ObserveResponse(seq=seq)

    async def VoidTable(self, request: table_pb2.VoidTableRequest, _context: Any) -> table_pb2.VoidTableResponse:
        return table_pb2.VoidTableResponse(hand_id=await self._steward.void_table(request.table_id, request.reason))

    async def ReadLog(self, request: table_pb2.ReadLogRequest, _context: Any) -> table_pb2.ReadLogResponse:
        events, live_hand_id = await self._steward.read_log(request.table_id, request.after_seq)
        return table_pb2.ReadLogResponse(events=events, live_hand_id=live_hand_id)
