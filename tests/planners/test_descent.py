"""Steps that list schedulers do not take: other options, and sites in each other's place."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.descent import descended
from milp_plan.kinds.schedule.planners.objective import objective_value
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from tests.models.test_windows import gang_and_plain
from tests.support.problems import random_problem_with_plan
from tests.support.seeds import few


def test_one_gang_and_four_plain_operators_are_found() -> None:
    """Every other heuristic ends at 2945: the gang pays only where the rest of its chain runs."""
    problem, known = gang_and_plain()
    others = {name: planner for name, planner in PLANNERS.items() if name != "iterated_greedy"}
    start, values = best_plan(problem, others)
    assert start is not None
    assert min(value for value in values.values() if value is not None) == 2945
    found = descended(problem, start, 1_000)
    assert found.stop_ticks == known.stop_ticks == 2365
    assert verify(problem, found).ok
    plan = PLANNERS["iterated_greedy"](problem)
    assert plan is not None
    assert plan.stop_ticks == 2365


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_it_keeps_every_law_and_is_never_worse(seed: int) -> None:
    problem, plan = random_problem_with_plan(seed)
    found = descended(problem, plan, 200)
    assert verify(problem, found).ok
    assert objective_value(problem, found) <= objective_value(problem, plan)


def test_it_tries_no_more_than_it_may() -> None:
    problem, _ = gang_and_plain()
    others = {name: planner for name, planner in PLANNERS.items() if name != "iterated_greedy"}
    start, _ = best_plan(problem, others)
    assert start is not None
    assert descended(problem, start, 0) == start
    assert descended(problem, start, 1).stop_ticks == 2945
