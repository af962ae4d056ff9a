"""`python -m servicekit.health`: exit 0 while the service beside it serves, 1 with one sentence when it does not.

With the argument `alive`: while the process does, also one that is drained for a time and is to live on. For container
engines and orchestrators that run a command as their probe. Reads what the service reads, so it finds its address, and
shows its certificate where processes do.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from servicekit import server, tls
from servicekit.config import load

_TIMEOUT_S: Final = 3.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}


def check(config: server.ServerConfig, name: str = "") -> str:
    """Why the service of this configuration does not serve, or not what has this name; empty when it does
    (grpc.health.v1).
    """
    host, _, port = config.grpc_address.rpartition(":")
    target = f"{_ANY.get(host, host)}:{port}"
    with tls.channel(target, config.inside()) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service=name)
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            return f"{target} does not answer: {error.code().name}."
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return "" if answer.status == health_pb2.HealthCheckResponse.SERVING else f"{target} says {status}."


def main() -> None:
    """Asks once."""
    with server.one_sentence("health"):
        wrong = check(load(server.ServerConfig, os.environ), *sys.argv[1:2])
    if wrong:
        sys.exit(f"health: {wrong}")


if __name__ == "__main__":
    main()
