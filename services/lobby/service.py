"""The lobby put together: clients, the parts, and how it stops."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from ddz.admin.v1 import admin_pb2_grpc
from ddz.ledger.v1 import ledger_pb2_grpc
from ddz.lobby.v1 import lobby_pb2_grpc
from ddz.table.v1 import table_pb2_grpc
from servicekit import clients, errands, migrations, server
from servicekit.config import setting
from servicekit.lasting import always
from servicekit.orders import KEY, Orders
from servicekit.rooms import Rooms
from servicekit.seats import Seats
from servicekit.tls import Inside
from services.lobby.acts import Acts
from services.lobby.admin import Admin
from services.lobby.admin_servicer import AdminServicer
from services.lobby.attempts import Attempts
from services.lobby.board import Board
from services.lobby.decrees import Decrees
from services.lobby.entry import Entry, EntryTerms
from services.lobby.presence import Presence
from services.lobby.profiles import Profiles
from services.lobby.scorekeeper import Scorekeeper
from services.lobby.seating import Seating
from services.lobby.servicer import LobbyServicer
from services.lobby.store import MIGRATIONS, SCHEMA, Store
from services.lobby.tables import Tables
from services.lobby.tokens import Tokens

_CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Config:
    """What the lobby reads besides what every process does."""

    postgres_dsn: str = setting("DDZ_POSTGRES_DSN", "the database, as ddz_lobby")
    redis_url: str = setting("DDZ_REDIS_URL", "Redis")
    nats_url: str = setting("DDZ_NATS_URL", "NATS")
    ledger_target: str = setting("DDZ_LEDGER_TARGET", "gRPC target of the ledger")
    table_target: str = setting("DDZ_TABLE_TARGET", "gRPC target of the table service")
    rooms_file: str = setting("DDZ_ROOMS_FILE", "the rooms (YAML)")
    jwt_keys_file: str = setting("DDZ_JWT_KEYS_FILE", "private JWK set; the first key signs")
    access_token_s: int = setting("DDZ_ACCESS_TOKEN_S", "seconds that an access token is good for", 900, least=1)
    refresh_token_s: int = setting(
        "DDZ_REFRESH_TOKEN_S", "seconds that a refresh token is good for", 30 * 86_400, least=1
    )
    refresh_grace_s: float = setting("DDZ_REFRESH_GRACE_S", "seconds that a refresh may be repeated", 10.0, least=0)
    signup_chips: int = setting("DDZ_SIGNUP_CHIPS", "chips that a new account gets; 0 = none", 10_000, least=0)
    allow_bots: bool = setting("DDZ_ALLOW_BOTS", "whether a device key that begins with bot: makes a bot", False)
    accounts_per_hour: int = setting(
        "DDZ_ACCOUNTS_PER_HOUR", "new accounts from one address; 0 = any number", 20, least=0
    )


class Lobby:
    """A running lobby (servicekit.server.Service)."""

    names: Sequence[str] = ("ddz.lobby.v1.LobbyService", "ddz.admin.v1.AdminService")

    def __init__(self, servicer: LobbyServicer, operators: AdminServicer, board: Board) -> None:
        self._servicer = servicer
        self._operators = operators
        self._board = board

    def register(self, grpc_server: grpc.aio.Server) -> None:
        lobby_pb2_grpc.add_LobbyServiceServicer_to_server(self._servicer, grpc_server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self._operators, grpc_server)

    async def drain(self) -> None:
        self._board.close()


@contextlib.asynccontextmanager
async def build(config: Config, inside: Inside | None = None) -> AsyncIterator[Lobby]:
    """The lobby on its clients; raises OSError (with RoomsError's words for a bad rooms file) when it cannot start."""
    rooms = Rooms(Path(config.rooms_file))
    issuer = Tokens(Path(config.jwt_keys_file), config.access_token_s)
    async with contextlib.AsyncExitStack() as stack:
        pool = await stack.enter_async_context(clients.postgres(config.postgres_dsn, connections=_CONNECTIONS))
        await migrations.check(pool, MIGRATIONS, SCHEMA)
        redis = await stack.enter_async_context(clients.redis(config.redis_url))
        bus = await stack.enter_async_context(clients.nats_bus(config.nats_url, name="lobby"))
        ledger_channel = await stack.enter_async_context(server.channel(config.ledger_target, inside))
        table_channel = await stack.enter_async_context(server.channel(config.table_target, inside))
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(ledger_channel)
        public_ledger = ledger_pb2_grpc.LedgerServiceStub(ledger_channel)
        table = table_pb2_grpc.TableInternalServiceStub(table_channel)
        seats = Seats(table_pb2_grpc.TableServiceStub(table_channel))

        store, presence, tables, attempts = Store(pool), Presence(redis), Tables(redis), Attempts(redis)
        orders = Orders(functools.partial(redis.get, KEY))
        await orders.refresh()
        decrees = Decrees(pool, redis, bus, orders, config.access_token_s)
        board = Board(rooms, tables, presence, seats, orders, bus)
        scores = Scorekeeper(pool, bus)
        await stack.enter_async_context(board.running())
        await stack.enter_async_context(scores.running())
        terms = EntryTerms(
            signup_chips=config.signup_chips,
            refresh_s=config.refresh_token_s,
            refresh_grace_s=config.refresh_grace_s,
            allow_bots=config.allow_bots,
            accounts_per_hour=config.accounts_per_hour,
        )
        entry = Entry(terms, store, attempts, issuer, ledger)
        answer = errands.rooms_reader("lobby", rooms, board.rooms_changed)
        await stack.enter_async_context(
            always(
                orders=functools.partial(orders.follow, bus),
                decrees=decrees.keep_mirrored,
                errands=functools.partial(errands.answering, bus, answer),
                sessions=entry.keep_pruned,
            )
        )
        profiles = Profiles(store, presence, seats, scores, ledger, public_ledger)
        seating = Seating(rooms, tables, board, attempts, seats, orders, table, ledger)
        operators = AdminServicer(Admin(decrees, profiles, bus, table, ledger), Acts(pool))
        yield Lobby(LobbyServicer(entry, profiles, board, seating), operators, board)
