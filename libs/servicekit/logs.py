"""Logs as one JSON object a line on standard error, with the ids of what is being done, never a card nor a secret.

log = logs.get("table")
log.info("hand settled", extra={"table": table_id, "hand": hand_id})

A line bears what ids.py knows by itself; `extra` is for the rest, and for what is done apart from any call.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from servicekit import ids

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= ids.known()
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(service: str, level: str) -> None:
    """Sets up the root logger; `level` is a name of the logging module such as INFO."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def silence(library: str) -> None:
    """Leaves out what a library logs by itself, below its name."""
    logging.getLogger(library).setLevel(logging.CRITICAL + 1)


def get(name: str) -> logging.Logger:
    """The logger of a module; fields go into `extra`."""
    return logging.getLogger(f"ddz.{name}")
