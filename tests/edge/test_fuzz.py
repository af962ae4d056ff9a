"""`make fuzz` in short: random requests through the gateway beside a live hand, and that a seed repeats them."""

from __future__ import annotations

from deploy.local.stack import Stack
from tests.edge.fuzz import Fuzz, fuzz
from tests.edge.messages import METHODS


async def test_random_messages_and_bytes_find_no_fault_and_change_nothing(walls: Stack) -> None:
    found = await fuzz(walls, 1_500, 1_500, seed=1)
    assert found["wrong"] == []
    assert found["ends"]["OK"] > 100
    assert found["ends"]["INVALID_ARGUMENT"] > 100


def test_a_number_is_the_same_request_again_and_all_calls_have_their_turn() -> None:
    known = {"table_id": ["t1"]}
    first, again = Fuzz(7, known, []), Fuzz(7, known, [])
    asked = [first.request(number, spoil=False) for number in range(1_000)]
    assert asked == [again.request(number, spoil=False) for number in range(1_000)]
    assert {method.name for method, _, _ in asked} == {method.name for method in METHODS}
