"""An operator at the gateway, and what tests of his acts ask."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ddz.admin.v1 import admin_pb2
from ddzclient import Gateway, Refusal, Session
from deploy.local.stack import Stack

PASSWORD = "correct horse battery"


class Office:
    """A gateway with an operator who is logged in at it."""

    def __init__(self, stack: Stack, gateway: Gateway, name: str, operator: Session) -> None:
        self.stack = stack
        self.gateway = gateway
        self.name = name
        self.operator = operator

    async def do(self, call: str, act_id: str = "", **fields: Any) -> Any:
        """One act of the operator, by the name of its call."""
        request = getattr(admin_pb2, f"{call}Request")(act_id=act_id or secrets.token_hex(8), reason="a test", **fields)
        return await self.operator.call(getattr(self.gateway.admin, call), request)

    async def guest(self) -> Session:
        return await Session.guest(self.gateway, f"admin-{secrets.token_hex(8)}")

    async def acts(self) -> list[admin_pb2.Act]:
        request = admin_pb2.ListActsRequest(page_size=50)
        return list((await self.operator.call(self.gateway.admin.ListActs, request)).acts)

    async def plays_no_hand(self, table_id: str) -> bool:
        found = await self.operator.call(self.gateway.admin.ReadTable, admin_pb2.ReadTableRequest(table_id=table_id))
        return not found.live_hand_id

    async def nodes(self) -> dict[str, Any]:
        found = await self.operator.call(self.gateway.admin.ListNodes, admin_pb2.ListNodesRequest())
        return {node.node_id: node for node in found.nodes}


async def comes(what: Callable[[], Awaitable[bool]]) -> None:
    """Waits until something holds; other processes hear of orders a little later."""
    async with asyncio.timeout(60):
        while not await what():  # noqa: ASYNC110 - what is waited for is in other processes
            await asyncio.sleep(0.05)


async def refusal(call: Awaitable[Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await call
    return caught.value


async def refused_as(reason: str, call: Callable[[], Awaitable[Any]]) -> bool:
    try:
        await call()
    except Refusal as found:
        return found.reason == reason
    return False
