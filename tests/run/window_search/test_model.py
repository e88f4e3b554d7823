"""The model of a window against enumeration."""

from dataclasses import replace
from random import Random

import pytest

from milp_plan.backends import Limits, Stop
from milp_plan.backends.highs import Session
from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.kinds.schedule.window_search.model import Model
from milp_plan.kinds.schedule.window_search.reading import read
from milp_plan.kinds.schedule.window_search.scope import Scope
from milp_plan.kinds.schedule.window_search.timeline import Timeline
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan
from tests.support.spread import spread_problem_with_plan

from .oracle import best_of_window, roomy

pytestmark = pytest.mark.untraced

LIMITS = Limits(time_s=60.0, gap=1e-9)
MANY = 10**6


@pytest.fixture(scope="module")
def session():
    """One process for all models."""
    with Session() as found:
        yield found


def drawn(seed, make=random_problem_with_plan, size=5):
    """A problem without memory limits, and a plan of it, by turns of each communication model."""
    model = list(CommunicationModel)[seed % 3]
    problem, plan = make(
        seed, max_operators=size, objective=Objective.MAKESPAN, communication=model
    )
    return roomy(problem), replace(plan, value=None, objective=None, fingerprint=None)


def optimum(session, problem, plan, free, horizon):
    """Value of the plan that the model of a window says; ``None`` where it has none."""
    numbers = [indexed(problem).index[name] for name in free]
    scope = Scope(Timeline(indexed(problem), plan), numbers, horizon)
    if not scope.open:
        return None
    model = Model(scope, MANY)
    if model.impossible:
        return None
    report = session.solve(model.compiled(), LIMITS)
    if report.stop is Stop.INFEASIBLE:
        return None
    assert report.stop is Stop.PROVED
    found = read(model, report.solution)
    verdict = verify(problem, found.plan)
    assert verdict.ok, verdict.violations
    assert verdict.value == found.plan.stop_ticks
    assert verdict.value <= found.claimed + 1 + 1e-6 * horizon
    return verdict.value


@pytest.mark.parametrize("seed", range(24))
def test_where_everything_is_free_it_finds_the_optimum(session, seed):
    problem, plan = drawn(seed)
    names = frozenset(indexed(problem).names)
    best = brute_force(problem)[0]
    assert optimum(session, problem, plan, names, verify(problem, plan).value) == best


def some(problem, seed):
    """Some of the operators."""
    names = indexed(problem).names
    return frozenset(Random(seed).sample(names, min(3, len(names) - 1)))


@pytest.mark.parametrize("seed", range(100, 136))
def test_what_is_not_free_keeps_its_place_and_order(session, seed):
    problem, plan = drawn(seed)
    free = some(problem, seed)
    best = best_of_window(problem, plan, free)
    assert best is not None
    assert best <= verify(problem, plan).value or plan_leaves_elsewhere(problem, plan)
    assert optimum(session, problem, plan, free, max(best, verify(problem, plan).value)) == best
    assert optimum(session, problem, plan, free, best) == best
    assert optimum(session, problem, plan, free, best - 1) is None


def plan_leaves_elsewhere(problem, plan):
    """Whether a transfer of the plan does not leave from the fastest device."""
    return any(len(plan.run(p).devices) > 1
               for t in plan.transfers if (p := problem.graph.value(t.value).producer))  # fmt: skip


@pytest.mark.parametrize("seed", range(200, 224))
def test_magnitudes_like_real_ones(session, seed):
    """From 1 to 10^9 ticks in one problem: as good as the solver's tolerance allows."""
    problem, plan = drawn(seed, spread_problem_with_plan, 4)
    free = some(problem, seed)
    best = best_of_window(problem, plan, free)
    value = max(best, verify(problem, plan).value)
    found = optimum(session, problem, plan, free, value)
    assert best <= found <= best + 1 + 1e-6 * value
