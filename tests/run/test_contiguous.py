"""Runs under the chain law: proofs with and without all ideals, and honest ends without."""

from __future__ import annotations

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.placement.planners import contiguous
from milp_plan.kinds.placement.planners.baselines import CONTIGUOUS
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.run import Outcome, Settings, solve
from tests.support.serial_brute import brute_serial


def planned(problem: PlanningProblem, **settings: float) -> Outcome[PlanningProblem, Plan]:
    """Solve with a short limit, and check what comes back."""
    outcome = solve(problem, Settings(**{"time_limit_s": 600.0, **settings}))  # type: ignore[arg-type]
    if outcome.plan is not None:
        assert verify(problem, outcome.plan).value == outcome.value
    return outcome


@pytest.mark.parametrize("seed", range(6))
def test_proved_by_ideals(seed):
    problem, _ = planted_serial(seed, contiguous=True)
    best = brute_serial(problem)
    assert best is not None
    outcome = planned(problem)
    assert outcome.stop is Stop.PROVED
    assert outcome.value == outcome.bound == best[0]
    assert set(outcome.baselines) == set(CONTIGUOUS)
    reached = [value for value in outcome.baselines.values() if value is not None]
    assert reached
    assert min(reached) >= best[0]


@pytest.mark.parametrize("seed", [2, 5])
def test_proved_by_the_model(seed, monkeypatch):
    monkeypatch.setattr(contiguous, "MAX_IDEALS", 1)
    problem, _ = planted_serial(seed, contiguous=True)
    best = brute_serial(problem)
    assert best is not None
    outcome = planned(problem, node_limit=1000)
    assert outcome.stop is Stop.PROVED
    assert outcome.value == best[0]
    assert "ideals" not in str(outcome.bound_name)


def test_infeasible():
    problem, _ = planted_serial(2, contiguous=True)
    none = dict.fromkeys(problem.cluster.device_names, 0)
    empty = PlanningProblem(
        "empty",
        problem.graph,
        problem.cluster.with_memory(none),
        problem.objective,
        problem.memory_law,
        serial=problem.serial,
    )
    outcome = planned(empty)
    assert (outcome.stop, outcome.plan) == (Stop.INFEASIBLE, None)
    assert outcome.infeasible_reason


def test_no_time():
    problem, _ = planted_serial(4, contiguous=True)
    outcome = planned(problem, time_limit_s=1e-9)
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound <= outcome.value
    assert outcome.proved == (outcome.value == outcome.bound)
