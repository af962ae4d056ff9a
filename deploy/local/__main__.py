"""`python -m deploy.local`: what the Makefile calls. One sentence and exit 1 when something cannot be done."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from deploy.local import leash
from deploy.local.process import StackError

DEFAULT_PORT = 24080


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description="The whole system on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="play on a stack of its own, then throw it away")
    demo.add_argument("--hands", type=int, default=int(os.environ.get("HANDS") or 12))
    demo.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    lasting = {
        "up": "start a stack that stays",
        "serve": "hold a stack in the foreground, for `up`",
        "down": "stop that stack",
        "status": "what of it runs",
    }
    for name, text in lasting.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("--folder", type=Path, help="where its data and logs are (default: one in the project)")
        if name in ("down", "status"):
            continue
        command.add_argument("--port", type=int, default=int(os.environ.get("PORT") or DEFAULT_PORT))
        command.add_argument("--table-nodes", type=int, default=int(os.environ.get("TABLE_NODES") or 1))
        if name == "serve":
            command.add_argument("--report", type=int, required=True, help="descriptor to report on")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    if arguments.command == "demo":
        from deploy.local import demo

        for signum in (signal.SIGTERM, signal.SIGHUP):  # end as on Ctrl-C, which asyncio knows how to do
            signal.signal(signum, lambda *_: signal.raise_signal(signal.SIGINT))
        leash.end_with_make()
        demo.main(arguments.hands, arguments.seed)
        return
    from deploy.local import folders, lasting

    folder = folders.lasting(arguments.folder)
    if arguments.command == "up":
        lasting.up(folder, arguments.port, arguments.table_nodes)
    elif arguments.command == "serve":
        lasting.serve(folder, arguments.report, arguments.port, arguments.table_nodes)
    elif arguments.command == "down":
        lasting.down(folder)
    else:
        lasting.status(folder)


def main() -> None:
    """Runs one command; exits 1 with one sentence when it fails, 130 on Ctrl-C."""
    try:
        arguments = _parser().parse_args()
    except ValueError as error:
        sys.exit(f"HANDS, SEED, PORT and TABLE_NODES are whole numbers: {error}.")
    try:
        _run(arguments)
    except StackError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
