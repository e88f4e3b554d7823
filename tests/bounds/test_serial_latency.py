import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.placement.bounds.latency import latency_bounds
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds
from tests.support.serial_brute import brute_serial


@pytest.mark.untraced
def test_no_bound_is_above_the_optimum():
    met = 0
    for seed in range(60):
        problem, _ = planted_serial(seed, calls=1 + seed % 3 // 2)
        graph = read_serial(problem)
        assert isinstance(graph, SerialGraph)
        best = brute_serial(problem)
        assert best is not None
        bounds = tuple(latency_bounds(graph, Budget(10.0)))
        assert [bound.name for bound in bounds] == [
            "critical path",
            "path with memory",
            "gates",
        ]
        assert tuple(all_bounds(problem)) == bounds
        for bound in bounds:
            assert 0 <= bound.value <= best[0], (seed, bound)
        met += max(bound.value for bound in bounds) == best[0]
    assert met > 5
