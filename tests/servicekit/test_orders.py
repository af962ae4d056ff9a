"""What a process knows of the operators' orders, from the mirror in a real Valkey."""

from __future__ import annotations

import functools

from ddz.admin.v1 import orders_pb2
from servicekit import clients
from servicekit.orders import Orders

KEY = "test:orders"


async def test_a_mirror_that_is_lost_changes_nothing_and_an_empty_one_ends_everything(valkey: str) -> None:
    async with clients.redis(valkey) as redis:
        orders = Orders(functools.partial(redis.get, KEY))
        ban = orders_pb2.Sanction(player_id="p1", banned_until_ms=2**52)
        await redis.set(KEY, orders_pb2.Orders(maintenance="back at noon", sanctions=[ban]).SerializeToString())
        await orders.refresh()
        assert (orders.closed, orders.banned) == (True, ["p1"])
        await redis.delete(KEY)
        await orders.refresh()
        assert (orders.closed, orders.banned) == (True, ["p1"])
        await redis.set(KEY, b"")
        await orders.refresh()
        assert (orders.closed, orders.banned) == (False, [])
        await redis.delete(KEY)
