"""The table service: `python -m services.table`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from servicekit import clients, server
from servicekit.config import load, setting
from servicekit.tls import Inside
from services.table.service import TableService, running
from services.table.settings import Settings

_HEX: Final = (lambda text: bool(re.fullmatch("(?:[0-9a-fA-F]{2})*", text)), "hex digits, two a byte")


@dataclass(frozen=True, slots=True)
class Config:
    """What the table service reads."""

    redis_url: str = setting("DDZ_REDIS_URL", "Redis, with an append-only file")
    nats_url: str = setting("DDZ_NATS_URL", "NATS")
    ledger_target: str = setting("DDZ_LEDGER_TARGET", "gRPC target of the ledger service")
    node_id: str = setting("DDZ_NODE_ID", "the name of this node in connections and logs", "table")
    deal_seed: str = setting("DDZ_DEAL_SEED", "hex; deals follow from it; empty = random", "", form=_HEX)
    shards: int = setting("DDZ_TABLE_SHARDS", "shards in Redis; the same on every node, for ever", 64, least=1)
    heartbeat_s: float = setting("DDZ_TABLE_HEARTBEAT_S", "seconds of silence before a heartbeat", 15.0, least=0.1)
    mailbox_limit: int = setting("DDZ_TABLE_MAILBOX", "requests that may wait at a table", 64, least=1)
    stream_limit: int = setting("DDZ_TABLE_STREAM", "frames that a slow consumer may be behind", 256, least=1)
    commands_per_s: float = setting("DDZ_TABLE_COMMANDS_PER_S", "commands a second of a stream", 20.0, least=0.1)
    commands_burst: int = setting("DDZ_TABLE_COMMANDS_BURST", "commands of a stream at once", 60, least=1)
    idle_s: float = setting("DDZ_TABLE_IDLE_S", "seconds that an empty table or who is absent is kept", 60.0, least=0)
    keep_s: float = setting("DDZ_TABLE_KEEP_S", "seconds that a closed table can be looked at", 300.0, least=0)
    review_s: float = setting("DDZ_TABLE_REVIEW_S", "seconds after which a table is looked at again", 60.0, least=0.1)
    cut_events: int = setting("DDZ_TABLE_CUT_EVENTS", "events after which a log is cut", 60, least=1)
    lost_s: float = setting("DDZ_TABLE_LOST_S", "seconds after which an open hand that no table plays is void", 600.0)
    drain_s: float = setting("DDZ_DRAIN_S", "seconds that calls in flight get after SIGTERM", 10.0, least=0)


@contextlib.asynccontextmanager
async def build(config: Config, inside: Inside | None) -> AsyncIterator[TableService]:
    """Connects and runs what is in the background."""
    settings = Settings(
        node_id=config.node_id,
        shards=config.shards,
        heartbeat_s=config.heartbeat_s,
        mailbox_limit=config.mailbox_limit,
        stream_limit=config.stream_limit,
        commands_per_s=config.commands_per_s,
        commands_burst=config.commands_burst,
        idle_ms=int(config.idle_s * 1000),
        keep_ms=int(config.keep_s * 1000),
        cut_events=config.cut_events,
        review_s=config.review_s,
        lost_s=config.lost_s,
        drain_s=config.drain_s,
    )
    seed = bytes.fromhex(config.deal_seed)
    async with (
        clients.nats_bus(config.nats_url, name=config.node_id, wait=False) as bus,
        running(settings, config.redis_url, bus, config.ledger_target, seed, inside) as service,
    ):
        yield service


def main() -> None:
    """Serves until told to stop; exits 1 with one sentence when it cannot."""
    with server.one_sentence("table"):
        config, server_config = load(Config, os.environ), load(server.ServerConfig, os.environ)
        inside = server_config.inside()
    server.run("table", server_config, lambda: build(config, inside))


if __name__ == "__main__":
    main()
