"""Plans that fit by runs again and journeys to a host: valid, and no better than the optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.check import replay, verify
from milp_plan.core import PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from milp_plan.kinds.schedule.planners.memory import balanced, fit
from milp_plan.kinds.schedule.planners.memory.fitting import timed
from milp_plan.kinds.schedule.planners.memory.layout import AWAY, BASE, Base
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from tests.check.cases import cluster, op, value
from tests.check.cases import problem as problem_of
from tests.support.memory_saving import planted_memory_saving, tiny_ways
from tests.support.memory_saving_brute import brute_force_ways
from tests.support.seeds import few


def roomy_plan(problem):
    """Return a plan without memory ways, for devices without limit."""
    plain = problem.without_memory_saving
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
    stated = verify(problem, now.plan()).violations
    assert [breach for breach in stated if breach.rule == "supply"] == []


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_what_the_checker_says(seed: int) -> None:
    problem = planted_memory_saving(seed).problem
    now = timed(Base(problem, roomy_plan(problem)), {})
    stated = replay(problem, now.plan()).devices
    for name, (_, held) in now.profile.steps.items():
        assert max(held) == stated[name].peak_bytes


@pytest.mark.parametrize("first", few(range(0, 200, 8), 1))
def test_balanced_stages_fit_where_nothing_is_in_excess(first: int) -> None:
    fitting = 0
    for seed in range(first, first + 8):
        problem = tiny_ways(seed)
        for near in balanced(problem, Budget()):
            verdict = verify(problem, replace(near.plan, fingerprint=None))
            assert verdict.ok == (not near.excess), (seed, verdict.violations[:2])
            if not near.excess:
                optimum = brute_force_ways(problem)
                assert optimum is not None, seed
                assert near.makespan == verdict.value >= optimum[0], seed
                fitting += 1
    assert fitting >= 3


def layers_with_weights(count: int, limit: int, ticks: int, size: int) -> PlanningProblem:
    """A training step on four devices: weights of five activations in every layer."""
    names = [f"f{i}" for i in range(count)] + [f"b{i}" for i in reversed(range(count))]
    operators = [
        op(name, ticks * (1 + (name[0] == "b")), group=f"layer{name[1:]}",
           recomputable=name[0] == "f")
        for name in names
    ]  # fmt: skip
    values = [value(f"w{i}", None, f"f{i} b{i}", 5 * size) for i in range(count)]
    for i in range(count):
        last = i == count - 1
        values.append(value(f"x{i}", f"f{i}", f"b{i}" if last else f"f{i + 1} b{i}", size))
        if i:
            values.append(value(f"g{i}", f"b{i}", f"b{i - 1}", size))
    return problem_of(operators, values, cluster("d0 d1 d2 d3", memory=limit * size))


@pytest.mark.parametrize(("ticks", "size"), [(1, 1), (123_456_789, 1_000_000_007)])
def test_weights_are_spread_where_nothing_fits_without_runs_again(ticks: int, size: int) -> None:
    """Shipped training steps had no plan in minutes: no schedule without limits could be made fit.

    Weights take 160 of 180, what forward passes leave 32.
    """
    problem = layers_with_weights(32, 45, ticks, size)
    assert infeasibility(problem.without_memory_saving) is not None
    assert infeasibility(problem) is None
    best = balanced(problem, Budget())[0]
    verdict = verify(problem, best.plan)
    assert verdict.ok, verdict.violations[:2]
    assert verdict.value == best.makespan
    assert 64 < len(best.plan.runs) <= 96
