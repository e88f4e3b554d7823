"""Few operators with runs again or hosts: an order wherever there is a plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from milp_plan.check import verify
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.enumeration.memory_orders import best_order, suits
from tests.support.memory_saving import scarce_ways
from tests.support.memory_saving_brute import known_plan
from tests.support.seeds import few

SEEDS, CHUNK = 1000, 20

pytestmark = pytest.mark.untraced


CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]


@pytest.mark.parametrize("seeds", few(CHUNKS, 5), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_an_order_wherever_a_plan_exists(seeds: Sequence[int]) -> None:
    used = 0
    for seed in seeds:
        problem = scarce_ways(seed)
        if not problem.allows_memory_saving:
            continue
        assert suits(problem)
        found, known = best_order(problem, Budget(60.0)), known_plan(problem)
        assert found.complete, problem.name
        assert known is None or found.plan is not None, problem.name
        if found.plan is not None:
            assert verify(problem, found.plan).violations == (), problem.name
            used += len(found.plan.runs) > len(problem.graph.operators)
            used += any(problem.cluster.hosts & {*t.target} for t in found.plan.transfers)
    assert used, "some need runs again or a host"
