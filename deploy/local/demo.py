"""`make demo`: a stack of its own on free ports with fresh data, hands of all rule books on it, and nothing after."""

from __future__ import annotations

import hashlib
import os
import sys

import grpc
from rich.console import Console

from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddzclient import demo
from deploy.local import folders, interrupt, ports, stack
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from servicekit import server

_TABLE_NODES = 2
_SHOWN = 3  # faults of one process


def main(hands: int, seed: int) -> None:
    """Plays `hands` hands with the deals of `seed`; exits 1 when the books are not right at the end."""
    scratch = folders.scratch()
    options = stack.Options(
        rooms_file=ROOT / "deploy" / "rooms.fast.yaml",
        deal_seed=hashlib.sha256(f"demo {seed}".encode()).hexdigest(),
        drain_s=1.0,
        extra={"DDZ_ALLOW_BOTS": "1", "DDZ_LOG_LEVEL": os.environ.get("DDZ_LOG_LEVEL", "INFO")},
    )
    console = Console()
    with Leash(scratch) as leash:
        plan = ports.plan(ports.free(ports.count(_TABLE_NODES)), _TABLE_NODES)
        say = lambda step: console.print(f"starting {step} …", style="dim")  # noqa: E731
        with stack.running(leash, scratch, plan, options, say) as running:
            ok = interrupt.run(_play(running, hands, seed, console))
            ok = _tell_what_broke(running, console) and ok
    sys.exit(0 if ok else 1)


def _tell_what_broke(running: stack.Stack, console: Console) -> bool:
    """Prints what the processes say of faults of our own, before their logs go; whether there were none."""
    sound = True
    for process in running.processes:
        if not process.alive():
            sound = False
            console.print(f"{process.name} ended with code {process.popen.returncode}:\n{process.tail()}", markup=False)
        for line in process.faults()[:_SHOWN]:
            sound = False
            console.print(f"{process.name}: {line}", markup=False, soft_wrap=True)
    return sound


async def _play(running: stack.Stack, hands: int, seed: int, console: Console) -> bool:
    """The client's demo, with the audit that only somebody inside can ask for."""
    async with server.channel(running.grpc_address("ledger"), running.inside) as channel:
        ledger = ledger_pb2_grpc.LedgerInternalServiceStub(channel)

        async def audit() -> ledger_pb2.AuditResponse:
            return await ledger.Audit(ledger_pb2.AuditRequest(), timeout=10.0)

        try:
            report = await demo.play(running.address, hands=hands, seed=seed, audit=audit, console=console)
        except grpc.aio.AioRpcError as error:
            console.print(f"The ledger could not be audited: {error.details()}")
            return False
    return report.ok
