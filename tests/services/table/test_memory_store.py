"""The store that benchmarks put under a node keeps up with the one that it stands for."""

from __future__ import annotations

from services.table.store import Store
from tests.bench.table_stand_ins import MemoryStore

# For operators, and for those who look into Redis from outside.
NOT_ASKED_BY_A_NODE_THAT_PLAYS = {"history", "put_aside", "orders", "next_deadline"}


def test_the_store_in_memory_has_all_that_a_node_asks_for() -> None:
    asked = {name for name in vars(Store) if not name.startswith("_")}
    assert asked - vars(MemoryStore).keys() == NOT_ASKED_BY_A_NODE_THAT_PLAYS
