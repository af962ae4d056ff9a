"""One system for all attacks, and a hand that must not notice any."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.local.leash import Leash
from deploy.local.stack import Stack
from tests.edge.fort import Bystanders, bystanders, fort


@pytest.fixture(scope="package")
def walls(leash: Leash, scratch: Path) -> Iterator[Stack]:
    """The system; an address may hold 60 streams at a process."""
    with fort(leash, scratch / "fort", extra={"DDZ_STREAMS_PER_ADDRESS": "60"}) as running:
        yield running


@pytest.fixture(scope="package")
async def hand(walls: Stack) -> AsyncIterator[Bystanders]:
    async with bystanders(walls) as found:
        yield found
