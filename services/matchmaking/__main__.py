"""Starts matchmaking: `python -m services.matchmaking`."""

from __future__ import annotations

import os
import sys

from servicekit import server
from servicekit.config import ConfigError, load
from services.matchmaking import service


def main() -> None:
    """Serves until SIGTERM; exits 1 with one sentence when it cannot."""
    try:
        config, server_config = load(service.Config, os.environ), load(server.ServerConfig, os.environ)
    except ConfigError as error:
        sys.stderr.write(f"matchmaking: {error}\n")
        raise SystemExit(1) from None
    server.run("matchmaking", server_config, lambda: service.build(config))


if __name__ == "__main__":
    main()
