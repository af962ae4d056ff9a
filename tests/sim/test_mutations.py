"""The simulator is not blind: each fault that is planted on purpose is found, and found for what it is."""

from __future__ import annotations

import pytest

from tests.sim.system.mutations import MUTATIONS, Mutation
from tests.sim.system.world import simulate

HANDS = 2_000  # within so many it must be found
HANDS_A_RUN = 12


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name.replace(" ", "-") for mutation in MUTATIONS])
def test_the_simulator_finds(mutation: Mutation) -> None:
    played, seed = 0, mutation.seed
    while played < HANDS:
        with mutation.planted():
            report = simulate(seed, HANDS_A_RUN)
        played, seed = played + report.hands, seed + 1
        if report.violation is not None:
            assert mutation.found_as in str(report.violation)
            return
    pytest.fail(f"{mutation.name}: not found in {played} hands")
