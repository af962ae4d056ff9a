"""Real servers for the tests, one of each a session, on free ports, gone at the end whatever happens."""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Read when grpc is imported: the tests start processes while channels are open, and none of those uses them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from deploy.local import folders, ports, servers
from deploy.local import stack as whole
from deploy.local.leash import Leash, end_with_make
from tests import shares


def pytest_configure() -> None:
    """Tests under a `make` that is killed end, and their servers with them; no property is timed: machines are busy."""
    end_with_make()
    # A job in the background may have been told to ignore it, and so would all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    os.environ[ports.SHARE] = f"{int(worker.removeprefix('gw')) + 1}/{workers}"
    for name in ("COLUMNS", "LINES"):  # of no terminal: the processes that run tests have none
        os.environ.pop(name, None)
    settings.register_profile("busy", deadline=None)
    settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first."""
    items.sort(key=lambda item: shares.place(item.nodeid))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Only who is known to use the whole system may."""
    shares.require_stack(item)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A whole system ends with the last test that uses it."""
    shares.end_with(item, nextitem)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> shares.Shares:
    """Of pytest-xdist: what uses one system stays in one process."""
    return shares.Shares(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What ran, a line for each folder: while tests run, their processes tell dots alone."""
    ran: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            ran[report.nodeid.partition("::")[0].rpartition("/")[0]][outcome] += 1
    for outcome in ("passed", "failed", "skipped", ""):  # of each test: its set-up, itself, its end
        for report in terminalreporter.stats.get(outcome, []):
            ran[report.nodeid.partition("::")[0].rpartition("/")[0]]["ms"] += round(1000 * report.duration)
    terminalreporter.section("what ran")
    for folder, seen in sorted(ran.items()):
        others = "".join(f", {seen[outcome]} {outcome}" for outcome in ("failed", "error", "skipped") if seen[outcome])
        terminalreporter.write_line(f"{folder:28}{seen['passed']:5} passed {seen['ms'] / 1000:6.1f} s{others}")


@pytest.fixture(scope="session")
def leash() -> Iterator[Leash]:
    """What every process of the session hangs on."""
    with Leash(folders.scratch()) as leash:
        yield leash


@pytest.fixture(scope="session")
def scratch(leash: Leash) -> Path:
    """A folder that goes with the leash."""
    assert leash.scratch is not None
    return leash.scratch


@pytest.fixture(scope="session")
def postgres(leash: Leash, scratch: Path) -> Iterator[servers.Postgres]:
    """Postgres with the database ddz and its roles: `.dsn(role)`, `.superuser_dsn`, `.psql(script, database)`."""
    with servers.postgres(leash, scratch / "postgres", ports.free(1)[0]) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(leash: Leash, scratch: Path) -> Iterator[str]:
    """The URL of a Valkey."""
    with servers.valkey(leash, scratch / "valkey", ports.free(1)[0]) as server:
        yield server.url


@pytest.fixture(scope="session")
def nats(leash: Leash, scratch: Path) -> Iterator[str]:
    """The URL of a NATS with JetStream."""
    with servers.nats(leash, scratch / "nats", ports.free(1)[0]) as server:
        yield server.url


@pytest.fixture(scope="session")
def stack(leash: Leash, scratch: Path) -> Iterator[whole.Stack]:
    """The whole system behind its gateway, with two table nodes and rooms at a fast pace."""
    folder = scratch / "stack"
    folder.mkdir()
    options = whole.Options(rooms_file=folders.ROOT / "deploy" / "rooms.fast.yaml", drain_s=2.0)
    yield shares.used.enter_context(whole.running(leash, folder, ports.plan(ports.free(ports.count(2)), 2), options))
    shares.used.close()  # nothing is left in it, unless this was the last share
