"""`make load`: people of all kinds play through the gateway, at a human pace or flat out; a report says how it went.

ARGS="--help" lists what can be told. Without --at it starts a system of its own. The last line is one JSON object; the
exit status is 1 when a threshold is broken (docs/load.md).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from deploy.local import folders, gateway, ports, stack
from deploy.local.leash import Leash
from deploy.local.process import StackError
from tests.load import report
from tests.load.crew import crew
from tests.load.meter import Meter
from tests.load.plan import Mix, Pace, Plan, PlanError, check_address
from tests.load.thresholds import verdicts

_HERE: Final = Path(__file__).parent
_TABLE_NODES: Final = 2
_NO_LIMIT: Final = 1_000_000  # all people of a load come from one address


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes."""

    address: str
    certificate: str = ""
    tls: bool = False


def main(argv: Sequence[str]) -> int:
    """Runs a load and returns the exit status: 0, or 1 when a threshold is broken or it could not be run."""
    options = _parser().parse_args(argv)
    console = Console(stderr=True)
    try:
        mix = Mix.load(options.mix)
        if options.thresholds:
            verdicts(options.thresholds, report.Run([], Meter(), 0).summary(_plan(options, Target("-"), mix)))
        with _target(options, console) as target:
            plan = _plan(options, target, mix)
            run = asyncio.run(crew(plan, options.processes, console))
        summary = run.summary(plan)
        held = verdicts(options.thresholds, summary) if options.thresholds else []
    except (PlanError, StackError) as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 1
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(report.page(run, plan, summary, held))
    console.print(f"report: {options.report}", soft_wrap=True)
    for one in held:
        if not one.ok:
            console.print(f"broken: {one.name} is {one.value:g}, wanted {one.wanted}", style="red", soft_wrap=True)
    ok = all(one.ok for one in held)
    sys.stdout.write(json.dumps({"ok": ok, "address": plan.address} | summary) + "\n")
    return 0 if ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make load", description=__doc__.partition("\n")[0] if __doc__ else "")
    add = parser.add_argument
    add("--at", metavar="HOST:PORT", help="the gateway to load; without it, a system of its own is started")
    add("--ca", type=Path, metavar="FILE", help="the gateway's certificate or its authority, PEM; means TLS")
    add("--tls", action="store_true", help="TLS with the system's authorities")
    add("--i-own-this", action="store_true", help="load an address that is not this machine's")
    add("--people", type=_at_least(1), default=60)
    add("--processes", type=_at_least(1), default=1, help="how many share the people")
    add("--ramp", type=float, default=10.0, metavar="S", help="seconds over which they come")
    add("--hold", type=float, default=30.0, metavar="S", help="seconds for which all are there")
    add("--down", type=float, default=10.0, metavar="S", help="seconds over which they go")
    add("--pace", choices=list(Pace), default=Pace.HUMAN, type=Pace)
    add("--mix", type=Path, default=_HERE / "mix.yaml", metavar="FILE", help="who comes, and where they play")
    add("--thresholds", type=Path, metavar="FILE", help="figures that have to hold, tests/load/thresholds.yaml say")
    add("--report", type=Path, default=folders.ROOT / "build" / "load" / "report.html", metavar="FILE")
    add("--seed", type=int, default=1)
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
        return int(text)

    return number


@contextlib.contextmanager
def _target(options: argparse.Namespace, console: Console) -> Iterator[Target]:
    if options.at:
        check_address(options.at, mine=options.i_own_this)
        try:
            certificate = options.ca.read_text() if options.ca else ""
        except OSError as error:
            raise PlanError(f"{options.ca} cannot be read: {error.strerror}.") from None
        yield Target(options.at, certificate, options.tls or bool(certificate))
        return
    scratch = folders.scratch()
    wanted = stack.Options(
        rooms_file=folders.ROOT / "deploy" / ("rooms.fast.yaml" if options.pace == Pace.FLAT_OUT else "rooms.yaml"),
        drain_s=1.0,
        limits=gateway.Limits(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT, _NO_LIMIT),
        extra={"DDZ_ALLOW_BOTS": "1", "DDZ_TABLE_COMMANDS_PER_S": "1000", "DDZ_TABLE_COMMANDS_BURST": "1000"},
    )
    with Leash(scratch) as leash:
        plan = ports.plan(ports.free(ports.count(_TABLE_NODES)), _TABLE_NODES)
        with stack.running(leash, scratch, plan, wanted, lambda step: console.print(f"starting {step} …")) as running:
            yield Target(running.address)


def _plan(options: argparse.Namespace, target: Target, mix: Mix) -> Plan:
    return Plan(
        address=target.address,
        certificate=target.certificate,
        tls=target.tls,
        people=options.people,
        first=0,
        ramp_s=options.ramp,
        hold_s=options.hold,
        down_s=options.down,
        pace=options.pace,
        mix=mix,
        seed=options.seed,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
