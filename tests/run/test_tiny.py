"""``solve`` proves what is small: tiny problems of every kind, held against every plan there is."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.run import Settings, solve
from tests.support.seeds import few
from tests.support.sharding import layered, least_cost
from tests.support.tiny import TINY

pytestmark = pytest.mark.untraced

SEEDS, CHUNK = 2000, 20
SETTINGS = Settings(time_limit_s=600.0)
"""Nothing here comes near the limit: everything is proved long before."""


def proved(name: str, seed: int) -> None:
    problem = TINY[name].draw(seed)
    best = TINY[name].optimum(problem)
    outcome = solve(problem, SETTINGS)
    told = f"{name}, seed {seed}: value {outcome.value}, bound {outcome.bound}, optimum {best}"
    assert not outcome.disputed, told
    if best is None:
        assert (outcome.plan, outcome.proved) == (None, False), told
        assert outcome.infeasible_because is not None, told
        return
    assert outcome.infeasible_because is None, told
    assert (outcome.value, outcome.bound) == (best, best), told
    assert outcome.proved, told
    if isinstance(problem, PlanningProblem):
        assert outcome.plan is not None
        assert verify(problem, outcome.plan).value == best, told


@pytest.mark.parametrize("name", TINY)
def test_everything_tiny_is_proved(name: str) -> None:
    for seed in range(CHUNK):
        proved(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, 200))
@pytest.mark.parametrize("name", TINY)
def test_everything_tiny_is_proved_on_many(name: str, first: int) -> None:
    for seed in range(first, first + 200):
        proved(name, seed)


@pytest.mark.parametrize("seed", few(range(30), 1))
def test_what_is_small_is_proved_by_its_model(seed: int) -> None:
    """A limit of memory and 4^10 choices: too many to look at, and prices alone leave a gap."""
    problem = layered(seed, 5, width=2)
    outcome = solve(problem, SETTINGS)
    assert outcome.proved
    assert outcome.value == outcome.bound == least_cost(problem)
