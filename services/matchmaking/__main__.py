"""Starts matchmaking: `python -m services.matchmaking`."""

from __future__ import annotations

import os

from servicekit import server
from servicekit.config import load
from services.matchmaking import service


def main() -> None:
    """Serves until SIGTERM; exits 1 with one sentence when it cannot."""
    with server.one_sentence("matchmaking"):
        config, server_config = load(service.Config, os.environ), load(server.ServerConfig, os.environ)
        inside = server_config.inside()
    server.run("matchmaking", server_config, lambda: service.build(config, inside))


if __name__ == "__main__":
    main()
