"""Every plan of tiny problems, whatever counts: against the oracle and the checker."""

from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.enumeration.every import EveryPlan
from tests.support.anything import optimum, schedule_case
from tests.support.seeds import few


def compare(seed: int) -> None:
    problem = schedule_case(seed)
    assert EveryPlan.suits(problem)
    search, reached = EveryPlan(problem), None
    for plan in search.plans(Budget()):
        verdict = verify(problem, plan)
        assert verdict.ok, (seed, verdict.violations)
        assert verdict.value == search.best, seed
        assert verdict.value is not None
        assert reached is None or verdict.value < reached, seed
        reached = verdict.value
    assert search.complete, seed
    best = optimum(problem)
    assert (search.best, reached) == (best, best), seed
    again = EveryPlan(problem, best)
    assert not list(again.plans(Budget())), seed
    assert again.complete, seed


@pytest.mark.parametrize("first", few(range(0, 80, 20), 2))
def test_finds_the_optimum(first: int) -> None:
    for seed in range(first, first + 20):
        compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(80, 3080, 500))
def test_finds_the_optimum_of_many(first: int) -> None:
    for seed in range(first, first + 500):
        compare(seed)


def waiting(objective: Objective, memory: int = 5) -> PlanningProblem:
    """Two chains on one device each of which fills it with a value until its reader is done."""
    operators = [
        Operator(name, (Option("run", {"c": ticks}),))
        for name, ticks in (("a", 10**9), ("b", 1), ("x", 3), ("y", 7))
    ]
    values = (Value("ab", "a", ("b",), {FULL: 3}), Value("xy", "x", ("y",), {FULL: 3}))
    cluster = Cluster((DeviceClass("c", None),), (Device("d", "c", memory),))
    return PlanningProblem(
        "waiting", ComputationGraph(tuple(operators), values), cluster, objective
    )


@pytest.mark.parametrize(
    ("objective", "memory", "best"),
    [
        (Objective.MAKESPAN, 5, 10**9 + 11),
        (Objective.SPAN, 5, 10**9 + 11),
        (Objective.BOTTLENECK, 5, 10**9 + 11),
        (Objective.PEAK_MEMORY, 5, 3),
        (Objective.MAKESPAN, 2, None),
        (Objective.PEAK_MEMORY, 2, None),
    ],
)
def test_memory_keeps_chains_apart(objective: Objective, memory: int, best: int | None) -> None:
    problem = waiting(objective, memory)
    search = EveryPlan(problem)
    plans = list(search.plans(Budget()))
    assert search.complete
    assert search.best == best
    if best is not None:
        assert verify(problem, plans[-1]).value == best


def test_what_was_not_looked_at_proves_nothing() -> None:
    search = EveryPlan(waiting(Objective.SPAN))
    assert not list(search.plans(Budget(), steps=1))
    assert not search.complete


def test_a_large_group_is_counted_and_not_listed() -> None:
    options = tuple(Option(f"o{n}", {"c": n + 1}) for n in range(20))
    operators = tuple(Operator(f"v{n}", options, group="g") for n in range(10))
    problem = waiting(Objective.SPAN)
    assert not EveryPlan.suits(replace(problem, graph=ComputationGraph(operators)))
