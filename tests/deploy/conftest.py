"""What several modules of tests at the gateway share."""

from __future__ import annotations

import pytest

from ddz.lobby.v1 import lobby_pb2
from deploy.local.stack import Stack
from tests.deploy.door import log_in


@pytest.fixture(scope="module")
def session(stack: Stack) -> lobby_pb2.Session:
    return log_in(stack, "gateway-test")
