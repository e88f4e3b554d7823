"""Clusters along a plan: the coarse problem has it, with its sites and its orders."""

from __future__ import annotations

import random

import pytest

from milp_plan.check import verify
from milp_plan.core import Plan
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.retiming import Retiming
from tests.support.training_graphs import random_training


def orders(plan: Plan) -> dict[str, list[str]]:
    """Operators of each device in the order in which they run there."""
    rows: dict[str, list[tuple[int, int, str]]] = {}
    for run in plan.runs:
        for device in run.devices:
            assert run.start_ticks is not None
            assert run.stop_ticks is not None
            rows.setdefault(device, []).append((run.start_ticks, run.stop_ticks, run.operator))
    return {device: [name for _, _, name in sorted(row)] for device, row in rows.items()}


@pytest.mark.parametrize("seed", range(8))
def test_the_coarse_problem_has_the_plan(seed: int) -> None:
    rng = random.Random(f"along {seed}")
    batches = rng.randint(1, 3)
    problem = random_training(seed, rng.randint(3, 5), batches=batches, branches=seed % 3)
    plan = PLANNERS[rng.choice(["list_topological", "heft", "list_critical_path"])](problem)
    assert plan is not None
    coarsening = coarsen(problem, len(problem.graph.operators) // 2, guide=plan)
    assert len(coarsening.problem.graph.operators) < len(problem.graph.operators)
    rough = coarsening.project(plan)
    assert rough is not None
    start = Retiming(coarsening.problem, rough).earliest(memory=True)
    assert start is not None
    assert verify(coarsening.problem, start).ok
    back = coarsening.undo(start)
    assert verify(problem, back).ok
    assert {r.operator: r.placement for r in back.runs} == {
        r.operator: r.placement for r in plan.runs
    }
    assert orders(back) == orders(plan)
    assert back.stop_ticks <= start.stop_ticks
