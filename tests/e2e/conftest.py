"""What several modules of tests through the whole system share."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from ddzclient import Gateway, Session
from deploy.local.stack import Stack
from services.lobby import store
from tests.e2e.office import PASSWORD, Office


@pytest.fixture
async def office(stack: Stack) -> AsyncIterator[Office]:
    async with Gateway(stack.address) as gateway:
        name = f"op-{secrets.token_hex(6)}"
        await Session.register(gateway, name, PASSWORD)
        await store.appoint(stack.postgres.dsn("ddz_owner"), name)
        yield Office(stack, gateway, name, await Session.log_in(gateway, name, PASSWORD))
