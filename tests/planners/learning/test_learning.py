"""The search that learns clauses, against enumeration of everything and the checker."""

from dataclasses import replace

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import MemoryLaw, Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.planners.learning.search import luby
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.zoo import TRAPS
from tests.support.brute import brute_force
from tests.support.pipeline_of_groups import OPTIMUM, pipeline_of_groups
from tests.support.public import public_file
from tests.support.single import random_single

pytestmark = pytest.mark.untraced

COARSE = {"coarse-4-merged": 34_147_976, "coarse-4-split": 26_131_616}
"""Values that another solver proved optimal."""


def last_of(search: ClauseLearning, problem: PlanningProblem) -> Plan | None:
    """The best plan; all of them are checked, and each is better than the one before."""
    best, value = None, None
    for plan in search.plans(Budget()):
        verdict = verify(problem, plan)
        assert verdict.ok, verdict.violations
        assert verdict.value is not None
        assert value is None or verdict.value < value
        best, value = plan, verdict.value
    return best


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(150), id="some"),
        pytest.param(range(150, 4000), id="many", marks=pytest.mark.slow),
    ],
)
def test_random_problems_are_proved(seeds: range) -> None:
    found = {"plan": 0, "none": 0, "leaves that broke a law": 0}
    for seed in seeds:
        problem = random_single(seed)
        if not ClauseLearning.suits(problem):
            continue
        optimum = brute_force(problem)
        search = ClauseLearning(problem)
        plans = sum(1 for _ in search.plans(Budget()))
        assert search.complete, seed
        assert search.least == (None if optimum is None else optimum[0]), seed
        found["none" if optimum is None else "plan"] += 1
        found["leaves that broke a law"] += search.leaves - plans
    assert all(number > len(seeds) // 10 for number in found.values()), found


@pytest.mark.parametrize("seed", range(12))
def test_plans_keep_the_laws_and_get_better(seed: int) -> None:
    problem = random_single(seed)
    if ClauseLearning.suits(problem):
        last_of(ClauseLearning(problem), problem)


@pytest.mark.parametrize("seed", range(20))
def test_a_known_value_cuts_and_a_plan_is_followed(seed: int) -> None:
    problem = random_single(100 + seed)
    optimum = brute_force(problem) if ClauseLearning.suits(problem) else None
    if optimum is None:
        return
    value, plan = optimum
    search = ClauseLearning(problem, value + 1)
    search.follow(plan)
    assert last_of(search, problem) is not None
    assert (search.complete, search.least) == (True, value)
    search = ClauseLearning(problem)
    search.cut(value)
    assert list(search.plans(Budget())) == []
    assert (search.complete, search.least) == (True, value)


def test_what_is_left_open_has_a_bound() -> None:
    problem = pipeline_of_groups()
    plan, _ = best_plan(problem)
    assert plan is not None
    value = verify(problem, plan).value
    assert value is not None
    search = ClauseLearning(problem, value)
    search.follow(plan)
    bounds = []
    for conflicts in (1, 50, 10**6):
        tuple(search.plans(Budget(), conflicts))
        bounds.append(search.least or 0)
    assert sorted(bounds) == bounds
    assert all(bound <= OPTIMUM for bound in bounds)
    assert search.complete
    assert bounds[-1] == OPTIMUM


def test_runs_are_repeatable() -> None:
    def run() -> tuple[int, list[int | None]]:
        problem = pipeline_of_groups()
        search = ClauseLearning(problem)
        values = [verify(problem, plan).value for plan in search.plans(Budget())]
        return search.conflicts, values

    assert run() == run()


def test_what_does_not_suit() -> None:
    problem = random_single(1)
    assert ClauseLearning.suits(problem)
    assert not ClauseLearning.suits(replace(problem, objective=Objective.PEAK_MEMORY))
    assert not ClauseLearning.suits(replace(problem, memory_law=MemoryLaw.STATIC))
    gangs = [trap.problem for trap in TRAPS if trap.problem.cluster.groups]
    assert gangs
    assert not any(map(ClauseLearning.suits, gangs))


@pytest.mark.parametrize("name", COARSE)
def test_coarse_pipelines_are_proved(name: str) -> None:
    problem = read(public_file(f"coarse/{name}.json"))
    search = ClauseLearning(problem)
    tuple(search.plans(Budget(), 50_000))
    assert (search.complete, search.least) == (True, COARSE[name])


def test_luby() -> None:
    expected = [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
    assert np.array_equal([luby.py_func(n) for n in range(1, 16)], expected)  # type: ignore[attr-defined]
