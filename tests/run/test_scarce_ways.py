"""Few operators with runs again or hosts: a plan wherever there is one, and no false proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.planners.enumeration import best_order, suits
from milp_plan.run import Settings, solve
from tests.support.seeds import few
from tests.support.ways import scarce_ways
from tests.support.ways_brute import brute_force_ways

SEEDS, CHUNK = 1000, 20
SETTINGS = Settings(time_limit_s=2.0, threads=1)
"""Orders are looked at first, and take much less; searches for better plans then end anywhere."""

pytestmark = pytest.mark.untraced


def by_option(problem: PlanningProblem) -> Iterator[PlanningProblem]:
    """Yield the problem with each choice of one option for each operator."""
    operators = problem.graph.operators
    for chosen in product(*(operator.options for operator in operators)):
        single = tuple(
            replace(operator, options=(option,))
            for operator, option in zip(operators, chosen, strict=True)
        )
        yield replace(problem, graph=replace(problem.graph, operators=single))


def fastest(problem: PlanningProblem) -> int | None:
    """Return the makespan of a plan of two runs and a reload at most, if there is one."""
    found = []
    for single in by_option(replace(problem, objective=Objective.MAKESPAN)):
        try:
            found.append(brute_force_ways(single))
        except AssertionError:  # its best choice reads older copies: it knows nothing then
            continue
    return min((entry[0] for entry in found if entry is not None), default=None)


def below(problem: PlanningProblem, peak: int) -> PlanningProblem:
    """Return the problem with at most so much memory on each device."""
    limits = {
        device.name: peak if device.memory_bytes is None else min(peak, device.memory_bytes)
        for device in problem.cluster.devices
    }
    return replace(problem, cluster=problem.cluster.with_memory(dict(limits)))


CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]


@pytest.mark.parametrize("seeds", few(CHUNKS, 5), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_an_order_wherever_a_plan_exists(seeds: Sequence[int]) -> None:
    used = 0
    for seed in seeds:
        problem = scarce_ways(seed)
        if not problem.has_memory_ways:
            continue
        assert suits(problem)
        found, known = best_order(problem, Budget(60.0)), fastest(problem)
        assert found.complete, problem.name
        assert known is None or found.plan is not None, problem.name
        if found.plan is not None:
            assert verify(problem, found.plan).violations == (), problem.name
            used += len(found.plan.runs) > len(problem.graph.operators)
            used += any(problem.cluster.hosts & {*t.target} for t in found.plan.transfers)
    assert used, "some need runs again or a host"


@pytest.mark.parametrize("seeds", few(CHUNKS, 1), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_nothing_false_and_a_plan_where_there_is_one(seeds: Sequence[int]) -> None:
    for seed in seeds:
        problem = scarce_ways(seed)
        if not problem.has_memory_ways:
            continue
        known, outcome = fastest(problem), solve(problem, SETTINGS)
        told = f"{problem.name}: {outcome.value}, bound {outcome.bound}, known {known}"
        assert not outcome.disputed, told
        assert not outcome.defects, f"{told}: {outcome.defects}"
        if known is not None:
            assert outcome.infeasible_because is None, told
            assert outcome.plan is not None, told
        if outcome.plan is None or outcome.value is None or outcome.bound is None:
            continue
        assert outcome.bound <= outcome.value, told
        if problem.objective is Objective.MAKESPAN and known is not None:
            assert outcome.bound <= known, told
        if problem.objective is Objective.PEAK_MEMORY and outcome.proved and outcome.value:
            assert fastest(below(problem, outcome.value - 1)) is None, told
