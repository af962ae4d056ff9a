"""What a void hand was dealt from is told to all, so that anybody can verify it (D-07)."""

from __future__ import annotations

import pytest

import doudizhu
from doudizhu.hand import Dealt, Voided
from services.table import events, wire
from services.table.commands import SetTrustee
from tests.services.table.sim import classic_table, happy_table, pass_all, rob_match, roundtrip


@pytest.mark.parametrize("book", ["classic", "happy"])
def test_a_hand_in_which_all_pass_reveals_its_seed_to_all(book: str) -> None:
    sim = classic_table(1, 2, 3) if book == "classic" else happy_table(1, 2, 3)
    dealt = next(one.event for one in sim.log if isinstance(one.event, events.Move))
    pass_all(sim)
    told = next(one for one in sim.log if isinstance(one.event, events.Move) and isinstance(one.event.event, Voided))
    (proof,) = wire.event_to(told, None).hand_voided.proofs
    assert doudizhu.commitment(proof.server_seed) == proof.commitment
    one, two, three = proof.client_seeds
    deal = doudizhu.deal_cards(sim.table.book, proof.deal_id, proof.server_seed, (one, two, three))
    assert isinstance(dealt.event, Dealt)
    assert (deal.hands, deal.bottom) == (dealt.event.hands, dealt.event.bottom)
    assert roundtrip(told) == told


def test_a_hand_that_the_table_voids_reveals_the_seeds_of_all_its_deals() -> None:
    sim = rob_match()
    sim.wait_for_clock()
    pass_all(sim)
    for number in range(3):
        sim.act(number, SetTrustee(True))
    while not any(isinstance(one.event, events.HandVoided) for one in sim.log):
        sim.wait_for_clock()
    told = next(one for one in sim.log if isinstance(one.event, events.HandVoided))
    before = sim.log[: sim.log.index(told)]
    committed = [one.event.commitment for one in before if isinstance(one.event, events.Committed)]
    proofs = wire.event_to(told, None).hand_voided.proofs
    assert [doudizhu.commitment(proof.server_seed) for proof in proofs] == committed
    assert roundtrip(told) == told
