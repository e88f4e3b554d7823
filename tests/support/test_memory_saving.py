"""The oracle of problems with re-runs and hosts: what it finds is valid, no bound is above it."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, infeasibility
from tests.support.seeds import few

from .brute import brute_force
from .memory_saving import HOST, tiny_ways
from .memory_saving_brute import brute_force_ways

EACH = 10
"""Problems per test; twenty tests in all, the first of them by default."""


@pytest.mark.parametrize("first", few(range(0, 200, EACH), 1))
def test_the_optimum_is_what_the_checker_says_and_no_bound_is_above_it(first: int) -> None:
    seen = dict.fromkeys(("found", "again", "away", "only so"), 0)
    for seed in range(first, first + EACH):
        problem = tiny_ways(seed)
        found = brute_force_ways(problem)
        plain = brute_force(problem.without_memory_saving)
        assert plain is None or (found is not None and found[0] <= plain[0]), f"seed {seed}"
        if found is None:
            continue
        value, plan = found
        verdict = verify(problem, plan)
        assert (verdict.violations, verdict.value) == ((), value), f"seed {seed}"
        assert infeasibility(problem) is None, f"seed {seed}"
        assert max(bound.value for bound in all_bounds(problem)) <= value, f"seed {seed}"
        seen["found"] += 1
        seen["again"] += len(plan.runs) > len(problem.graph.operators)
        seen["away"] += any(trip.source == (HOST,) for trip in plan.transfers)
        seen["only so"] += plain is None
    assert min(seen.values()) >= 1, seen


SMALL = [seed for seed in range(50) if len(tiny_ways(seed).graph.operators) <= 3]
"""Problems of which three runs of each operator can be enumerated."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SMALL)
def test_more_runs_and_reloads_change_little(seed: int) -> None:
    """What the caps leave out: never a better plan in these problems."""
    problem = tiny_ways(seed)
    usual, more = brute_force_ways(problem), brute_force_ways(problem, runs=3, reloads=2)
    assert (usual and usual[0]) == (more and more[0])
