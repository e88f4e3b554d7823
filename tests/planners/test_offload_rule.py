"""The expert with selective offload: journeys that cost no time."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.kinds.pipeline.experts import EXPERTS
from milp_plan.kinds.pipeline.experts.offload import (
    expert_plan,
    free_trips,
    in_flight_schedule,
    list_schedules,
    usage_peak,
)
from milp_plan.kinds.pipeline.holds import OffloadShop, read_offload
from milp_plan.kinds.pipeline.offload import Lanes, offload_problem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform


def shop(stages: int, batches: int, cap: int, lane: int, kind: str = "line") -> OffloadShop:
    chunks = 2 if kind == "v" else 1
    template, activation = uniform(stages, batches, (2, 2, 2), chunks=chunks)
    problem = offload_problem(
        "case", template, place(kind, stages), Lanes(lane, lane), memory_bytes=cap * activation
    )
    found = read_offload(problem)
    assert not isinstance(found, str)
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("kind", ["line", "v", "dualpipe"])
def test_journeys_cost_no_time_and_fit(kind: str) -> None:
    travelled = 0
    for cap in (2, 3, 4):
        case = shop(4, 8, cap, 1, kind)
        for starts in list_schedules(case):
            trips = free_trips(case, starts)
            if trips is None:
                continue
            plan = case.plan(starts, trips)
            verdict = verify(case.problem, plan)
            assert verdict.ok, verdict.violations
            assert all(plan.run(name).start_ns == start for name, start in starts.items())
            for device, limit in case.limits.items():
                peak = usage_peak(case, device, starts, trips)
                assert peak <= limit
                assert peak == verdict.components[f"peak_memory {device}"]
            travelled += bool(trips)
    assert travelled


def test_the_stage_that_holds_longest_sends_first() -> None:
    case = shop(4, 8, 3, 1)
    starts = in_flight_schedule(case, 4, weights_last=False)
    assert starts is not None
    trips = free_trips(case, starts)
    assert trips
    per_stage = [sum(value.startswith(f"s{stage}@") for value in trips) for stage in range(4)]
    assert per_stage == sorted(per_stage, reverse=True)
    for value in trips:
        held = case.held[value]
        gap = min(starts[r] for r in held.readers) - starts[held.producer] - 2
        assert gap >= held.out_ns + held.back_ns


def test_where_a_round_trip_is_too_long_everything_stays() -> None:
    plan = expert_plan(shop(2, 4, 2, 50))
    assert plan is not None
    assert not any(run.devices[0].startswith("host-") for run in plan.runs)


def test_it_is_a_planner_like_others() -> None:
    case = shop(4, 8, 3, 1)
    plan = EXPERTS["offload"](case.problem)
    assert plan is not None
    assert verify(case.problem, plan).ok
    stay = min(s for s in _values_without_journeys(case))
    assert plan.stop_ns <= stay
    template, _ = uniform(2, 2)
    assert EXPERTS["offload"](pipeline_problem("plain", template, place("line", 2))) is None


def _values_without_journeys(case: OffloadShop) -> list[int]:
    plans = [case.plan(starts, {}) for starts in list_schedules(case)]
    return [plan.stop_ns for plan in plans if verify(case.problem, plan).ok]


def test_a_forward_pass_that_may_never_start_is_no_schedule() -> None:
    template = Template((Stage(1, 1, 1, weight_bytes=1),) * 2, 2)
    problem = offload_problem("same device", template, ((0, 0),), Lanes(1, 1))
    found = read_offload(problem)
    assert not isinstance(found, str)
    assert in_flight_schedule(found, 1) is None
    assert in_flight_schedule(found, 2) is not None
