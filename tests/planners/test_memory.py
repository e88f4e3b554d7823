"""Plans that fit by runs again and journeys to a host: valid, and no better than the optimum."""

from __future__ import annotations

import pytest

from milp_plan.check import replay, verify
from milp_plan.core.budget import Budget
from milp_plan.planners import best_plan
from milp_plan.planners.memory import fit
from milp_plan.planners.memory.fitting import timed
from milp_plan.planners.memory.layout import AWAY, BASE, Base
from tests.support.seeds import few
from tests.support.ways import planted_ways, tiny_ways
from tests.support.ways_brute import brute_force_ways


def roomy_plan(problem):
    """Return a plan without memory ways, for devices without limit."""
    plain = problem.without_memory_ways
    free = plain.cluster.with_memory(dict.fromkeys(plain.cluster.device_names))
    plan, _ = best_plan(plain.variant(cluster=free))
    assert plan is not None
    return plan


@pytest.mark.parametrize("first", few(range(0, 200, 8), 1))
def test_fitted_plans_are_valid_and_no_better_than_the_optimum(first: int) -> None:
    fitted = best = 0
    for seed in range(first, first + 8):
        problem = tiny_ways(seed)
        found = fit(problem, roomy_plan(problem), Budget())
        if found is None:
            continue
        verdict = verify(problem, found.plan())
        assert verdict.ok, (seed, verdict.violations[:2])
        optimum = brute_force_ways(problem)
        assert optimum is not None, seed
        assert found.makespan == verdict.value >= optimum[0], seed
        fitted += 1
        best += verdict.value == optimum[0]
    assert fitted >= 2
    assert best >= 1


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_back_for_one_reader_is_not_there_for_the_one_before(seed: int) -> None:
    """Two reloads of a value both came before its first reader: the checker refused one of them."""
    problem = tiny_ways(seed)
    base = Base(problem, roomy_plan(problem))
    reads = [
        (place, base.number(run.operator, BASE))
        for run in base.runs
        for place in base.needs[run.operator]
    ]
    now = timed(base, {read: AWAY for read in reads if base.may_wait(read[0])})
    assert not now.layout.wasteful
    said = verify(problem, now.plan()).violations
    assert [breach for breach in said if breach.rule == "supply"] == []


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_what_the_checker_says(seed: int) -> None:
    problem = planted_ways(seed).problem
    now = timed(Base(problem, roomy_plan(problem)), {})
    said = replay(problem, now.plan()).devices
    for name, (_, held) in now.profile.steps.items():
        assert max(held) == said[name].peak_bytes
