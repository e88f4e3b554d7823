"""The model of chains of devices: its contract, against enumeration."""

from __future__ import annotations

import pytest

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.placement.bounds.chain_windows import chain_windows
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.placement.serial.order import chain_graph
from tests.support.named import case

from .solving import SerialContract


class TestContiguousLoad(SerialContract):
    reference = "contiguous_load"
    seeds = range(6)
    least = 6

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        assert objective is Objective.BOTTLENECK
        return planted_serial(seed, contiguous=True)


@pytest.mark.parametrize("seed", [*range(0, 40, 2), 68, 158])
def test_windows_admit_a_best_plan_for_any_ratio_of_transfers_to_work(seed: int) -> None:
    problem, best = case("contiguous_load", seed)
    graph = read_serial(problem)
    assert not isinstance(graph, str)
    chain = chain_graph(graph)
    for times in (1, 3, 1000, 10**9):
        limit = float(times * (best or 0) / chain.unit)
        windows = chain_windows(chain, limit)
        assert best is None or windows is not None
        assert all(first <= last for first, last in windows or ())
