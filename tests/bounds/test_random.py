"""Bounds against the optimum of random tiny problems."""

import pytest

from milp_plan.check import verify
from milp_plan.core import PLAIN_OBJECTIVES, Objective, PlanningProblem
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, infeasibility
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from tests.support.brute import brute_force
from tests.support.problems import random_problem

pytestmark = pytest.mark.untraced

ENUMERATED = [entry for entry in PLAIN_OBJECTIVES if entry is not Objective.SPAN]
"""Objectives the oracle enumerates: the least span may need schedules that are not active."""


def check(problem: PlanningProblem) -> tuple[int, int]:
    found = brute_force(problem)
    assert found is not None
    assert infeasibility(problem) is None
    bounds = tuple(all_bounds(problem))
    for bound in bounds:
        assert bound.value <= found[0], bound
    return max(bound.value for bound in bounds), found[0]


@pytest.mark.parametrize("objective", ENUMERATED)
def test_no_bound_exceeds_the_optimum(objective):
    problems = [random_problem(seed, objective=objective, max_operators=5) for seed in range(24)]
    results = [check(problem) for problem in problems]
    tight = sum(bound == value for bound, value in results)
    assert tight > len(results) // 3


def test_no_bound_exceeds_the_span_of_any_plan():
    compared = 0
    for seed in range(10):
        problem = random_problem(seed, objective=Objective.SPAN)
        bound = max(bound.value for bound in all_bounds(problem))
        for planner in PLANNERS.values():
            plan = planner(problem, seed=seed)
            if plan is not None:
                verdict = verify(problem, plan)
                assert verdict.ok
                assert bound <= verdict.value <= verdict.components["makespan"]
                compared += 1
    assert compared > 50


@pytest.mark.slow
@pytest.mark.parametrize("objective", ENUMERATED)
def test_no_bound_exceeds_the_optimum_of_many(objective):
    for seed in range(1000, 1250):
        check(random_problem(seed, objective=objective))


def test_infeasibility_is_proved_only_where_it_holds():
    refuted = proved = 0
    for seed in range(50):
        problem = random_problem(seed, max_operators=4).with_memory_scale(3, 4)
        claim = infeasibility(problem)
        found = brute_force(problem)
        if found is None:
            refuted += 1
            proved += claim is not None
        else:
            assert claim is None, (seed, claim)
            assert max(bound.value for bound in all_bounds(problem)) <= found[0]
    assert refuted > 10
    assert proved > refuted // 2
