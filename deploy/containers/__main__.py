"""`python -m deploy.containers`: what containers need besides the services, and the demo on a system that runs.

`keys` makes the key that signs tokens; `gateway` writes all that Envoy reads; `demo` plays hands. Each runs once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddzclient import demo
from deploy.containers.descriptors import descriptors
from deploy.local import certificates, gateway, keys
from deploy.local.ports import SERVICES
from servicekit import server

DOORS = {"plain": 8080, "tls": 8443, "metrics": 9100}  # on which the gateway listens, in its container


def make_keys(folder: Path) -> None:
    """Makes `signing-keys.json`, with which the lobby signs tokens, for its owner alone; leaves one that is there."""
    keys.token_keys(folder / "signing-keys.json")


def address(text: str) -> tuple[str, int]:
    """Host and port; raises ValueError."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def maybe_address(text: str) -> tuple[str, int] | None:
    """Host and port, or None for an empty text; raises ValueError."""
    return address(text) if text else None


def write_gateway(arguments: argparse.Namespace) -> None:
    """Writes `envoy.json` and what it names: the page, the descriptors and, unless one is given, a certificate."""
    folder: Path = arguments.folder
    trust = gateway.Trust(arguments.certificate, arguments.certificate_key, arguments.inside)
    chain, key = arguments.certificate, arguments.certificate_key
    if chain is None or key is None:
        chain, key = folder / "certificate.pem", folder / "certificate.key"
        certificates.door(chain, key)
    copy(gateway.PAGE, folder / "page")
    (folder / "ddz.binpb").write_bytes(descriptors().SerializeToString())
    files = gateway.Files(
        chain, key, folder / "ddz.binpb", folder / "page", Path("/tmp/admin.sock"), Path("/dev/stdout")
    )
    doors = gateway.Doors(**DOORS, trust=trust, traces=gateway.Traces(arguments.collector, arguments.trace_ratio))
    nodes = {service: [getattr(arguments, service)] for service in SERVICES}
    text = gateway.configuration(files, doors, nodes, gateway.Limits(), host=arguments.host)
    (folder / "envoy.json").write_text(text)


def copy(source: Path, target: Path) -> None:
    """Copies the files of a folder; what else is in the target stays."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            to = target / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())


async def play(gateway_address: str, ledger_target: str, hands: int, seed: int) -> bool:
    """Hands of all rule books through the gateway, with the audit that only somebody inside can ask for."""
    async with server.channel(ledger_target) as channel:
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(channel)

        async def audit() -> ledger_pb2.AuditResponse:
            return await ledger.Audit(ledger_pb2.AuditRequest(), timeout=30.0)

        return (await demo.play(gateway_address, hands=hands, seed=seed, audit=audit)).ok


def parser() -> argparse.ArgumentParser:
    """The verbs and their arguments."""
    found = argparse.ArgumentParser(prog="python -m deploy.containers", description=__doc__)
    verbs = found.add_subparsers(dest="verb", required=True)
    verbs.add_parser("keys", help="make the key that signs tokens").add_argument("folder", type=Path)
    door = verbs.add_parser("gateway", help="write what Envoy reads")
    door.add_argument("--folder", type=Path, required=True, help="where; Envoy finds it under the same path")
    door.add_argument("--host", default="0.0.0.0", help="where to listen")
    door.add_argument("--certificate", type=Path, help="the door's certificate chain (PEM); none = one for development")
    door.add_argument("--certificate-key", type=Path, help="its private key (PEM)")
    door.add_argument("--inside", type=Path, help="folder with gateway.pem, gateway.key and ca.pem for mTLS inside")
    collector, ratio = os.environ.get("DDZ_OTLP_ENDPOINT", ""), os.environ.get("DDZ_TRACE_RATIO", "1.0")
    where = "of traces (default: DDZ_OTLP_ENDPOINT)"
    door.add_argument("--collector", type=maybe_address, default=collector, metavar="HOST:PORT", help=where)
    share = "of calls that it is told of, 0 to 1 (default: DDZ_TRACE_RATIO)"
    door.add_argument("--trace-ratio", type=float, default=ratio, help=share)
    for service in SERVICES:
        door.add_argument(f"--{service}", type=address, default=(service, 9000), metavar="HOST:PORT")
    game = verbs.add_parser("demo", help="play hands on a system that runs")
    game.add_argument("gateway")
    game.add_argument("--ledger", required=True, metavar="TARGET")
    game.add_argument("--hands", type=int, default=12)
    game.add_argument("--seed", type=int, default=1)
    return found


def main() -> None:
    """Runs one verb."""
    arguments = parser().parse_args()
    if arguments.verb == "keys":
        make_keys(arguments.folder)
    elif arguments.verb == "gateway":
        write_gateway(arguments)
    elif not asyncio.run(play(arguments.gateway, arguments.ledger, arguments.hands, arguments.seed)):
        sys.exit(1)


if __name__ == "__main__":
    main()
