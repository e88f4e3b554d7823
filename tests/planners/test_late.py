"""Plans for spans start as late as the last stop of each device allows, and stay valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.late import put_off
from milp_plan.kinds.schedule.planners.objective import objective_value
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.kinds.schedule.planners.search import annealing
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from tests.support.anything import random_case, timeless_case
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan
from tests.support.seeds import few

pytestmark = pytest.mark.untraced


def test_no_span_grows_and_many_shrink() -> None:
    shrunk = 0
    for seed in range(60):
        problem, plan = random_problem_with_plan(seed, objective=Objective.SPAN)
        before, late = verify(problem, plan), put_off(problem, plan)
        after = verify(problem, late)
        assert after.violations == (), f"seed {seed}"
        spans = [name for name in before.components if name.startswith("span")]
        assert all(after.components[name] <= before.components[name] for name in spans)
        assert after.value == objective_value(problem, late)
        shrunk += after.value < before.value
    assert shrunk >= 5


@pytest.mark.parametrize("seeds", [(982,), *few([range(n, n + 60) for n in range(0, 900, 60)], 1)])
def test_plans_stay_valid_where_much_takes_no_time(seeds: Sequence[int]) -> None:
    """Transfers of one channel at one instant: the last of them is put off first."""
    for seed in seeds:
        problem = replace(timeless_case(seed), objective=Objective.SPAN)
        for make in PLANNERS.values():
            plan = make(problem)
            if plan is None or not plan.has_schedule or not verify(problem, plan).ok:
                continue
            verdict = verify(problem, put_off(problem, plan))
            assert verdict.violations == (), f"{problem.name}: {plan.planner}"
            assert verdict.value <= verify(problem, plan).value


def test_plans_for_other_objectives_stay_as_they_are() -> None:
    problem, plan = random_problem_with_plan(3, objective=Objective.MAKESPAN)
    assert put_off(problem, plan) is plan


@pytest.mark.parametrize("objective", [Objective.SPAN, Objective.BOTTLENECK])
def test_a_search_is_valid_under_other_objectives(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annealing, "BLOCK", 1_000)  # else a hundred moves are tens of thousands
    better = 0
    for seed in range(10):
        problem, _ = random_problem_with_plan(seed, objective=Objective.MAKESPAN)
        problem = replace(problem, objective=objective)
        start, values = best_plan(problem)
        if start is None:
            continue
        assert start.value == min(value for value in values.values() if value is not None)
        slowest = max(
            (plan for make in PLANNERS.values() if (plan := make(problem)) is not None),
            key=lambda plan: objective_value(problem, plan),
        )
        heard = [slowest]
        search = ParallelAnnealing(problem, seed)
        search.add(slowest)
        search.run(Budget(60.0), 100, heard.append)
        found = verify(problem, put_off(problem, heard[-1]))
        assert found.violations == ()
        better += found.value < objective_value(problem, slowest)
    assert better >= 2


@pytest.mark.parametrize("first", few(range(0, 400, 40), 1))
def test_list_schedulers_plan_for_every_objective(first: int) -> None:
    """Most feasible tiny problems get a plan without any model, whatever the objective."""
    plans = feasible = 0
    for seed in range(first, first + 40):
        problem = random_case(seed)
        if problem.serial is None and brute_force(problem) is not None:
            feasible += 1
            plans += best_plan(problem)[0] is not None
    assert plans >= 0.9 * feasible > 10
