"""Plans with their decisions as operators: whatever plans those, the way back is valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.memory import Unrolled, merged_plan
from milp_plan.kinds.schedule.planners.memory.merged import merged
from milp_plan.kinds.schedule.planners.memory.unrolled import MARK
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from tests.support.memory_saving import planted_memory_saving, tiny_ways
from tests.support.memory_saving_brute import brute_force_ways
from tests.support.seeds import few

QUICK = {name: PLANNERS[name] for name in ("list_critical_path", "dfs_release", "low_peak")}


def with_limits_of(problem: PlanningProblem, other: PlanningProblem) -> PlanningProblem:
    limits = {device.name: device.memory_bytes for device in other.cluster.devices}
    return problem.variant(cluster=problem.cluster.with_memory(limits))


@pytest.mark.parametrize("first", few(range(0, 400, 40), 1))
def test_plans_come_back_valid(first: int) -> None:
    ways = plans = 0
    for seed in range(first, first + 40):
        problem, plan = planted_memory_saving(seed).problem, planted_memory_saving(seed).plan
        unrolled = Unrolled(problem, plan).problem
        if unrolled is None:
            continue
        free = unrolled.cluster.with_memory(dict.fromkeys(unrolled.cluster.device_names))
        for asked in (unrolled, unrolled.variant(cluster=free)):
            found, _ = best_plan(asked, QUICK)
            if found is None:
                continue
            back = Unrolled(problem, plan).restored(found)
            verdict = verify(with_limits_of(problem, asked), back)
            assert verdict.ok, (seed, verdict.violations[:2])
            assert verdict.value == back.stop_ticks <= found.stop_ticks
            plans += 1
            ways += any(MARK in run.operator for run in found.runs)
    assert plans >= 20
    assert ways >= 5


@pytest.mark.parametrize("first", few(range(0, 60, 3), 1))
def test_decisions_for_one_device_are_valid_and_placed_no_better_than_the_optimum(
    first: int,
) -> None:
    placed = 0
    for seed in range(first, first + 3):
        problem = tiny_ways(seed)
        plan = merged_plan(problem, 1.0, Budget(), seed)
        whole = merged(problem)
        assert whole is not None
        if plan is None:
            continue
        assert verify(whole, replace(plan, fingerprint=None)).ok
        unrolled = Unrolled(problem, plan)
        if unrolled.problem is None:
            continue
        found, _ = best_plan(unrolled.problem, QUICK)
        optimum = brute_force_ways(problem)
        if found is not None:
            verdict = verify(problem, unrolled.restored(found))
            assert verdict.ok, (seed, verdict.violations[:2])
            assert optimum is not None
            assert verdict.value is not None
            assert verdict.value >= optimum[0], seed
            placed += 1
    assert placed >= 1
