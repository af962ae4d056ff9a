"""A table as one player sees it: a local state that follows the servers, and commands that are done exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import grpc

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.table.v1 import table_pb2, table_pb2_grpc
from ddz.table.v1.events_pb2 import Event, Snapshot
from ddz.table.v1.table_pb2 import Command, PlayRequest, PlayResponse
from ddzclient.backoff import Backoff
from ddzclient.errors import ClientError, TableGone, Unreachable, is_transient, refusal_from_proto, translate
from ddzclient.fold import fold
from doudizhu.refusal import Refusal

Action = (
    table_pb2.SetBase | table_pb2.AnswerBase | table_pb2.Ready | table_pb2.Leave | table_pb2.Trustee
    | table_pb2.AllowObservers | table_pb2.GiveSeed
    | hand_pb2.Bid | hand_pb2.Call | hand_pb2.Rob | hand_pb2.Show | hand_pb2.PlayCards | hand_pb2.Pass
)  # fmt: skip
Update = Snapshot | Event
Call = grpc.aio.StreamStreamCall[PlayRequest, PlayResponse]
Metadata = Callable[[str], Awaitable[list[tuple[str, str | bytes]]]]

SILENCE_S: Final = 45.0  # three heartbeats of the servers
ANSWER_S: Final = 30.0
ASK_AGAIN_S: Final = 0.2
AWAY_S: Final = 1.0  # the longest wait before the next stream: every second is one of the player's turn
_FIELDS: Final = {
    field.message_type.full_name: field.name
    for field in Command.DESCRIPTOR.fields
    if field.containing_oneof is not None and field.message_type is not None
}


@dataclass(slots=True)
class _Pending:
    """A command without an answer: it is sent again on every new stream, under the same id."""

    command: Command
    answer: asyncio.Future[int]


class TableView:
    """Follows one table over lost connections, drains and restarts. `Session.table` makes it; `async with` runs it.

    `state` is always the newest that is known; it changes in place. `connected`: the servers have been heard on the
    present connection; while it is false a new one is being made. `timeout_s`: how long entering, and the answer to
    a command, may take. `silence_s`: how long the servers may say nothing, not even a heartbeat, before the
    connection is given up and made anew.
    """

    def __init__(
        self,
        stub: table_pb2_grpc.TableServiceAsyncStub,
        table_id: str,
        player_id: str,
        metadata: Metadata,
        renew: Callable[[], Awaitable[None]],
        *,
        timeout_s: float = ANSWER_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.table_id = table_id
        self.player_id = player_id
        self.reconnects = 0
        self.connected = False
        self.notice = common_pb2.Notice()  # what operators tell to all
        self._stub = stub
        self._metadata = metadata
        self._renew = renew
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._state: Snapshot | None = None
        self._pending: dict[str, _Pending] = {}
        self._outbox: asyncio.Queue[Command] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._listeners: set[asyncio.Queue[Update | None]] = set()
        self._end: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.until(lambda _: True)
        except TimeoutError:
            await self.close()
            raise Unreachable(f"table {self.table_id} did not answer within {self._timeout_s:g} s") from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the stream. The seat stays: it is left by the command Leave alone."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    # ---- what you can see -----------------------------------------------------------------------------------------

    @property
    def state(self) -> Snapshot:
        """The table as the player may see it; `seats[you]` is he himself."""
        assert self._state is not None, "enter the table first: async with session.table(...) as table"
        return self._state

    async def until(self, condition: Callable[[Snapshot], bool]) -> Snapshot:
        """Waits until the newest state fulfils the condition; returns it.

        Raises TableGone when the stream has ended for good, Refusal when the servers do not let the player in.
        """
        while True:
            if self._state is not None and condition(self._state):
                return self._state
            if self._end is not None:
                raise self._end
            await self._changed.wait()

    async def newer(self, known: tuple[int, int]) -> Snapshot:
        """Waits for a state with another (epoch, seq) than the one known; returns it. Raises as `until`."""
        return await self.until(lambda state: (state.epoch, state.seq) != known)

    async def updates(self) -> AsyncIterator[Update]:
        """Everything from now on: first a snapshot, then each event once and in order; a snapshot after a break
        that events cannot heal. Ends with the stream; `state` may be ahead of what has been yielded.
        """
        queue: asyncio.Queue[Update | None] = asyncio.Queue()
        queue.put_nowait(_copy(self.state))
        self._listeners.add(queue)
        try:
            while self._end is None or not queue.empty():
                update = await queue.get()
                if update is None:
                    return
                yield update
        finally:
            self._listeners.discard(queue)

    async def notices(self) -> AsyncIterator[common_pb2.Notice]:
        """What operators tell to all, as it comes; ends with the stream."""
        told = common_pb2.Notice()
        while self._end is None:
            if self.notice == told:
                await self._changed.wait()
            else:
                told = self.notice
                yield told

    # ---- what you can do ------------------------------------------------------------------------------------------

    async def act(self, action: Action, *, command_id: str = "", timeout_s: float | None = None) -> int:
        """Sends a command and waits until it is in the log and its events are in `state`; returns their last seq.

        It is done once, however often the connection breaks. Raises Refusal when it changed nothing, Unreachable when
        no answer came within `timeout_s` (it may still be done), TableGone when the stream has ended.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        if self._end is not None:
            raise self._end
        command = Command(command_id=command_id or uuid.uuid4().hex)
        getattr(command, _FIELDS[action.DESCRIPTOR.full_name]).CopyFrom(action)
        getattr(command, _FIELDS[action.DESCRIPTOR.full_name]).SetInParent()
        pending = _Pending(command, asyncio.get_running_loop().create_future())
        self._pending[command.command_id] = pending
        self._outbox.put_nowait(command)
        epoch = self.state.epoch
        try:
            async with asyncio.timeout(timeout_s):
                seq = await pending.answer
                with contextlib.suppress(TableGone):  # a Leave may end the stream
                    await self.until(lambda state: state.seq >= seq or state.epoch != epoch)
                return seq
        except TimeoutError:
            raise Unreachable(f"no answer to {command.command_id} within {timeout_s:g} s") from None
        finally:
            self._pending.pop(command.command_id, None)

    # ---- the stream -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """One stream after the other, until the servers end it for good."""
        backoff = Backoff(longest_s=AWAY_S)
        try:
            while True:
                # Silence means that the connection is dead, whatever TCP believes.
                with contextlib.suppress(TimeoutError, Unreachable):
                    await self._try_stream(backoff)
                self.reconnects += 1
                await backoff.wait()
        except (Refusal, ClientError) as error:
            self._finish(error)
        except Exception as bug:
            self._finish(bug)
            raise
        finally:
            self._finish(TableGone("closed by the client"))

    async def _try_stream(self, backoff: Backoff) -> None:
        """One stream to its end. Raises what another stream would not heal."""
        try:
            await self._one_stream(backoff)
        except grpc.aio.AioRpcError as failed:
            error = translate(failed)
            if isinstance(error, Refusal) and error.reason == "UNAUTHENTICATED":
                await self._renew()
            elif not is_transient(error):
                raise error from None

    async def _one_stream(self, backoff: Backoff) -> None:
        """Follows one stream; returns when the servers ask back, raises TableGone when they do not."""
        pairs = await self._metadata(self.table_id)
        call = self._stub.Play(metadata=grpc.aio.Metadata(*pairs))
        sending = asyncio.create_task(self._send(call))
        try:
            while True:
                async with asyncio.timeout(self._silence_s):
                    frame = await call.read()
                if not isinstance(frame, PlayResponse):  # the end of the stream, in good order
                    return
                backoff.reset()
                self.connected = True
                if not self._take(frame):
                    return
        finally:
            self.connected = False
            call.cancel()
            sending.cancel()
            await asyncio.wait([sending])

    async def _send(self, call: Call) -> None:
        """Where to resume, every command without an answer, then the new ones."""
        outbox = self._outbox = asyncio.Queue()
        for pending in self._pending.values():
            outbox.put_nowait(pending.command)
        known = self._state or Snapshot()
        # The reader learns of an end too, and why.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.write(PlayRequest(table_id=self.table_id, after_seq=known.seq, epoch=known.epoch))
            while True:
                await call.write(PlayRequest(command=await outbox.get()))

    def _take(self, frame: PlayResponse) -> bool:
        """Takes in one frame; False when the stream is to be made anew."""
        match frame.WhichOneof("frame"):
            case "snapshot":
                self._state = frame.snapshot
                self._tell(_copy(frame.snapshot))
            case "events":
                return self._take_events(frame.events)
            case "accepted":
                self._accept(frame.accepted.command_id, frame.accepted.seq)
            case "refused":
                self._refuse(frame.refused.command_id, refusal_from_proto(frame.refused.refusal))
            case "notice":
                self.notice = frame.notice
                self._wake()
            case "heartbeat":
                return self._state is not None and frame.heartbeat.seq <= self._state.seq
            case "goodbye":
                if not frame.goodbye.reconnect:
                    raise TableGone(frame.goodbye.why)
                return False
        return True

    def _take_events(self, events: table_pb2.Events) -> bool:
        for event in events.events:
            if self._state is None or event.seq > self._state.seq + 1:
                return False  # a gap: the next stream begins after what is known
            if event.seq == self._state.seq + 1:
                fold(self._state, event, self.player_id)
                self._tell(event)
        for accepted in events.accepted:
            self._accept(accepted.command_id, accepted.seq)
        return True

    def _accept(self, command_id: str, seq: int) -> None:
        pending = self._pending.get(command_id)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(seq)

    def _refuse(self, command_id: str, refusal: Refusal) -> None:
        pending = self._pending.get(command_id)
        if pending is None or pending.answer.done():
            return
        if is_transient(refusal):  # nothing has changed: ask again, on this stream or on the next
            asyncio.get_running_loop().call_later(ASK_AGAIN_S, self._outbox.put_nowait, pending.command)
        else:
            pending.answer.set_exception(refusal)

    def _tell(self, update: Update | None) -> None:
        for queue in self._listeners:
            queue.put_nowait(update)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _finish(self, error: Exception) -> None:
        """Nothing will come any more: whoever waits is told."""
        if self._end is None:
            self._end = error
            for pending in self._pending.values():
                if not pending.answer.done():
                    pending.answer.set_exception(error)
            self._tell(None)


def _copy(state: Snapshot) -> Snapshot:
    copy = Snapshot()
    copy.CopyFrom(state)
    return copy
