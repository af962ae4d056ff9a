"""Bots of the house in a local stack: what the services are told of them, and the process that plays them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deploy.local import servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.process import Process

# The lobby marks them, and matchmaking takes them once a person has waited for some seconds.
SETTINGS: Final = {"DDZ_ALLOW_BOTS": "1", "DDZ_BOT_FILL_S": "5"}


@contextlib.contextmanager
def running(leash: Leash, folder: Path, port: int, each: int) -> Iterator[Process]:
    """`ddz bots` with `each` in every room, at the gateway of `port`; its log and its accounts' secret in `folder`."""
    command = [sys.executable, "-m", "ddzclient.cli", "bots", f"--gateway=127.0.0.1:{port}", f"--each={each}"]
    env = servers.environment() | {"XDG_CONFIG_HOME": str(folder)}
    process = servers.run(leash, "bots", command, folder, env=env, cwd=ROOT)
    try:
        yield process
    finally:
        process.stop()
