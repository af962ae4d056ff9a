"""`python -m deploy.local`: what the Makefile calls. One sentence and exit 1 when something cannot be done."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deploy.local import interrupt, leash, ports
from deploy.local.process import StackError

if TYPE_CHECKING:
    from deploy.local import lasting

DEFAULT_PORT: Final = 24080  # ddzclient.LOCAL_GATEWAY is its address
_MOST_TABLE_NODES: Final = 16
_MOST_BOTS: Final = 20


def _number(name: str, default: int, what: str, least: int | None = None, greatest: int | None = None) -> Any:
    """Arguments of add_argument for a whole number that the environment gives as `name`.

    Out of its range, or no number, it raises StackError: argparse's own errors would be two lines.
    """

    def read(text: str) -> int:
        digits = text.strip().removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None
        if number is None or not (least is None or least <= number) or not (greatest is None or number <= greatest):
            limits = "" if least is None else f" from {least} to {greatest}"
            raise StackError(f"{name} is {what}: a whole number{limits}, not {text!r}.")
        return number

    # argparse reads a default only when it is a text, and only for the command that was given.
    return {"type": read, "default": os.environ.get(name) or str(default), "help": what, "metavar": name}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description="The whole system on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="play on a stack of its own, then throw it away")
    demo.add_argument("--hands", **_number("HANDS", 12, "how many hands to play", 1, 10_000))
    demo.add_argument("--seed", **_number("SEED", 1, "which deals"))
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
        nodes = _number("TABLE_NODES", 1, "how many table processes to start", 1, _MOST_TABLE_NODES)
        command.add_argument("--table-nodes", **nodes)
        command.add_argument("--bots", **_number("BOTS", 0, "how many bots fill tables in each room", 0, _MOST_BOTS))
        last = 65_536 - ports.count(_MOST_TABLE_NODES)
        command.add_argument("--port", **_number("PORT", DEFAULT_PORT, "the first of the stack's ports", 1024, last))
        command.add_argument("--tls-inside", **_number("TLS_INSIDE", 0, "1 = mTLS between the processes", 0, 1))
        for option, variable in (("--certificate", "CERT"), ("--certificate-key", "CERT_KEY")):
            text = f"the gateway's, as PEM (default: {variable}, or one for development)"
            command.add_argument(option, type=Path, default=os.environ.get(variable) or None, help=text)
        if name == "serve":
            command.add_argument("--report", type=int, required=True, help="descriptor to report on")
    verbs = {"backup": "write its database to a file", "restore": "make its database what a file says"}
    for name, text in verbs.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("--folder", type=Path, help="where its data and logs are (default: one in the project)")
        command.add_argument("file", type=Path, nargs="?" if name == "backup" else None, help="the file")
    operator = commands.add_parser("operator", help="make an account an operator's")
    operator.add_argument("--folder", type=Path, help="where the stack's data is (default: one in the project)")
    operator.add_argument("name", help="the name that the account logs in by")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    if arguments.command in ("demo", "up"):
        interrupt.heed(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if arguments.command == "demo":
        leash.end_with_make()
        from deploy.local import demo

        demo.main(arguments.hands, arguments.seed)
        return
    from deploy.local import folders, lasting

    folder = folders.lasting(arguments.folder)
    if arguments.command == "up":
        leash.end_with_make(lambda: os.kill(os.getpid(), signal.SIGINT))  # its keeper is on no leash of ours
        lasting.up(folder, _wanted(arguments))
    elif arguments.command == "serve":
        lasting.serve(folder, arguments.report, _wanted(arguments))
    elif arguments.command == "down":
        lasting.down(folder)
    elif arguments.command == "operator":
        from deploy.local import operators

        print(operators.appoint(folder, arguments.name))
    elif arguments.command in ("backup", "restore"):
        leash.end_with_make()
        _keep(arguments.command, folder, arguments.file)
    else:
        lasting.status(folder)


def _wanted(arguments: argparse.Namespace) -> lasting.Wanted:
    from deploy.local import lasting

    return lasting.Wanted(
        port=arguments.port,
        table_nodes=arguments.table_nodes,
        bots=arguments.bots,
        tls_inside=bool(arguments.tls_inside),
        certificate=arguments.certificate,
        certificate_key=arguments.certificate_key,
    )


def _keep(command: str, folder: Path, file: Path | None) -> None:
    from deploy.local import backup

    if command == "backup":
        print(f"The database is in {backup.backup(folder, file)}.")
        return
    assert file is not None
    aside = backup.restore(folder, file)
    print(f"The database is what it was in {file}. `make up` starts the stack.")
    for path in aside:
        print(f"  younger than the backup, put aside: {path}")


def main() -> None:
    """Runs one command; exits 1 with one sentence when it fails, 130 on Ctrl-C."""
    try:
        arguments = _parser().parse_args()
        _run(arguments)
    except StackError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
