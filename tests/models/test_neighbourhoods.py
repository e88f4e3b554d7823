"""Models of a part of the problem, the rest as a known plan has it."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random

import pytest

from milp_plan.api import Guide, Neighbourhood, Objective, Plan, PlanningProblem
from milp_plan.check import verify
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.support.problems import random_problem_with_plan
from tests.support.seeds import few

from .solving import formulation, optimise

SEEDS = range(24)
SOME = few(SEEDS, 8)
Case = tuple[PlanningProblem, Plan, int]


@cache
def case(seed: int) -> Case:
    """Return a problem, a random valid plan of it, and its value."""
    problem, plan = random_problem_with_plan(seed, max_operators=5)
    verdict = verify(problem, plan)
    assert verdict.ok
    assert verdict.value is not None
    return problem, plan, verdict.value


def search(seed: int, free: frozenset[str]) -> tuple[Plan, int]:
    """Return the best plan of a neighbourhood and its value."""
    problem, plan, known = case(seed)
    cutoff = known if problem.objective is Objective.MAKESPAN else None
    guide = Guide(cutoff=cutoff, neighbourhood=Neighbourhood(plan, free))
    found = optimise("operator_schedule", problem, guide)
    assert found.verdict.ok, found.verdict.violations
    assert found.verdict.value is not None
    assert found.verdict.value <= known
    return found.plan, found.verdict.value


@pytest.mark.parametrize("seed", SOME)
def test_all_free_is_the_whole_problem(seed: int) -> None:
    problem, _, _ = case(seed)
    whole = optimise("operator_schedule", problem).verdict.value
    assert search(seed, frozenset(problem.graph.topological_order))[1] == whole


def on_devices(plan: Plan) -> dict[str, list[str]]:
    """Device -> operators that take time there, by start."""
    lanes: dict[str, list[tuple[int, str]]] = {}
    for run in plan.runs:
        assert run.start_ns is not None
        if run.stop_ns != run.start_ns:
            for device in run.devices:
                lanes.setdefault(device, []).append((run.start_ns, run.operator))
    return {device: [name for _, name in sorted(lane)] for device, lane in lanes.items()}


@pytest.mark.parametrize("seed", SOME)
def test_none_free_keeps_every_decision(seed: int) -> None:
    _, plan, known = case(seed)
    found, value = search(seed, frozenset())
    assert value <= known
    assert {run.operator: run.placement for run in found.runs} == {
        run.operator: run.placement for run in plan.runs
    }
    assert on_devices(found) == on_devices(plan)


@pytest.mark.parametrize("seed", SOME)
def test_the_rest_keeps_places_and_order(seed: int) -> None:
    problem, plan, _ = case(seed)
    names = problem.graph.topological_order
    free = frozenset(Random(seed).sample(names, len(names) // 2))
    found, value = search(seed, free)
    tied = {
        name
        for members in problem.graph.groups.values()
        if not free.issuperset(members)
        for name in members
    }
    kept = [run for run in plan.runs if run.operator not in free or run.operator in tied]
    assert kept
    for run in kept:
        assert found.run(run.operator).placement == run.placement
    before, after = on_devices(plan), on_devices(found)
    fixed = {name for name in names if name not in free}
    for device, lane in before.items():
        assert [n for n in after.get(device, []) if n in fixed] == [n for n in lane if n in fixed]
    assert value >= search(seed, frozenset(names))[1]


@pytest.mark.parametrize("seed", SOME)
def test_the_plan_is_always_a_start(seed: int) -> None:
    """For every pair of free operators, with and without memory rows and a cutoff."""
    problem, plan, known = case(seed)
    form = formulation("operator_schedule")
    options = form.Options()
    names = problem.graph.topological_order
    choices = [frozenset(pair) for pair in combinations(names, 2)][:6] or [frozenset(names)]
    for free in choices:
        for memory in (True, False):
            guide = Guide(known, 0, Neighbourhood(plan, free), memory=memory)
            source = form.build(problem, options, guide)
            values = form.encode(problem, options, source, plan)
            assert values is not None
            model = compile_pyomo(source)
            amount, where = model.violation(model.vector(values))
            assert amount <= 1e-6, f"{where} by {amount}"


def test_the_sample_has_something_to_find() -> None:
    better = sum(
        search(seed, frozenset(case(seed)[0].graph.topological_order))[1] < case(seed)[2]
        for seed in SEEDS[:8]
    )
    assert better >= 3
