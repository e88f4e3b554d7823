"""Elimination against brute force: optimum, masks, caps, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from milp_plan.core import InputError
from milp_plan.core.sharding import sharding_problem
from milp_plan.elimination import buckets
from milp_plan.elimination.repeated import repeated
from milp_plan.elimination.search import Caps, eliminate, plan_by_elimination
from milp_plan.kinds.sharding import strategy as sharding
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.run import Settings, solve
from tests.support.shardings import optimum, random_sharding

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_is_the_optimum_of_brute_force(seed: int) -> None:
    problem = random_sharding(seed, density=0.2 + 0.6 * (seed % 3) / 2, masks=0.2 * (seed % 2))
    best = optimum(problem)
    answer = plan_by_elimination(problem)
    assert answer.proved
    assert answer.bound == best
    if best is None:
        assert answer.plan is None
        assert "mask" in answer.reason
        return
    assert answer.plan is not None
    verdict = verify_sharding(problem, answer.plan)
    assert not verdict.violations
    assert verdict.value == best == answer.plan.value


@pytest.mark.parametrize("seed", range(12))
def test_slabs_of_any_size_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_sharding(seed, density=1.0, strategies=4, masks=0.0)
    best = eliminate(repeated(problem)).value
    monkeypatch.setattr(buckets, "SLAB", 7)
    assert eliminate(repeated(problem)).value == best == optimum(problem)


@pytest.mark.parametrize("seed", range(30))
def test_beyond_the_cap_there_is_a_bound_and_perhaps_a_plan(seed: int) -> None:
    problem = random_sharding(seed, density=0.9, masks=0.1 * (seed % 2))
    best = optimum(problem)
    answer = plan_by_elimination(problem, Caps(largest=4))
    if best is None:
        assert answer.plan is None
        return
    assert answer.bound is not None
    assert answer.bound <= best
    if answer.plan is not None:
        verdict = verify_sharding(problem, answer.plan)
        assert not verdict.violations
        assert verdict.value is not None
        assert best <= verdict.value
        assert answer.proved == (answer.bound == verdict.value)
    if not answer.proved:
        assert "cap" in answer.reason


def test_some_small_caps_leave_a_gap() -> None:
    problems = [random_sharding(seed, density=0.9, masks=0.0) for seed in range(30)]
    answers = [plan_by_elimination(problem, Caps(largest=4)) for problem in problems]
    assert sum(not answer.proved for answer in answers) > 5
    assert all(answer.found.ordering.largest > 4 for answer in answers if not answer.proved)


@pytest.mark.parametrize("seed", range(20))
def test_a_binding_limit_is_handed_over_with_a_bound(seed: int) -> None:
    problem = random_sharding(seed, masks=0.0)
    free = plan_by_elimination(problem)
    assert free.plan is not None
    peak = verify_sharding(problem, free.plan).components["peak_usage"]
    loose = plan_by_elimination(replace(problem, limit=peak))
    assert loose.proved
    assert loose.plan is not None
    assert not verify_sharding(replace(problem, limit=peak), loose.plan).violations
    if peak:
        tight = plan_by_elimination(replace(problem, limit=peak - 1))
        assert tight.plan is None
        assert not tight.proved
        assert tight.bound == free.bound
        assert "binds" in tight.reason


def test_equal_buckets_are_computed_once() -> None:
    table = [[0, 3], [4, 1]]
    count = 40
    edges = {(0, number): table for number in range(1, count)}
    problem = sharding_problem("star", [[5, 6]] * count, edges=edges)
    found = eliminate(repeated(problem))
    assert found.computed < 0.2 * found.ordering.entries
    assert found.value == 5 * count
    assert found.chosen == (0,) * count


def test_costs_that_leave_64_bits_are_refused() -> None:
    huge = 2**60
    problem = sharding_problem("huge", [[0, huge], [-huge, huge]])
    with pytest.raises(InputError, match="scale"):
        eliminate(repeated(problem))


def test_equal_tables_are_found_and_written_out_again() -> None:
    problem = random_sharding(5, masks=0.3)
    again = repeated(problem).problem()
    assert np.array_equal(again.strategies.allowed, problem.strategies.allowed)
    assert np.array_equal(again.transitions.allowed, problem.transitions.allowed)
    used = problem.transitions.allowed
    assert np.array_equal(again.transitions.cost[used], problem.transitions.cost[used])
    assert np.array_equal(again.transitions.ends, problem.transitions.ends)


@pytest.mark.parametrize("seed", range(6))
def test_solve_proves_by_elimination_where_memory_plays_no_part(seed: int) -> None:
    problem = random_sharding(seed, density=0.5, masks=0.1)
    best = optimum(problem)
    outcome = solve(problem, Settings(time_limit_s=30.0))
    if best is None:
        assert outcome.infeasible_reason is not None
        return
    assert (outcome.value, outcome.bound, outcome.bound_name) == (best, best, "elimination")
    assert outcome.planner == "elimination"
    assert outcome.proved


def test_what_is_too_wide_is_left_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding, "CAPS", Caps(largest=4))
    problem = random_sharding(1, density=0.9, masks=0.0)
    outcome = solve(problem, Settings(time_limit_s=30.0))
    assert outcome.value == optimum(problem)
    assert outcome.bound_name != "elimination"
    assert any("would exceed the cap" in point["note"] for point in outcome.record["trace"])
    nothing = eliminate(repeated(problem), Caps(largest=4), partly=False)
    assert (nothing.chosen, nothing.bound, nothing.exact, nothing.computed) == (
        None,
        None,
        False,
        0,
    )
