"""``solve`` on random tiny problems of every kind, held against enumeration."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from milp_plan.check import verify
from milp_plan.run import Settings, solve
from tests.support.anything import optimum, random_case
from tests.support.seeds import few

SEEDS, CHUNK = 3000, 12
SETTINGS = Settings(time_limit_s=600.0, node_limit=20_000, rounds=0, gap=0.0)
"""Nodes end a run, never the clock."""

pytestmark = pytest.mark.untraced


ONCE_WRONG = (617, 819, 2293, 490, 648)
"""Plans that exceed a memory of gigabytes by a few bytes: within the tolerances of a solver. The
last one: orders within one instant that precedence contradicts."""

CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]


@pytest.mark.parametrize(
    "seeds", [ONCE_WRONG, *few(CHUNKS, 3)], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}"
)
def test_no_false_proof_no_false_infeasibility_and_a_plan_where_there_is_one(
    seeds: Sequence[int],
) -> None:
    for seed in seeds:
        problem = random_case(seed)
        best = optimum(problem)
        outcome = solve(problem, SETTINGS)
        told = f"seed {seed}: {problem.objective}, value {outcome.value}, bound {outcome.bound}"
        assert not outcome.disputed, f"{told}: {outcome.record['disputed_because']}"
        if best is None:
            assert outcome.plan is None, told
            assert not outcome.proved, told
            assert outcome.infeasible_because is not None, told
            continue
        assert outcome.infeasible_because is None, f"{told}: {outcome.infeasible_because}"
        assert outcome.plan is not None, f"{told}, expected a plan of {best}"
        assert verify(problem, outcome.plan).value == outcome.value, told
        assert outcome.value is not None
        assert outcome.value >= best, told
        assert outcome.bound is not None, told
        assert outcome.bound <= best, f"{told}, expected at most {best}"
        if outcome.proved:
            assert outcome.value == best, f"{told}, expected {best}"
