"""First plans of sharding problems, without compiled loops."""

from __future__ import annotations

from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingPlan, sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.planners.first import first_choices
from tests.support.sharding import optimum, random_problem


def test_all_choices_are_plans_and_most_problems_have_one() -> None:
    found = wanted = 0
    for seed in range(120):
        problem = random_problem(seed, operators=5, most=3)
        choices = list(first_choices(problem, Budget()))
        for chosen in choices:
            verdict = verify_sharding(problem, ShardingPlan(problem.name, chosen))
            assert verdict.ok, (seed, verdict.violations)
        wanted += optimum(problem) is not None
        found += bool(choices)
    assert wanted > 30
    assert found > 0.7 * wanted


def test_a_strategy_that_leaves_a_neighbour_nothing_is_not_taken() -> None:
    problem = sharding_problem(
        "dead end", [[0, 9], [0, 5]], edges={(1, 0): [[None, 0], [None, None]]}
    )
    assert list(first_choices(problem, Budget())) == [(1, 0)]


def test_the_price_of_memory_rises_until_plans_fit() -> None:
    problem = sharding_problem(
        "tight",
        [[0, 10], [0, 3]],
        usages=[[5, 1], [5, 1]],
        intervals=[(0, 2), (1, 3)],
        limit=6,
    )
    choices = list(first_choices(problem, Budget()))
    assert choices[0] == (1, 1)
    assert (0, 0) not in choices


def test_without_time_there_is_one_choice() -> None:
    problem = sharding_problem("late", [[0, 10]], usages=[[5, 1]], limit=4)
    assert list(first_choices(problem, Budget(0.0))) == [(1,)]
    assert len(list(first_choices(problem, Budget()))) > 1
