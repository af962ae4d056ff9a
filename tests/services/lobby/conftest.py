"""A lobby on real Postgres, Valkey and NATS, next to stand-ins for the table service and the ledger."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import argon2
import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from nats.aio.client import Client as NatsClient
from redis.asyncio import Redis

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from deploy.local import ports, servers
from deploy.local.leash import Leash
from deploy.local.servers import Postgres
from doudizhu.refusal import Refusal
from servicekit import clients, errors, identity, migrations, server
from services.lobby import passwords, service, store
from tests.services.lobby.doubles import Ledger, TableHouse, standing

ROOMS_FILE = Path(__file__).parents[3] / "deploy" / "rooms.yaml"


@pytest.fixture(scope="session", autouse=True)
def cheap_hashes() -> Iterator[None]:
    """With the parameters of production a hash takes up to half a second, and these tests need hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        cheap = functools.partial(argon2.PasswordHasher, time_cost=1, memory_cost=64, parallelism=1)
        patch.setattr(passwords, "PasswordHasher", cheap)
        yield


def signing_key(kid: str) -> dict[str, Any]:
    key = dict(jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True))
    return key | {"kid": kid, "alg": "ES256", "use": "sig"}


@dataclass(frozen=True)
class Town:
    """A running lobby, what it stands on, and its neighbours."""

    config: service.Config
    stub: lobby_pb2_grpc.LobbyServiceAsyncStub
    ledger: Ledger
    tables: TableHouse
    bus: NatsClient
    redis: Redis
    postgres: Postgres

    async def guest(self, key: str = "") -> lobby_pb2.LoginResponse:
        request = lobby_pb2.LoginRequest(guest=lobby_pb2.GuestLogin(device_key=key or secrets.token_hex(16)))
        return await self.stub.Login(request)

    async def player(self) -> Person:
        return Person(self, (await self.guest()).player)


@dataclass(frozen=True)
class Person:
    """A logged-in player, called as the gateway would call for him."""

    town: Town
    player: common_pb2.Player

    @property
    def id(self) -> str:
        return self.player.player_id

    @property
    def headers(self) -> list[tuple[str, str | bytes]]:
        return identity.metadata(self.player)

    async def call(self, name: str, request: Any) -> Any:
        return await getattr(self.town.stub, name)(request, metadata=self.headers)


async def refusal_of(call: Awaitable[Any]) -> Refusal:
    """The refusal that a call must end with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    refusal = errors.from_rpc_error(caught.value)
    assert refusal is not None, caught.value
    return refusal


@pytest.fixture(scope="session")
def keys_file(scratch: Path) -> Path:
    path = scratch / "lobby-keys.json"
    path.write_text(json.dumps({"keys": [signing_key("new"), signing_key("old")]}))
    return path


@pytest.fixture(scope="session")
def own_nats(leash: Leash, scratch: Path) -> Iterator[str]:
    """A NATS for lobbies alone: they take the news of settled hands in turn, and another would count theirs."""
    with servers.nats(leash, scratch / "lobby-nats", ports.free(1)[0]) as running:
        yield running.url


@pytest.fixture(scope="session")
async def config(postgres: Postgres, valkey: str, own_nats: str, keys_file: Path) -> service.Config:
    await migrations.apply(postgres.dsn("ddz_owner"), store.MIGRATIONS, store.SCHEMA)
    return service.Config(
        postgres_dsn=postgres.dsn("ddz_lobby"),
        redis_url=valkey,
        nats_url=own_nats,
        ledger_target="",
        table_target="",
        rooms_file=str(ROOMS_FILE),
        jwt_keys_file=str(keys_file),
        allow_bots=True,
        accounts_per_hour=0,
    )


Settle = Callable[..., contextlib.AbstractAsyncContextManager[Town]]


@pytest.fixture(scope="session")
def found(config: service.Config, postgres: Postgres) -> Settle:
    """Makes another lobby with settings of its own: `async with found(signup_chips=0) as town`."""

    @contextlib.asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[Town]:
        ledger, tables = Ledger(), TableHouse()  # type: ignore[abstract]
        async with standing(ledger) as ledger_target, standing(tables) as table_target:
            own = replace(config, ledger_target=ledger_target, table_target=table_target, **changes)
            async with (
                service.build(own) as lobby,
                standing(lobby) as target,
                server.channel(target) as channel,
                clients.nats_bus(own.nats_url, name="test") as bus,
                clients.redis(own.redis_url) as redis,
            ):
                yield Town(own, lobby_pb2_grpc.LobbyServiceStub(channel), ledger, tables, bus, redis, postgres)

    return make


@pytest.fixture(scope="session")
async def town(found: Settle) -> AsyncIterator[Town]:
    """The lobby that most tests share."""
    async with found() as town:
        yield town
