"""The `ddz` command: one module of this package for each subcommand, imported when it is called.

A subcommand is an entry in COMMANDS and a module of that name with two functions: `configure(parser)` adds its
arguments, `run(arguments) -> int` does the work and answers the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

COMMANDS: Final = {
    "admin": "what operators do: drain, close, ban, mute, void, grant, reverse, audit and more",
    "bots": "keep bots waiting in rooms, marked as such, to fill tables where too few people come",
    "play": "play in the terminal: choose a room, wait, take your seat",
    "replay": "look at a recorded hand step by step, and verify its deal",
    "rules": "answer questions about the rules, JSON lines in and out",
    "top": "what the processes do, live: the figures of the dashboards in a terminal",
    "verify": "compute a recorded hand again: deal, play, result and settlement",
    "watch": "look on at a table, live",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit status; `argv` without the program name, default the process's own."""
    if sys.stdout is None:  # closed by who started us
        print("ddz: there is no standard output to write to.", file=sys.stderr)
        return 2
    words = sys.argv[1:] if argv is None else list(argv)
    chosen = next((word for word in words if word in COMMANDS), None)
    parser = argparse.ArgumentParser(prog="ddz", description="Play, watch and run a Dou Dizhu (斗地主) server.")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, what in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=what, description=what)
        if name == chosen:
            importlib.import_module(f"{__name__}.{name}").configure(subparser)
    arguments = parser.parse_args(words)
    try:
        status = int(importlib.import_module(f"{__name__}.{arguments.command}").run(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # Nothing more can be written, at exit either. When who read us has gone, as `| head` does, that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"ddz {arguments.command}: {error.strerror}.", file=sys.stderr)
        return 1
    return status
