"""A schedule's model that is asked alone starts from a list schedule."""

from __future__ import annotations

import pytest

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
