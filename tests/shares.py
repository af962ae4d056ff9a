"""How tests are shared out between processes: what uses one system stays together, what takes longest is first."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Of the fixture `stack`, the whole system: it is started once for all of these.
_STACK = frozenset(
    {
        "tests/deploy/test_backup.py",
        "tests/deploy/test_dashboards.py",
        "tests/deploy/test_gateway.py",
        "tests/deploy/test_gateway_limits.py",
        "tests/deploy/test_reference.py",
        "tests/e2e/test_admin.py",
        "tests/e2e/test_admin_tables.py",
        "tests/e2e/test_sdk.py",
        "tests/e2e/test_terminal.py",
        "tests/e2e/test_traces.py",
    }
)
# Whole systems that the present share uses; they end with it, and do not idle beside the others.
used = contextlib.ExitStack()

# The last to begin would be waited for by all others. What mostly waits lies between what mostly computes.
_LONGEST = (
    "tests/browser",
    "tests/deploy/test_up.py",
    "tests/sim/test_simulator.py",
    "stack",
    "tests/services/table",
    "tests/services/matchmaking",
    "tests/services/ledger",
    "tests/services/lobby",
    "tests/e2e/test_demo.py",
    "tests/load/test_load.py",
    "tests/e2e/test_rolling.py",
    "tests/e2e/test_reconnect.py",
    "tests/edge",
    "tests/sim/test_mutations.py",
)


def share(node_id: str) -> str:
    """The name of those tests that one process runs one after the other: a folder, a file, or the whole system."""
    path = node_id.partition("::")[0]
    folder = path.rpartition("/")[0]
    if folder in ("tests/browser", "tests/edge") or folder.startswith("tests/services/"):
        return folder
    return "stack" if path in _STACK else path


def end_with(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the systems of a share with its last test."""
    if nextitem is not None and share(item.nodeid) != share(nextitem.nodeid):
        used.close()


def require_stack(item: pytest.Item) -> None:
    """Says so when a test uses the whole system and is in no share that does: it may have ended."""
    uses = {"stack"} & set(getattr(item, "fixturenames", ()))
    assert not uses or share(item.nodeid) in ("stack", "tests/browser", "tests/services/table"), (
        f"{item.nodeid.partition('::')[0]} uses the fixture stack: name it in tests/shares.py"
    )


def place(node_id: str) -> int:
    """Where a test stands in the order."""
    name = share(node_id)
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """Gives a process that has nothing left the next share."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by the number of tests, which says nothing of how long they take

    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid)
