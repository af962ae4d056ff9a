"""A real Chromium on the whole system: rooms at a pace at which a person could look on, too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from deploy.local import folders, ports
from deploy.local import stack as whole
from deploy.local.leash import Leash
from tests import shares
from tests.browser.person import Crowd

_NAMES = (
    "chromium-headless-shell",  # the same without windows, for half of the CPU
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# No clock may run out while a browser on a busy machine thinks or has its picture taken; what ends by itself alone
# ends soon.
_CLOCKS = (
    "{base_ms: 60000, agree_ms: 60000, auction_ms: 60000, show_window_ms: 10000, show_ms: 60000, first_lead_ms: 60000, "
    "play_ms: 60000, trustee_ms: 300, countdown_ms: 60000, seed_ms: 10000}"
)


@pytest.fixture(scope="session")
def stack(leash: Leash, scratch: Path) -> Iterator[whole.Stack]:
    """A stack of the browsers' own, with two table nodes."""
    folder = scratch / "browser-stack"
    folder.mkdir()
    shutil.copy(folders.ROOT / "deploy" / "rooms.yaml", folder / "rooms.yaml")
    rooms = folder / "rooms.browser.yaml"
    rooms.write_text(f"extends: rooms.yaml\nclocks: {_CLOCKS}\n")
    plan = ports.plan(ports.free(ports.count(2)), 2)
    yield shares.used.enter_context(whole.running(leash, folder, plan, whole.Options(rooms)))
    shares.used.close()  # nothing is left in it, unless this was the last share


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The machine's Chromium, headless."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium-headless-shell)")
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        await browser.close()


@pytest.fixture
async def crowd(chromium: Browser, stack: whole.Stack) -> AsyncIterator[Crowd]:
    """Makes people with browsers of their own; at the end none of them may have seen an error."""
    people = Crowd(chromium, f"https://{stack.tls_address}")
    yield people
    await people.leave()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker's code, from npm into a temporary folder."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine, from which axe-core comes")
    folder = tmp_path_factory.mktemp("axe")
    (folder / "package.json").write_text(json.dumps({"private": True}))
    command = [npm, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "axe-core@4"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    if done.returncode:
        pytest.skip("npm could not get axe-core")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
