"""A schedule's model that is asked alone starts from a list schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.backends import Stop
from milp_plan.core import Objective
from milp_plan.run import Settings, solve
from tests.support.problems import random_problem

STEADY = Settings(time_limit_s=120.0, node_limit=1, only=True, formulation="operator_schedule")


@pytest.mark.parametrize("target", [None, 3])
def test_a_list_schedule_is_its_start(target: int | None) -> None:
    settings = Settings(**{**vars(STEADY), "target": target})
    told = solve(random_problem(7, objective=Objective.MAKESPAN), settings).record["model"]
    assert told["start_accepted"] is True
    assert told["value"] is not None


def test_a_model_stops_at_the_gap_that_was_asked_for() -> None:
    """The gap went to the run, not to the solver, which went on until nothing was left of it."""
    problem = random_problem(102, objective=Objective.MAKESPAN)
    settings = Settings(time_limit_s=120.0, only=True, formulation="operator_schedule", threads=1)
    best = solve(problem, settings)
    near = solve(problem, replace(settings, gap=0.4))
    assert (best.proved, near.proved) == (True, False)
    assert (near.stop, near.unproved_reason) == (Stop.PROVED, "")
    assert near.bound <= best.value <= near.value
    assert near.record["model"]["nodes"] < best.record["model"]["nodes"]
    assert 0 < near.record["model"]["gap"] <= near.gap <= 0.4
