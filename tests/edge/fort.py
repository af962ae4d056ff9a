"""The whole system with mTLS between its processes, and a hand in it that nobody but its three players may touch."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import events_pb2, table_pb2
from ddzclient import Gateway, Player, Refusal, Session, TableView
from deploy.local import folders, gateway, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from servicekit import tls

ROOM: Final = "happy-beginner"
# Those of the gateway alone have tests of their own; here they would hide what stands behind it.
NO_LIMITS: Final = gateway.Limits(
    player_per_s=100_000, player_burst=100_000, address_per_s=100_000, address_burst=100_000, login_per_s=100_000,
    login_burst=100_000,
)  # fmt: skip
# Nothing happens by itself while somebody attacks; what bots wait for is as short as in rooms.fast.yaml.
_CLOCKS: Final = """
extends: rooms.yaml
clocks: {base_ms: 3600000, agree_ms: 3600000, auction_ms: 3600000, show_window_ms: 50, show_ms: 3600000,
  first_lead_ms: 3600000, play_ms: 3600000, trustee_ms: 50, countdown_ms: 200, seed_ms: 10000}
"""


# Fuzzers queue for all other rooms, and do not play.
QUIET_ROOM: Final = "rob-quiet"
_QUIET: Final = f"""
- room_id: {QUIET_ROOM}
  name_zh: 抢地主 安静场
  name_en: Rob, quiet
  seating: matched
  terms: {{book: rob, base_chips: 10, initial_multiplier: 1, rake_chips: 5, minimum_chips: 200, maximum_chips: 50000}}
"""


@contextlib.contextmanager
def fort(leash: Leash, folder: Path, extra: Mapping[str, str] | None = None) -> Iterator[whole.Stack]:
    """A running system of two table nodes; `extra` goes into the services' environment."""
    folder.mkdir()
    (folder / "rooms.yaml").write_text((folders.ROOT / "deploy" / "rooms.yaml").read_text() + _QUIET)
    (folder / "patient.yaml").write_text(_CLOCKS)
    options = whole.Options(
        rooms_file=folder / "patient.yaml",
        drain_s=2.0,
        limits=NO_LIMITS,
        extra=extra or {},
        tls_inside=True,
    )
    with whole.running(leash, folder, ports.plan(ports.free(ports.count(2)), 2), options) as running:
        yield running


def token(stack: whole.Stack, player_id: str) -> str:
    """A token as the lobby would sign it, also for a player that there is not."""
    key = json.loads(gateway.private_keys(stack.folder / "gateway").read_text())["keys"][0]
    now = datetime.datetime.now(datetime.UTC)
    claims = {"iss": "ddz-lobby", "aud": "ddz", "sub": player_id, "exp": now + datetime.timedelta(hours=2)}
    return jwt.encode(claims, jwt.PyJWK(key).key, algorithm="ES256", headers={"kid": key["kid"]})


async def audit(stack: whole.Stack) -> ledger_pb2.AuditResponse:
    """What the ledger says of itself to an operator."""
    async with tls.aio_channel(stack.grpc_address("ledger"), stack.inside) as channel:
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(channel)
        return await ledger.Audit(ledger_pb2.AuditRequest(), timeout=60)


async def unhealthy(stack: whole.Stack) -> list[str]:
    """Processes that have ended, told of faults, or do not say to an operator that they serve; with what they told."""
    found = [f"{process.name} ended" for process in stack.processes if not process.alive()]
    found += [f"{process.name}: {line}" for process in stack.processes for line in process.faults()]
    for service, nodes in stack.ports.services.items():
        for node in nodes:
            async with tls.aio_channel(f"127.0.0.1:{node.grpc}", stack.inside) as channel:
                check = health_pb2_grpc.HealthStub(channel).Check
                if (await check(health_pb2.HealthCheckRequest(), timeout=10)).status != 1:
                    found.append(f"{service} does not serve")
    return found


@dataclass(frozen=True)
class Bystanders:
    """Three players in a live hand at a private table, with their streams open."""

    stack: whole.Stack
    players: list[Session]
    tables: list[TableView]
    table_id: str
    code: str

    async def look(self) -> list[bytes]:
        """All that their table and their accounts are; equal as long as nobody has touched either."""
        seen = []
        for player in self.players:
            request = table_pb2.GetTableRequest(table_id=self.table_id)
            found = await player.call(player.gateway.table.GetTable, request, table_id=self.table_id)
            found.snapshot.at_ms = 0  # when it was asked
            seen.append(found.snapshot.SerializeToString(deterministic=True))
            seen.append((await player.balance()).SerializeToString(deterministic=True))
        return seen

    @property
    def turn(self) -> int:
        """Whose turn it is."""
        return self.tables[0].state.clock.seat


@contextlib.asynccontextmanager
async def bystanders(stack: whole.Stack) -> AsyncIterator[Bystanders]:
    """Plays a hand as far as its landlord's lead."""
    async with contextlib.AsyncExitStack() as held:
        gateways = [await held.enter_async_context(Gateway(stack.address)) for _ in range(3)]
        players = [await Session.guest(one, f"fort-{uuid.uuid4()}") for one in gateways]
        made = await players[0].create_table(ROOM, private=True)
        for friend in players[1:]:
            await friend.sit(made.table_id, code=made.code)
        tables = [await held.enter_async_context(player.table(made.table_id)) for player in players]
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for table in tables:
                group.create_task(_play_to_the_lead(table))
        yield Bystanders(stack, players, tables, made.table_id, made.code)


async def _play_to_the_lead(table: TableView) -> None:
    player, known = Player(), (0, 0)
    while True:
        state = await table.newer(known)
        known = (state.epoch, state.seq)
        if state.clock.phase == events_pb2.PHASE_PLAY:
            return
        with contextlib.suppress(Refusal):  # another was faster: the news is on its way
            await player._act(table, state)
