"""The staged run: never behind the plan in which everything stays, bounds never above values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import UnsupportedProblemError
from milp_plan.pipeline import Lanes, offload_problem, pipeline_problem, place, uniform
from milp_plan.run import Settings
from milp_plan.run.offload import OffloadAnswer, plan_offload


def answer(cap: int, lane: int, seconds: float = 12.0) -> OffloadAnswer:
    template, activation = uniform(2, 4, (2, 2, 2))
    problem = offload_problem(
        f"small-{cap}-{lane}", template, place("line", 2), Lanes(lane, lane),
        memory_bytes=cap * activation,
    )  # fmt: skip
    found = plan_offload(problem, Settings(time_limit_s=seconds))
    for side in (found.stay, found.travel):
        assert side.plan is not None
        verdict = verify(problem, side.plan)
        assert verdict.ok, verdict.violations
        assert verdict.value == side.value
        assert side.value is not None
        assert side.bound <= side.value
    assert found.travel.value is not None
    assert found.stay.value is not None
    assert found.travel.value <= found.stay.value
    assert not any(run.devices[0].startswith("host-") for run in found.stay.plan.runs)  # type: ignore[union-attr]
    return found


def test_offload_shortens_the_step() -> None:
    found = answer(1, 1)
    assert found.stay.value == 40
    assert found.stay.proved
    assert found.travel.value is not None
    assert found.travel.value < 40
    assert found.found_by != "stay"


def test_without_pressure_nothing_travels() -> None:
    found = answer(4, 1)
    assert found.stay.value == found.travel.value == 26
    assert found.travel.proved
    assert found.found_by == "stay"


def test_known_plans_are_taken_where_they_fit() -> None:
    template, activation = uniform(2, 4)
    problem = offload_problem(
        "slow", template, place("line", 2), Lanes(2, 2), memory_bytes=activation
    )
    first = plan_offload(problem, Settings(time_limit_s=8))
    assert first.travel.plan is not None
    roomy = replace(problem, name="roomy", cluster=problem.cluster.with_memory({"d0": None}))
    again = plan_offload(roomy, Settings(time_limit_s=3), orders=[first.travel.plan])
    assert again.travel.value is not None
    assert again.travel.value <= (first.travel.value or 0)


def test_other_problems_are_refused() -> None:
    template, _ = uniform(2, 2)
    with pytest.raises(UnsupportedProblemError, match="do not hold their channels"):
        plan_offload(pipeline_problem("plain", template, place("line", 2)), Settings())
