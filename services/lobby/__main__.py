"""Starts the lobby: `python -m services.lobby`. With `migrate` it brings the schema up to date, with `jwks` it prints
the public keys of DDZ_JWT_KEYS_FILE for the gateway, with `appoint NAME` and `dismiss NAME` it makes operators."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from doudizhu.refusal import Refusal
from servicekit import migrations, server
from servicekit.config import load, setting
from services.lobby import service, store, tokens
from services.lobby.account import login_name


@dataclass(frozen=True, slots=True)
class Owner:
    """What `migrate`, `appoint` and `dismiss` read."""

    dsn: str = setting("DDZ_POSTGRES_OWNER_DSN", "the database, as ddz_owner")


@dataclass(frozen=True, slots=True)
class Keys:
    """What `jwks` reads."""

    file: str = setting("DDZ_JWT_KEYS_FILE", "private JWK set; the first key signs")


def main() -> None:
    """Serves until SIGTERM; exits 1 with one sentence when it cannot."""
    parser = argparse.ArgumentParser(prog="python -m services.lobby")
    parser.add_argument("verb", nargs="?", choices=["serve", "migrate", "jwks", "appoint", "dismiss"], default="serve")
    parser.add_argument(
        "name", nargs="?", default="", help="to appoint or dismiss: the name that the account logs in by"
    )
    arguments = parser.parse_args()
    verb = arguments.verb
    with server.one_sentence("lobby", migrations.MigrationError, store.AppointError, Refusal):
        if verb in ("appoint", "dismiss"):
            name, dismiss = login_name(arguments.name), verb == "dismiss"
            who = asyncio.run(store.appoint(load(Owner, os.environ).dsn, name, dismiss=dismiss))
            sys.stdout.write(f"lobby: {name} ({who}) is {'no operator any more' if dismiss else 'an operator'}\n")
        elif verb == "migrate":
            done = asyncio.run(migrations.apply(load(Owner, os.environ).dsn, store.MIGRATIONS, store.SCHEMA))
            sys.stdout.write(f"lobby: {', '.join(done) or 'nothing to do'}\n")
        elif verb == "jwks":
            sys.stdout.write(json.dumps(tokens.public_set(Path(load(Keys, os.environ).file))) + "\n")
        else:
            config, server_config = load(service.Config, os.environ), load(server.ServerConfig, os.environ)
            inside = server_config.inside()
            server.run("lobby", server_config, lambda: service.build(config, inside))


if __name__ == "__main__":
    main()
