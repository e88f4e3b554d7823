"""The planted instances formulations are tried on."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.core import PLAIN_OBJECTIVES, MemoryLaw, Objective
from milp_plan.kinds.schedule.model.planted import planted, planted_with_plan
from tests.support.brute import brute_force


@pytest.mark.parametrize("objective", [None, *PLAIN_OBJECTIVES])
def test_the_plan_is_valid_and_the_memory_just_enough(objective: Objective | None) -> None:
    limited = 0
    for seed in range(40):
        problem, plan = planted_with_plan(seed, objective)
        assert problem == planted(seed, objective)
        assert objective in (None, problem.objective)
        static = problem.memory_law is MemoryLaw.STATIC
        assert static == (problem.objective is Objective.BOTTLENECK)
        verdict = verify(problem, plan)
        assert verdict.violations == ()
        assert verdict.value == plan.value
        for device in problem.cluster.devices:
            if device.memory_bytes:
                limited += 1
                less = problem.cluster.with_memory({device.name: device.memory_bytes - 1})
                tighter = type(problem)(
                    problem.name, problem.graph, less, problem.objective, problem.memory_law
                )
                assert {v.rule for v in verify(tighter, plan).violations} >= {"memory"}
    assert limited > 40


def test_most_can_be_improved() -> None:
    """A planted plan is a witness, not an optimum: planners have something to find."""
    better = 0
    for seed in range(30):
        problem, plan = planted_with_plan(seed, Objective.MAKESPAN)
        best = brute_force(problem)
        assert best is not None
        assert plan.value is not None
        assert best[0] <= plan.value
        better += best[0] < plan.value
    assert better > 10
