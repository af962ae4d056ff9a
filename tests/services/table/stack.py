"""Two table nodes and a ledger over real servers, and clients that speak to a node of their choice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from deploy.local import ports, servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import Process
from servicekit import clients, server
from services.table import service as table_service
from services.table.settings import Settings

_CONFIG = server.ServerConfig("127.0.0.1:0", "127.0.0.1:0", "INFO", 1.0)
_ids = itertools.count(1)
PASS: dict[str, Any] = {"pass": hand_pb2.Pass()}
FAST = {"seed_ms": 20, "show_window_ms": 20, "countdown_ms": 50}


def fresh(prefix: str) -> str:
    """A name that nobody else uses."""
    return f"{prefix}{next(_ids)}"


async def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """Waits until the condition holds; returns what it answered."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.005)
    return found


async def until_async(condition: Callable[[], Awaitable[Any]], timeout_s: float = 20.0) -> Any:
    """The same for a condition that has to be asked for."""
    deadline = time.monotonic() + timeout_s
    while not (found := await condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.02)
    return found


def terms(book: str, **changes: Any) -> common_pb2.Terms:
    """A room of this book, at a fast pace; `clocks` lays over it."""
    clocks = {**FAST, **changes.pop("clocks", {})}
    values: dict[str, Any] = {
        "room_id": f"{book}-room",
        "book": book,
        "base_min_chips": 1 if book == "classic" else 10,
        "base_max_chips": 100 if book == "classic" else 10,
        "initial_multiplier": 1,
        "rake_chips": 3 if book == "rob" else 0,
        "minimum_chips": 100,
        "clocks": common_pb2.Clocks(**clocks),
        "matched": book == "rob",
    }
    return common_pb2.Terms(**{**values, **changes})


@dataclass
class TableNode:
    """One running node and its stubs."""

    service: table_service.TableService
    target: str
    stub: table_pb2_grpc.TableServiceAsyncStub
    internal: table_pb2_grpc.TableInternalServiceAsyncStub


@contextlib.asynccontextmanager
async def table_node(
    redis_url: str, nats_url: str, ledger_port: int, *, deal_seed: bytes = b"", **changes: Any
) -> AsyncIterator[TableNode]:
    """A node; `changes` are Settings."""
    # Tests read whole logs; those of cutting say so.
    usual = {"node_id": fresh("node"), "drain_s": 2.0, "poll_s": 0.1, "grace_ms": 100, "cut_events": 100_000}
    settings = Settings(**{**usual, **changes})
    async with (
        clients.nats_bus(nats_url, name=settings.node_id) as bus,
        table_service.running(settings, redis_url, bus, f"127.0.0.1:{ledger_port}", deal_seed) as service,
        server.serving(_CONFIG, service) as port,
        server.channel(f"127.0.0.1:{port}") as channel,
    ):
        yield TableNode(
            service,
            f"127.0.0.1:{port}",
            table_pb2_grpc.TableServiceStub(channel),
            table_pb2_grpc.TableInternalServiceStub(channel),
        )


@dataclass
class Client:
    """A person's Play stream on one node. Keeps every frame, and the state that they lead to."""

    player_id: str
    table_id: str
    stub: table_pb2_grpc.TableServiceAsyncStub
    frames: list[table_pb2.PlayResponse] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    events: list[events_pb2.Event] = field(default_factory=list)
    snapshot: events_pb2.Snapshot | None = None
    error: grpc.aio.AioRpcError | None = None
    ended: bool = False
    _call: Any = None
    _task: asyncio.Task[None] | None = None

    async def open(self, after_seq: int = 0, epoch: int = 0, *, wait: bool = True, until_s: float = 0.0) -> Client:
        """Begins the stream; `until_s` (since the epoch) is when its token runs out, 0 = never."""
        self._call = self.stub.Play(metadata=metadata(self.player_id, until_s))
        await self._call.write(table_pb2.PlayRequest(table_id=self.table_id, after_seq=after_seq, epoch=epoch))
        self._task = asyncio.create_task(self._read())
        if wait:
            await until(lambda: self.frames or self.ended)
        return self

    async def _read(self) -> None:
        try:
            while isinstance(frame := await self._call.read(), table_pb2.PlayResponse):
                self.frames.append(frame)
                self.raw.append(frame.SerializeToString())
                if frame.HasField("snapshot"):
                    self.snapshot = frame.snapshot
                self.events += frame.events.events
        except grpc.aio.AioRpcError as error:
            self.error = error
        finally:
            self.ended = True

    async def send(self, command_id: str = "", **action: Any) -> str:
        """Sends a command; returns its id."""
        command_id = command_id or fresh("c")
        await self._call.write(table_pb2.PlayRequest(command=table_pb2.Command(command_id=command_id, **action)))
        return command_id

    async def send_raw(self, request: table_pb2.PlayRequest) -> None:
        """Sends a request as it is."""
        await self._call.write(request)

    async def act(self, command_id: str = "", **action: Any) -> Any:
        """Sends a command and waits for its answer: Accepted or Refused."""
        asked = await self.send(command_id, **action)
        return await until(lambda: self.answer(asked))

    def answer(self, command_id: str) -> Any:
        for frame in self.frames:
            answers: list[Any] = [*frame.events.accepted, frame.accepted, frame.refused]
            for answer in answers:
                if answer.command_id == command_id:
                    return answer
        return None

    def goodbye(self) -> table_pb2.Goodbye | None:
        return next((frame.goodbye for frame in self.frames if frame.HasField("goodbye")), None)

    def names(self) -> list[str]:
        """What happened, as the stream told it."""
        return [event.WhichOneof("event") or "" for event in self.events]

    def last(self, name: str) -> Any:
        """The last event of that name; None when there is none."""
        return next((getattr(event, name) for event in reversed(self.events) if event.HasField(name)), None)  # type: ignore[arg-type]

    async def until_told(self, name: str, times: int = 1) -> Any:
        """Waits until the stream has told of this so often; the last event of that name."""
        await until(lambda: self.names().count(name) >= times)
        return self.last(name)

    @property
    def seq(self) -> int:
        seqs = [event.seq for event in self.events] + [self.snapshot.seq if self.snapshot else 0]
        return max(seqs)

    async def close(self) -> None:
        self._call.cancel()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def metadata(player_id: str, until_s: float = 0.0) -> tuple[tuple[str, str], ...]:
    """What the gateway sets; without `until_s` the call is one from inside, without a token."""
    return (("x-player-id", player_id), *([("x-player-until", str(until_s))] if until_s else []))


async def look(node: TableNode, table_id: str, player_id: str) -> events_pb2.Snapshot:
    """GetTable."""
    answer = await node.stub.GetTable(
        table_pb2.GetTableRequest(table_id=table_id), metadata=metadata(player_id), timeout=5
    )
    return answer.snapshot


async def act(node: TableNode, table_id: str, player_id: str, command_id: str = "", **action: Any) -> int:
    """Act; the number of the last event."""
    command = table_pb2.Command(command_id=command_id or fresh("c"), **action)
    answer = await node.stub.Act(
        table_pb2.ActRequest(table_id=table_id, command=command), metadata=metadata(player_id), timeout=5
    )
    return answer.accepted.seq


@dataclass
class Stack:
    """Two nodes, the ledger's stubs, and what they stand on."""

    nodes: list[TableNode]
    ledger: ledger_pb2_grpc.LedgerInternalServiceAsyncStub
    hands: ledger_pb2_grpc.LedgerServiceAsyncStub
    redis_url: str
    nats_url: str
    ledger_port: int

    @property
    def alone_url(self) -> str:
        """A database of the same Redis into which the two nodes do not look: they would take up what is late there."""
        return self.redis_url.removesuffix("/0") + "/1"

    async def players(self, chips: int = 10_000, *, count: int = 3) -> list[common_pb2.Player]:
        """New players with chips."""
        made = [common_pb2.Player(player_id=fresh("p"), display_name="名") for _ in range(count)]
        for player in made:
            await self.ledger.Grant(
                ledger_pb2.GrantRequest(
                    key=f"signup:{player.player_id}", player_id=player.player_id, chips=chips, kind="signup"
                )
            )
        return made

    async def open(self, of: common_pb2.Terms, players: list[common_pb2.Player], *, node: int = 0) -> str:
        """A new table with these seated in order."""
        return await self.open_on(self.nodes[node].internal, of, players)

    @staticmethod
    async def open_on(
        internal: table_pb2_grpc.TableInternalServiceAsyncStub, of: common_pb2.Terms, players: list[common_pb2.Player]
    ) -> str:
        """The same on the node of a stub."""
        table_id = fresh("t")
        if of.matched:
            await internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=of, players=players))
            return table_id
        await internal.Open(table_pb2.OpenRequest(table_id=table_id, terms=of))
        for player in players:
            await internal.Sit(table_pb2.SitRequest(table_id=table_id, player=player))
        return table_id

    def client(self, player_id: str, table_id: str, *, node: int = 0) -> Client:
        return Client(player_id, table_id, self.nodes[node].stub)


@dataclass(frozen=True)
class NodeProcess:
    """A node of its own process, which can be killed."""

    process: Process
    target: str

    def kill(self) -> None:
        """kill -9."""
        self.process.popen.kill()
        self.process.popen.wait()


@contextlib.contextmanager
def node_process(stack: Stack, leash: Leash, folder: Path, **env: str) -> Iterator[NodeProcess]:
    """A node as a process; `env` lays over its environment."""
    grpc_port, metrics_port = ports.free(2)
    own = {
        "DDZ_REDIS_URL": stack.redis_url,
        "DDZ_NATS_URL": stack.nats_url,
        "DDZ_LEDGER_TARGET": f"127.0.0.1:{stack.ledger_port}",
        "DDZ_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}",
        "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
    }
    argv: list[str | Path] = [sys.executable, "-m", "services.table"]
    process = servers.run(leash, fresh("table"), argv, folder, env=servers.environment() | own | env, cwd=ROOT)
    process.wait_until(lambda: is_serving(grpc_port))
    yield NodeProcess(process, f"127.0.0.1:{grpc_port}")
    process.stop()


def is_serving(port: int) -> bool:
    """Whether the process says so."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
