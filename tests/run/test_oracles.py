"""``solve`` on random tiny problems of every kind, each held against all plans there are.

No false proof, no false infeasibility, no plan that the checker refuses, and a plan wherever there
is one. The oracles share no code with planners, models, bounds and the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from milp_plan.core import Objective
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kind_of
from tests.support.anything import optimum, random_case
from tests.support.memory_saving import scarce_ways
from tests.support.memory_saving_brute import known_plan, with_peak
from tests.support.seeds import few
from tests.support.sharding import layered, least_cost
from tests.support.tiny import TINY, Tiny

pytestmark = pytest.mark.untraced

SEEDS, CHUNK = 1000, 20
CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]

LONG = ("schedule", "timeless", "jobs", "paging")
"""Kinds of which forty seeds, not a hundred, take some seconds."""

CASES = [
    case
    for name in TINY
    for case in few([(name, seeds) for seeds in CHUNKS], 2 if name in LONG else 5)
]

ONCE_WRONG = (617, 819, 2293, 490, 648)
"""Plans that exceed a memory of gigabytes by a few bytes: within the tolerances of a solver. The
last one: orders within one instant that precedence contradicts."""


def agrees(problem: Any, best: int | None, kind: Tiny) -> None:
    """Solve a problem, and hold all that is said against the value of its best plan."""
    outcome = solve(problem, Settings(time_limit_s=kind.limit_s))
    reported = f"{problem.name}: value {outcome.value}, bound {outcome.bound}, optimum {best}"
    assert not outcome.disputed, f"{reported}: {outcome.disputed_reason}"
    assert not outcome.defects, f"{reported}: {outcome.defects}"
    if best is None:
        assert (outcome.plan, outcome.proved) == (None, False), reported
        assert outcome.infeasible_reason is not None, reported
        return
    assert outcome.infeasible_reason is None, f"{reported}: {outcome.infeasible_reason}"
    assert outcome.plan is not None, reported
    assert outcome.value is not None
    verdict = kind_of(problem).verify(problem, outcome.plan)
    assert (verdict.violations, verdict.value) == ((), outcome.value), reported
    low = outcome.bound
    assert low is None or low <= best <= outcome.value, reported
    assert outcome.value == best or not outcome.proved, reported
    if kind.within is not None:
        assert low is not None, reported
        assert outcome.value - low <= kind.within * outcome.value, reported


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1][0]}")
def test_nothing_false_of_what_is_tiny(case: tuple[str, range]) -> None:
    name, seeds = case
    kind = TINY[name]
    for seed in seeds:
        problem = kind.draw(seed)
        agrees(problem, kind.optimum(problem), kind)


def test_nothing_false_of_what_once_was_wrong() -> None:
    for seed in ONCE_WRONG:
        problem = random_case(seed)
        agrees(problem, optimum(problem), TINY["schedule"])


@pytest.mark.parametrize("seeds", few(CHUNKS, 1), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_nothing_false_where_operators_run_again_or_hosts_hold(seeds: Sequence[int]) -> None:
    """Enumeration knows a plan here, or none: it looks at two runs and one way back at most."""
    for seed in seeds:
        problem = scarce_ways(seed)
        if not problem.allows_memory_saving:
            continue
        known, outcome = known_plan(problem), solve(problem, Settings(time_limit_s=2.0, threads=1))
        reported = f"{problem.name}: {outcome.value}, bound {outcome.bound}, known {known}"
        assert not outcome.disputed, reported
        assert not outcome.defects, f"{reported}: {outcome.defects}"
        if known is not None:
            assert outcome.infeasible_reason is None, reported
            assert outcome.plan is not None, reported
        if outcome.plan is None or outcome.value is None or outcome.bound is None:
            continue
        assert outcome.bound <= outcome.value, reported
        if problem.objective is not Objective.PEAK_MEMORY:  # no span is above the makespan
            assert known is None or outcome.bound <= known, reported
        elif outcome.proved and outcome.value:
            assert known_plan(with_peak(problem, outcome.value - 1)) is None, reported


@pytest.mark.parametrize("seed", few(range(30), 1))
def test_what_is_small_is_proved_by_its_model(seed: int) -> None:
    """A limit of memory and 4^10 choices: too many to look at, and prices alone leave a gap."""
    problem = layered(seed, 5, width=2)
    outcome = solve(problem, Settings(time_limit_s=600.0))
    assert outcome.proved
    assert outcome.value == outcome.bound == least_cost(problem)
